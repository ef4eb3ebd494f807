//! The QEMU that guests run in.

use knee_trace::{Emulator, EmulatorError};

use crate::stderr::tell;

/// The QEMU that guests run in, which is fetched if `KNEE_QEMU` names one that has not been.
pub(crate) fn emulator() -> Result<Emulator, EmulatorError> {
    match Emulator::present() {
        Err(EmulatorError::NotFetched(name)) => {
            tell!("knee: fetching the QEMU of {name}, which KNEE_QEMU names");
            Emulator::of_user()
        }
        present => present,
    }
}
