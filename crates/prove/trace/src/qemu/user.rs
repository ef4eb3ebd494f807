//! QEMU's user mode, which runs a program without emulating a machine.

use std::process::Command;

use super::version::{ask_version, version};
use crate::error::GuestError;

/// Name of the program on `PATH`.
pub(crate) const QEMU_USER: &str = "qemu-x86_64";

/// The version of the installed user-mode QEMU; empty if its output has an unknown format.
///
/// # Errors
/// User-mode QEMU is not installed, or cannot be run.
pub fn qemu_user_version() -> Result<String, GuestError> {
    let output = ask_version(&mut Command::new(QEMU_USER))?;
    Ok(version(&output).unwrap_or_default())
}
