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

/// The first executable file named `name` in the directories of `path`, which are separated as in `PATH`.
pub fn find_in(path: &OsStr, name: &str) -> Option<PathBuf> {
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
}
