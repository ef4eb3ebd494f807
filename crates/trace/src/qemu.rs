//! Which QEMU there is.

use std::process::{Command, Stdio};

use crate::error::GuestError;
use crate::process::not_started;
use crate::{guest, program};

/// What the QEMU of guests says of its version, `7.2.22 (Debian 1:7.2+dfsg-7+deb12u16)`; nothing if it does
/// not say it as QEMU does.
///
/// # Errors
/// It is not installed, or cannot be run.
pub fn qemu_version() -> Result<String, GuestError> {
    version_of(guest::QEMU)
}

/// … and what that of programs says.
///
/// # Errors
/// As above.
pub fn qemu_user_version() -> Result<String, GuestError> {
    version_of(program::QEMU)
}

fn version_of(qemu: &'static str) -> Result<String, GuestError> {
    let output = Command::new(qemu).arg("--version").stdin(Stdio::null()).output();
    let output = output.map_err(|error| not_started(qemu, error))?;
    Ok(version(&String::from_utf8_lossy(&output.stdout)).unwrap_or_default())
}

fn version(said: &str) -> Option<String> {
    let (_, version) = said.lines().next()?.split_once(" version ")?;
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
}
