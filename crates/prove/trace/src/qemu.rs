//! The QEMU that guests run in: the installed one, or another that the user names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use knee_host::process::output;

use crate::emulators::{self, Emulators};
use crate::error::GuestError;
use crate::package::PackageError;
use crate::process::not_started;
use crate::program;

/// Name of the program on `PATH`.
const QEMU: &str = "qemu-system-x86_64";
/// Names the QEMU to use instead of the installed one.
const VARIABLE: &str = "KNEE_QEMU";
/// How the first line of `qemu-system-x86_64 --version` begins; that of user mode begins otherwise.
const SYSTEM: &str = "QEMU emulator version ";
/// What precedes the version in either.
const WORD: &str = " version ";

/// Why there is no QEMU to start guests with.
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
    /// In a directory of [`Emulators`].
    Root(PathBuf),
}

impl Emulator {
    /// The QEMU that the environment variable `KNEE_QEMU` names, or without it the installed one.
    ///
    /// `KNEE_QEMU` is the path of a program, which has a `/`, or the name of one of [`Emulators`],
    /// which is fetched unless one of that name has been.
    ///
    /// # Errors
    /// `KNEE_QEMU` names a file that does not exist, or a QEMU that cannot be fetched. The installed
    /// QEMU is not looked for before it is started.
    pub fn of_user() -> Result<Emulator, EmulatorError> {
        match Emulator::present() {
            Err(EmulatorError::NotFetched(name)) => {
                Emulators::of_user().fetch(&name).map(|(_, emulator)| emulator)
            }
            present => present,
        }
    }

    /// Like [`Emulator::of_user`], but fetches nothing.
    ///
    /// # Errors
    /// [`EmulatorError::NotFetched`] if it would have to be fetched.
    pub fn present() -> Result<Emulator, EmulatorError> {
        let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
        named.map_or(Ok(Emulator::default()), |named| Emulator::named(&named))
    }

    fn named(named: &OsStr) -> Result<Emulator, EmulatorError> {
        let name = named.to_string_lossy();
        if !name.contains('/') {
            let found = Emulators::of_user().find(&name);
            return found.ok_or_else(|| EmulatorError::NotFetched(name.into_owned()));
        }
        let file = Path::new(named);
        match file.is_file() {
            true => Ok(Emulator { place: Place::File(file.to_owned()) }),
            false => Err(GuestError::NoEmulator(file.to_owned()).into()),
        }
    }

    /// The one that has been unpacked into a directory.
    pub(crate) fn in_root(root: PathBuf) -> Emulator {
        Emulator { place: Place::Root(root) }
    }

    /// Whether it is the one that this machine has on `PATH`.
    pub fn is_installed(&self) -> bool {
        self.place == Place::Installed
    }

    /// What it says of its version, `10.0.13 (Debian 1:10.0.13+ds-0+deb13u1)`.
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
            Place::Root(root) => emulators::command(root),
        }
    }
}

/// What the installed QEMU of user mode says of its version; nothing if it does not say it as QEMU
/// does.
///
/// # Errors
/// It is not installed, or cannot be run.
pub fn qemu_user_version() -> Result<String, GuestError> {
    let said = ask_version(&mut Command::new(program::QEMU))?;
    Ok(version(&said).unwrap_or_default())
}

fn ask_version(command: &mut Command) -> Result<String, GuestError> {
    let output = output(command.arg("--version"));
    let output = output.map_err(|error| not_started(command, error))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let program = PathBuf::from(command.get_program());
        let said = said.lines().next().unwrap_or_default().to_owned();
        return Err(GuestError::Broken { program, said });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn version(said: &str) -> Option<String> {
    let (_, version) = said.lines().next()?.split_once(WORD)?;
    Some(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_what_follows_the_word() {
        let said = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022\n";
        assert_eq!(version(said).as_deref(), Some("7.2.22 (Debian 1:7.2+dfsg-7)"));
        let said = "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7)\n";
        assert_eq!(version(said).as_deref(), Some("7.2.22 (Debian 1:7.2+dfsg-7)"));
        assert_eq!(version("command not found"), None);
    }

    #[test]
    fn a_file_is_started_as_it_is_and_has_to_be_a_qemu() {
        let error = Emulator::named(OsStr::new("/nowhere/qemu")).unwrap_err().to_string();
        assert!(error.contains("KNEE_QEMU") && error.contains("/nowhere/qemu"), "{error}");
        let emulator = Emulator::named(OsStr::new("/bin/true")).unwrap();
        assert_eq!(emulator.command().get_program(), "/bin/true");
        let error = emulator.version().unwrap_err().to_string();
        assert!(error.starts_with("/bin/true is not qemu-system-x86_64"), "{error}");
    }
}
