//! Which QEMU there is.

use std::process::{Command, Stdio};

use crate::{guest, program};

/// What the QEMU of guests says of its version, `7.2.22 (Debian 1:7.2+dfsg-7+deb12u16)`; `None` where
/// it cannot be run.
pub fn qemu_version() -> Option<String> {
    version_of(guest::QEMU)
}

/// … and what that of programs says.
pub fn qemu_user_version() -> Option<String> {
    version_of(program::QEMU)
}

fn version_of(qemu: &str) -> Option<String> {
    let output = Command::new(qemu).arg("--version").stdin(Stdio::null()).output().ok()?;
    version(&String::from_utf8_lossy(&output.stdout))
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
