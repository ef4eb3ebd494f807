//! QEMU's user mode, which runs a program without a machine.

use std::process::Command;

use super::version::{ask_version, version};
use crate::error::GuestError;

/// Name of the program on `PATH`.
pub(crate) const QEMU_USER: &str = "qemu-x86_64";

/// The version of the installed QEMU of user mode; empty if it does not print it as QEMU does.
///
/// # Errors
/// It is not installed, or cannot be run.
pub fn qemu_user_version() -> Result<String, GuestError> {
    let said = ask_version(&mut Command::new(QEMU_USER))?;
    Ok(version(&said).unwrap_or_default())
}
