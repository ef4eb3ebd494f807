//! Where programs that bind a library run.
//!
//! QEMU's user mode runs the program if it supports plugins, because it needs no time to boot.
//! Otherwise, and always with `--kernel`, the program runs in a guest.

use std::path::Path;
use std::time::Duration;

use knee_trace::{Emulator, GuestError, Kernel, ProgramHost, qemu_user_version, user_mode};

use super::emulator::emulator;
use super::kernel::{archive, kernel};
use crate::stderr::tell;

/// A test takes a millisecond; knee treats a longer one as hung after this time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(20);
/// The release that provides the guest kernel without `--kernel`, and the prefix of its kernel
/// version.
const RELEASE: &str = "bookworm";
const VERSION: &str = "6.1";

/// Where the program runs.
pub(crate) enum Place<'a> {
    UserMode,
    Guest {
        emulator: Emulator,
        /// The kernel that the user named.
        kernel: Option<&'a Path>,
        /// Why the program does not run in user mode, as the start of a sentence.
        why: String,
    },
}

impl<'a> Place<'a> {
    /// The place for a program, with the kernel that the user named.
    pub(crate) fn choose(kernel: Option<&'a Path>) -> anyhow::Result<Self> {
        let no_plugins = |reason: &str| {
            let reason = reason.lines().next().unwrap_or_default();
            format!("QEMU's user mode cannot load knee's plugin ({reason}), so ")
        };
        let mut why = String::new();
        if kernel.is_none() {
            why = match user_mode() {
                Ok(()) => return Ok(Self::UserMode),
                Err(GuestError::NoQemu(qemu)) => format!("{qemu} is not installed, so "),
                Err(GuestError::NoPlugins(reason)) => no_plugins(&reason),
                Err(GuestError::NewPluginApi { oldest, .. }) => no_plugins(&format!(
                    "it supports only plugins of API version {oldest} and later"
                )),
                Err(error) => return Err(error.into()),
            };
        }
        Ok(Self::Guest { emulator: emulator()?, kernel, why })
    }

    /// The version of QEMU, marked if it runs a guest, where false sharing differs.
    pub(crate) fn version(&self) -> Result<String, GuestError> {
        match self {
            Self::UserMode => qemu_user_version(),
            Self::Guest { emulator, .. } => Ok(emulator.version()? + ", in a guest"),
        }
    }

    /// The kernel and QEMU for the guest; `None` in user mode.
    pub(crate) fn guest(&self) -> anyhow::Result<Option<(Kernel, &Emulator)>> {
        let Self::Guest { emulator, kernel: named, why } = self else { return Ok(None) };
        let kernel = match named {
            Some(_) => kernel(*named)?,
            None => default_kernel()?,
        };
        tell!("knee: {why}the program runs in a guest with Linux {}", kernel.release());
        Ok(Some((kernel, emulator)))
    }
}

/// The newest fetched kernel of the release; if there is none, fetches the release's newest kernel.
fn default_kernel() -> anyhow::Result<Kernel> {
    let fetched = archive()?.newest_fetched(VERSION);
    // A damaged file is fetched again.
    match fetched.and_then(|file| Kernel::open(&file).ok()) {
        Some(kernel) => Ok(kernel),
        None => kernel(Some(Path::new(RELEASE))),
    }
}

/// What runs the program, with the guest of [`Place::guest`].
pub(crate) fn host<'k>(guest: &'k Option<(Kernel, &'k Emulator)>) -> ProgramHost<'k> {
    match guest {
        None => ProgramHost::UserMode,
        Some((kernel, emulator)) => ProgramHost::Guest(kernel, emulator),
    }
}
