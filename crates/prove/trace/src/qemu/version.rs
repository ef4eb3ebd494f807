//! The version that a QEMU prints.

use std::path::PathBuf;
use std::process::Command;

use knee_host::process::output;

use crate::error::GuestError;
use crate::process::not_started;

/// What precedes the version in the first line of `--version`.
const WORD: &str = " version ";

pub(super) fn ask_version(command: &mut Command) -> Result<String, GuestError> {
    let output = output(command.arg("--version"));
    let output = output.map_err(|error| not_started(command, error))?;
    if !output.status.success() {
        let stderr = String::from_utf8_lossy(&output.stderr);
        let program = PathBuf::from(command.get_program());
        let message = stderr.lines().next().unwrap_or_default().to_owned();
        return Err(GuestError::Broken { program, message });
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn version(printed: &str) -> Option<String> {
    let (_, version) = printed.lines().next()?.split_once(WORD)?;
    Some(version.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_is_the_text_after_the_word_version() {
        let printed =
            "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003-2022\n";
        assert_eq!(version(printed).as_deref(), Some("7.2.22 (Debian 1:7.2+dfsg-7)"));
        let printed = "qemu-x86_64 version 7.2.22 (Debian 1:7.2+dfsg-7)\n";
        assert_eq!(version(printed).as_deref(), Some("7.2.22 (Debian 1:7.2+dfsg-7)"));
        assert_eq!(version("command not found"), None);
    }
}
