//! A QEMU that can be started.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::root;
use super::version::{ask_version, version};
use crate::error::GuestError;
use crate::package::PackageError;

/// Name of the program on `PATH`.
const QEMU: &str = "qemu-system-x86_64";
/// How the first line of `qemu-system-x86_64 --version` begins; that of user mode begins differently.
const SYSTEM: &str = "QEMU emulator version ";

/// Why no QEMU can be started.
#[derive(Debug, thiserror::Error)]
pub enum EmulatorError {
    /// It cannot be started.
    #[error(transparent)]
    Guest(#[from] GuestError),
    /// It cannot be fetched.
    #[error("cannot fetch a QEMU: {0}")]
    Package(#[from] PackageError),
    /// Nothing has that name.
    #[error(
        "no QEMU is named {wanted}; set KNEE_QEMU to the path of a program, a Debian release or \
         the first numbers of a version; available are {known}"
    )]
    Unknown {
        /// The name.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// That QEMU can perhaps be fetched, and has not been.
    #[error("QEMU {0} has not been fetched; run knee qemu fetch {0}")]
    NotFetched(String),
}

/// A QEMU that can be started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Emulator {
    place: Place,
}

/// Where a QEMU is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Place {
    /// On `PATH`.
    #[default]
    Installed,
    /// In this file.
    File(PathBuf),
    /// In a directory of [`Emulators`](super::Emulators).
    Root(PathBuf),
}

impl Emulator {
    /// The program in a file.
    pub(super) fn at(file: &Path) -> Emulator {
        Emulator { place: Place::File(file.to_owned()) }
    }

    /// The one that has been unpacked into a directory.
    pub(super) fn in_root(root: PathBuf) -> Emulator {
        Emulator { place: Place::Root(root) }
    }

    /// Whether it is the one that this machine has on `PATH`.
    pub fn is_installed(&self) -> bool {
        self.place == Place::Installed
    }

    /// The version that it prints, `10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)`.
    ///
    /// # Errors
    /// It cannot be started, or is not a QEMU that emulates a machine.
    pub fn version(&self) -> Result<String, GuestError> {
        let mut command = self.command();
        let said = ask_version(&mut command)?;
        match said.starts_with(SYSTEM) {
            true => Ok(version(&said).unwrap_or_default()),
            false => Err(GuestError::NotQemu(PathBuf::from(command.get_program()))),
        }
    }

    /// The command that starts it; arguments of QEMU can be added.
    pub fn command(&self) -> Command {
        match &self.place {
            Place::Installed => Command::new(QEMU),
            Place::File(file) => Command::new(file),
            Place::Root(root) => root::command(root),
        }
    }
}
