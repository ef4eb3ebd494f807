//! The symbols that QEMU requires of a plugin: the version that it claims and the function that starts
//! it.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::{qemu, scope, session, settings, translate};

/// The environment variable with the version to claim.
const API: &str = "KNEE_PLUGIN_API";
/// The argument with which QEMU only shows that it can load the plugin, and ends.
const PROBE: &str = "probe=on";
/// What the plugin prints then, before the oldest and the newest API version of this QEMU.
const PROBED: &str = "API versions ";
/// Newest version that this plugin was written for.
const NEWEST: c_int = 7;

/// The head of `qemu_info_t`; what follows differs between versions and is not used.
#[repr(C)]
struct RawInfo {
    target: *const c_char,
    least_version: c_int,
    version: c_int,
    /// Whether there is a machine; otherwise a program runs, without a kernel.
    system_emulation: bool,
}

/// The version that this plugin claims to be written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU looks for it by this name")]
static qemu_plugin_version: AtomicI32 = AtomicI32::new(1);

#[used]
#[unsafe(link_section = ".init_array")]
static CHOOSE_VERSION: extern "C" fn() = choose_version;

extern "C" fn choose_version() {
    let chosen = std::env::var(API).ok().and_then(|version| version.parse().ok());
    let with_scoreboards = || qemu::symbol(c"qemu_plugin_scoreboard_new").map(|_| 2);
    if let Some(version) = chosen.or_else(with_scoreboards) {
        qemu_plugin_version.store(version, Relaxed);
    }
}

/// Called once by QEMU when it has loaded the plugin.
///
/// # Safety
/// As QEMU calls it: `info` and `argc` strings at `argv` are valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const RawInfo,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's promise.
    let (info, arguments) = unsafe {
        let argument = |at: usize| CStr::from_ptr(*argv.add(at)).to_string_lossy().into_owned();
        (&*info, (0..usize::try_from(argc).unwrap_or(0)).map(argument).collect::<Vec<_>>())
    };
    // SAFETY: QEMU names its target by a C string.
    let target = unsafe { CStr::from_ptr(info.target) };
    if arguments == [PROBE] {
        eprintln!("knee-plugin: {PROBED}{} to {}", info.least_version, info.version);
        return 1;
    }
    qemu::start(id, info.version);
    scope::set_program(!info.system_emulation);
    let started = match target {
        _ if info.least_version > NEWEST => Err(format!(
            "this QEMU supports plugins of API version {} and later, and this plugin knows versions \
             up to {NEWEST}",
            info.least_version
        )),
        _ if target == c"x86_64" => settings::parse(&arguments).and_then(session::start),
        _ => Err(format!("the guest is {target:?}, and marks are known for x86_64 only")),
    };
    match started {
        Ok(()) => {
            translate::start();
            0
        }
        Err(reason) => {
            eprintln!("knee-plugin: {reason}");
            1
        }
    }
}
