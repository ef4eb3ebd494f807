//! The QEMU that the user has chosen with `KNEE_QEMU`, or the installed QEMU.

use std::ffi::OsStr;
use std::path::Path;

use super::emulator::{Emulator, EmulatorError};
use super::emulators::Emulators;
use crate::error::GuestError;

/// The environment variable that names the QEMU to use instead of the installed one.
const VARIABLE: &str = "KNEE_QEMU";

impl Emulator {
    /// The QEMU that the environment variable `KNEE_QEMU` names or, if the variable is not set, the
    /// installed QEMU.
    ///
    /// `KNEE_QEMU` is either a program's path, which must contain a `/`, or a name that [`Emulators`]
    /// knows. If it is a name, a QEMU is fetched, unless one with this name has been fetched before.
    ///
    /// # Errors
    /// `KNEE_QEMU` names a file that does not exist, a QEMU that cannot be fetched, or one whose files
    /// somebody has changed. This function does not check that the installed QEMU exists.
    pub fn of_user() -> Result<Emulator, EmulatorError> {
        match Emulator::present() {
            Err(EmulatorError::NotFetched(name)) => {
                Emulators::of_user()?.fetch(&name).map(|(_, emulator)| emulator)
            }
            present => present,
        }
    }

    /// Like [`Emulator::of_user`], but fetches nothing.
    ///
    /// # Errors
    /// Those of [`Emulator::of_user`], and [`EmulatorError::NotFetched`] if the QEMU would have to be
    /// fetched.
    pub fn present() -> Result<Emulator, EmulatorError> {
        let named = std::env::var_os(VARIABLE).filter(|named| !named.is_empty());
        named.map_or(Ok(Emulator::default()), |named| Emulator::named(&named))
    }

    fn named(named: &OsStr) -> Result<Emulator, EmulatorError> {
        let name = named.to_string_lossy();
        if !name.contains('/') {
            let found = Emulators::of_user()?.find(&name)?;
            return found.ok_or_else(|| EmulatorError::NotFetched(name.into_owned()));
        }
        let file = Path::new(named);
        match file.is_file() {
            true => Ok(Emulator::at(file)),
            false => Err(GuestError::NoEmulator(file.to_owned()).into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_started_as_given_and_must_be_a_qemu() {
        let error = Emulator::named(OsStr::new("/nowhere/qemu")).unwrap_err().to_string();
        assert!(error.contains("KNEE_QEMU") && error.contains("/nowhere/qemu"), "{error}");
        let emulator = Emulator::named(OsStr::new("/bin/true")).unwrap();
        assert_eq!(emulator.command().get_program(), "/bin/true");
        let error = emulator.version().unwrap_err().to_string();
        assert!(error.starts_with("/bin/true is not qemu-system-x86_64"), "{error}");
    }
}
