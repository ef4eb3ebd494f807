//! Programs that knee uses: their paths and versions.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::start::output;

/// The first executable file named `name` in the directories of `PATH`.
pub fn find(name: &str) -> Option<PathBuf> {
    find_in(&std::env::var_os("PATH")?, name)
}

fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
    let executable = |file: &PathBuf| {
        file.metadata().is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
    };
    std::env::split_paths(path).map(|dir| dir.join(name)).find(executable)
}

/// The first line that `program --version` prints, if it prints one and succeeds.
pub fn version(program: &Path) -> Option<String> {
    let output = output(Command::new(program).arg("--version").stderr(Stdio::null())).ok()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().next()?.trim();
    (output.status.success() && !line.is_empty()).then(|| line.to_owned())
}

/// Whether the bytes of `file` contain `text`. Shows what an object contains without loading it.
/// `false` if the file cannot be read.
pub fn contains(file: &Path, text: &str) -> bool {
    let needle = text.as_bytes();
    std::fs::read(file).is_ok_and(|bytes| {
        // Looking only where the first byte matches keeps an unoptimised build fast.
        let starts = bytes.iter().enumerate().filter(|(_, byte)| needle.first() == Some(byte));
        starts.into_iter().any(|(at, _)| bytes[at..].starts_with(needle))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_only_if_it_can_be_executed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("tool");
        std::fs::write(&file, "#!/bin/sh\necho tool 1.2\necho more\n").unwrap();
        assert_eq!(find_in(dir.path().as_os_str(), "tool"), None);
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_in(dir.path().as_os_str(), "tool"), Some(file));
    }

    #[test]
    fn the_version_is_the_first_line() {
        let cat = find("cat").unwrap();
        assert!(version(&cat).unwrap().contains("cat"));
        assert_eq!(version(Path::new("/does/not/exist")), None);
    }

    #[test]
    fn a_text_is_found_anywhere_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), b"\0ttestcase\0").unwrap();
        assert!(contains(file.path(), "testcase\0"));
        assert!(!contains(file.path(), "testcases"));
        assert!(!contains(Path::new("/does/not/exist"), "x"));
    }
}
