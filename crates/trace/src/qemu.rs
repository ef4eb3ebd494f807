//! The QEMU that guests run in: the installed one, or another that the user names.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::error::GuestError;
use crate::process::not_started;
use crate::program;

/// Name of the program on `PATH`.
const QEMU: &str = "qemu-system-x86_64";
/// Names the QEMU to use instead of the installed one.
pub(crate) const VARIABLE: &str = "KNEE_QEMU";
/// How the first line of `qemu-system-x86_64 --version` begins; that of user mode begins otherwise.
const SYSTEM: &str = "QEMU emulator version ";
/// What precedes the version in either.
const WORD: &str = " version ";

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
}

impl Emulator {
    /// The QEMU that the environment variable `KNEE_QEMU` names, or without it the installed one.
    ///
    /// # Errors
    /// `KNEE_QEMU` names a file that does not exist. The installed QEMU is not looked for before it
    /// is started.
    pub fn of_user() -> Result<Emulator, GuestError> {
        let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
        named.map_or(Ok(Emulator::default()), |named| Emulator::named(&named))
    }

    fn named(named: &OsStr) -> Result<Emulator, GuestError> {
        let file = Path::new(named);
        match file.is_file() {
            true => Ok(Emulator { place: Place::File(file.to_owned()) }),
            false => Err(GuestError::NoEmulator(file.to_owned())),
        }
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
    let output = command.arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| not_started(command, error))?;
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
