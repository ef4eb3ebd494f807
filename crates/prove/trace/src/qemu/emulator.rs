//! A QEMU that can be started.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::root;
use super::sandbox;
use super::version::{ask_version, version};
use crate::error::GuestError;
use crate::package::PackageError;

/// Name of the program on `PATH`.
const QEMU: &str = "qemu-system-x86_64";
/// The start of the first line of `qemu-system-x86_64 --version`. User-mode QEMU prints a different line.
const SYSTEM: &str = "QEMU emulator version ";

/// Why the chosen QEMU cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// The program that should be QEMU is missing, does not start, or is a different program.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// QEMU cannot be fetched.
    #[error("cannot fetch a QEMU: {0}")]
    Package(#[from] PackageError),
    /// No QEMU has the requested name.
    #[error(
        "no QEMU is named {wanted}; name a release or a version of knee qemu list; KNEE_QEMU can \
         also be the path of a qemu-system-x86_64"
    )]
    Unknown {
        /// The requested name.
        wanted: String,
    },
    /// The chosen QEMU has not been fetched.
    #[error("QEMU {0} has not been fetched; run knee qemu fetch {0}")]
    NotFetched(String),
    /// The files of the chosen QEMU are not those that were fetched.
    #[error(
        "cannot use the QEMU in {}: its files are not those that were fetched; run knee qemu fetch \
         {wanted}",
        root.display()
    )]
    Changed {
        /// The directory of the QEMU.
        root: PathBuf,
        /// The requested name.
        wanted: String,
    },
}

/// A QEMU that can be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emulator {
    place: Place,
}

/// The location of a QEMU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    /// On `PATH`.
    #[default]
    Installed,
    /// In this file.
    File(PathBuf),
    /// Unpacked into a directory of [`Emulators`](super::Emulators).
    Root(PathBuf),
}

impl Emulator {
    /// The QEMU in a file.
    pub(super) fn at(file: &Path) -> Emulator {
        Emulator { place: Place::File(file.to_owned()) }
    }

    /// The QEMU that was unpacked into a directory.
    pub(super) fn in_root(root: PathBuf) -> Emulator {
        Emulator { place: Place::Root(root) }
    }

    /// Whether this is the QEMU on this machine's `PATH`.
    pub fn is_installed(&self) -> bool {
        self.place == Place::Installed
    }

    /// The version that QEMU prints, such as `10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)`.
    ///
    /// # Errors
    /// The program cannot be started, or is not a QEMU that emulates a machine.
    pub fn version(&self) -> Result<String, GuestError> {
        let mut command = self.command();
        let output = ask_version(&mut command)?;
        match output.starts_with(SYSTEM) {
            true => Ok(version(&output).unwrap_or_default()),
            false => Err(GuestError::NotQemu(PathBuf::from(command.get_program()))),
        }
    }

    /// Whether guests run under QEMU's system-call filter. The first call starts QEMU to try the filter.
    pub fn has_sandbox(&self) -> bool {
        !self.sandbox().is_empty()
    }

    /// The arguments that turn on QEMU's system-call filter; empty if the filter does not work.
    pub(crate) fn sandbox(&self) -> &'static [&'static str] {
        sandbox::arguments(self.command())
    }

    /// The command that starts QEMU, to which arguments can be added.
    pub fn command(&self) -> Command {
        match &self.place {
            Place::Installed => Command::new(QEMU),
            Place::File(file) => Command::new(file),
            Place::Root(root) => root::command(root),
        }
    }
}
