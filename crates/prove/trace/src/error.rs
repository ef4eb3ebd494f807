//! What can go wrong with a guest, and what to do.

use std::io;
use std::path::PathBuf;

use crate::record::RecordError;

/// Why a guest cannot be started or continued.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// QEMU is not installed.
    #[error("{0} is not installed: apt-get install {package}", package = package(.0))]
    NoQemu(String),
    /// QEMU cannot even print its version.
    #[error("cannot run {program}: {said}", program = program.display())]
    Broken {
        /// The program.
        program: PathBuf,
        /// The first line of its complaints.
        said: String,
    },
    /// QEMU cannot load plugins.
    #[error("this QEMU cannot load knee's plugin: {0}; choose another QEMU with KNEE_QEMU")]
    NoPlugins(String),
    /// QEMU is newer than the plugin.
    #[error(
        "this QEMU supports only plugins of API version {oldest} and later, but this knee \
         supports versions up to {newest}; choose an older QEMU with KNEE_QEMU, or update knee"
    )]
    NewPluginApi {
        /// The oldest version that QEMU supports.
        oldest: u32,
        /// The newest version that the plugin knows.
        newest: u32,
    },
    /// The QEMU that the user names does not exist, or what it needs to run does not.
    #[error(
        "cannot start {path}: it does not exist; set KNEE_QEMU to a qemu-system-x86_64, or unset it \
         to use the installed one",
        path = .0.display()
    )]
    NoEmulator(PathBuf),
    /// The QEMU that the user names is another program.
    #[error(
        "{path} is not qemu-system-x86_64: its --version does not name QEMU; set KNEE_QEMU to one, or \
         unset it to use the installed one",
        path = .0.display()
    )]
    NotQemu(PathBuf),
    /// A program cannot be run in a guest.
    #[error("cannot run {program} in a guest: {reason}", program = program.display())]
    Program {
        /// Its file.
        program: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The plugin is another than this knee's.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// The system refused something that a guest needs.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
}

/// Debian's package of a QEMU.
fn package(qemu: &str) -> &'static str {
    match qemu {
        "qemu-x86_64" => "qemu-user",
        _ => "qemu-system-x86",
    }
}

impl GuestError {
    pub(crate) fn system(what: &'static str) -> impl Fn(io::Error) -> GuestError {
        move |source| GuestError::System { what, source }
    }

    pub(crate) fn errno(what: &'static str) -> impl Fn(rustix::io::Errno) -> GuestError {
        move |errno| GuestError::System { what, source: errno.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_about_a_missing_qemu_names_its_package() {
        let told = |qemu: &str| GuestError::NoQemu(qemu.to_owned()).to_string();
        assert!(told("qemu-x86_64").ends_with("apt-get install qemu-user"));
        assert!(told("qemu-system-x86_64").ends_with("apt-get install qemu-system-x86"));
    }
}
