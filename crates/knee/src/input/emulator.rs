//! The QEMU for guests.

use knee_trace::{Emulator, EmulatorError};

use crate::stderr::tell;

/// The QEMU for guests. Fetches it if `KNEE_QEMU` selects one that has not been fetched.
pub(crate) fn emulator() -> Result<Emulator, EmulatorError> {
    match Emulator::present() {
        Err(EmulatorError::NotFetched(name)) => {
            tell!("knee: fetching QEMU {name} (selected by KNEE_QEMU)");
            Emulator::of_user()
        }
        present => present,
    }
}
