//! Errors of guests, with remedies.

use std::io;
use std::path::PathBuf;

use crate::record::RecordError;

/// Why a guest cannot be started or continued.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// QEMU is not installed.
    #[error("{0} is not installed: apt-get install {package}", package = package(.0))]
    NoQemu(String),
    /// QEMU failed to print its version.
    #[error("cannot run {program}: {message}", program = program.display())]
    Broken {
        /// The program.
        program: PathBuf,
        /// The first line of QEMU's standard error.
        message: String,
    },
    /// QEMU cannot load plugins.
    #[error("this QEMU cannot load knee's plugin: {0}; choose another QEMU with KNEE_QEMU")]
    NoPlugins(String),
    /// QEMU no longer supports the plugin's API versions.
    #[error(
        "this QEMU supports only plugins of API version {oldest} and later, but this knee \
         supports versions up to {newest}; choose an older QEMU with KNEE_QEMU, or update knee"
    )]
    NewPluginApi {
        /// The oldest API version that QEMU supports.
        oldest: u32,
        /// The newest API version that the plugin supports.
        newest: u32,
    },
    /// The chosen QEMU does not exist, or its dynamic linker is missing.
    #[error(
        "cannot start {path}: it does not exist; set KNEE_QEMU to a qemu-system-x86_64, or unset it \
         to use the installed one",
        path = .0.display()
    )]
    NoEmulator(PathBuf),
    /// The file that the user chose as QEMU is a different program.
    #[error(
        "{path} is not qemu-system-x86_64: its --version does not name QEMU; set KNEE_QEMU to a \
         qemu-system-x86_64, or unset it to use the installed one",
        path = .0.display()
    )]
    NotQemu(PathBuf),
    /// A program cannot be run in a guest.
    #[error("cannot run {program} in a guest: {reason}", program = program.display())]
    Program {
        /// Its file.
        program: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The memory nodes of a guest would have different sizes.
    #[error("cannot divide {cpus} CPUs and {memory} MiB equally among {nodes} memory nodes")]
    Nodes {
        /// The number of virtual CPUs.
        cpus: u32,
        /// The memory in MiB.
        memory: u32,
        /// The number of memory nodes.
        nodes: u32,
    },
    /// The plugin wrote a line that this version of knee cannot read.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A guest or a program reports far more than its tests can produce.
    #[error(
        "the guest or program reports far more {0} than its tests can have; check only kernels and \
         programs that you trust"
    )]
    TooMany(&'static str),
    /// A system call for a guest failed.
    #[error("cannot {what}: {source}")]
    System {
        /// The action that failed, as a verb phrase.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
}

/// The Debian package that contains the program `qemu`.
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
        let message = |qemu: &str| GuestError::NoQemu(qemu.to_owned()).to_string();
        assert!(message("qemu-x86_64").ends_with("apt-get install qemu-user"));
        assert!(message("qemu-system-x86_64").ends_with("apt-get install qemu-system-x86"));
    }
}
