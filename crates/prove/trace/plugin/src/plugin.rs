//! The symbols that QEMU requires of a plugin: its API version and its start function.

use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use crate::{qemu, scope, session, settings, translate};

/// The environment variable that holds the API version to claim.
const API: &str = "KNEE_PLUGIN_API";
/// The argument that makes the plugin print QEMU's API versions and makes QEMU exit.
const PROBE: &str = "probe=on";
/// The text that the plugin prints before the oldest and the newest API version of this QEMU.
const PROBED: &str = "API versions ";
/// The newest API version that this plugin supports.
const NEWEST: c_int = 7;

/// The first fields of `qemu_info_t`. Later fields differ between versions and are not used.
#[repr(C)]
struct RawInfo {
    target: *const c_char,
    least_version: c_int,
    version: c_int,
    /// Whether QEMU emulates a machine. If false, QEMU runs a program without a kernel.
    system_emulation: bool,
}

/// The API version that this plugin claims to be written for.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "QEMU finds the symbol by this name")]
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

/// QEMU calls this once, after it has loaded the plugin. Returns 0 if the plugin has started.
///
/// # Safety
/// `info` and the `argc` strings at `argv` are valid.
#[unsafe(no_mangle)]
unsafe extern "C" fn qemu_plugin_install(
    id: u64,
    info: *const RawInfo,
    argc: c_int,
    argv: *const *const c_char,
) -> c_int {
    // SAFETY: the caller guarantees that `info` and the strings at `argv` are valid.
    let (info, arguments) = unsafe {
        let argument = |at: usize| CStr::from_ptr(*argv.add(at)).to_string_lossy().into_owned();
        (&*info, (0..usize::try_from(argc).unwrap_or(0)).map(argument).collect::<Vec<_>>())
    };
    // SAFETY: QEMU's target is a C string.
    let target = unsafe { CStr::from_ptr(info.target) };
    if arguments == [PROBE] {
        eprintln!("knee-plugin: {PROBED}{} to {}", info.least_version, info.version);
        return 1;
    }
    qemu::start(id, info.version);
    scope::set_program(!info.system_emulation);
    let started = match target {
        _ if info.least_version > NEWEST => Err(format!(
            "this QEMU requires plugins of API version {} or later, but this plugin supports only \
             versions up to {NEWEST}",
            info.least_version
        )),
        _ if target == c"x86_64" => settings::parse(&arguments).and_then(session::start),
        _ => Err(format!("the guest is {target:?}, but the plugin supports only x86_64")),
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
