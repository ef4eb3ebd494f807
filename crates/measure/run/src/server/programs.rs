//! The programs that a description needs.

use std::ffi::OsString;
use std::path::PathBuf;

use knee_host::process::program;

use crate::description::Server;
use crate::job::{Failure, FailureKind};

/// The directories in which the programs of `server` are looked for, as in `PATH`.
pub(super) fn path(server: &Server) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let own = server.path.iter().filter_map(|pattern| {
        let found = glob::glob(pattern).ok()?.flatten();
        // The greatest version, such as 15 after 9.6.
        found.max_by_key(|dir| versions(&dir.to_string_lossy()))
    });
    let directories: Vec<PathBuf> = std::env::split_paths(&path).chain(own).collect();
    // A directory of `PATH` contains no separator, and a match with one is of no use.
    std::env::join_paths(directories).unwrap_or(path)
}

/// The numbers in a path, and the path.
fn versions(path: &str) -> (Vec<u64>, String) {
    let numbers =
        path.split(|c: char| !c.is_ascii_digit()).filter_map(|digits| digits.parse().ok());
    (numbers.collect(), path.to_owned())
}

/// Checks that all programs of `server` are installed.
///
/// # Errors
/// The failure names the Debian package of a missing program.
pub fn check(server: &Server) -> Result<(), Failure> {
    let path = path(server);
    let is_missing = |program: &str| program::find_in(&path, program).is_none();
    match server.needs.iter().find(|need| is_missing(&need.program)) {
        Some(need) => Err(Failure::new(
            FailureKind::CannotRun,
            format!("the program {} is missing", need.program),
            format!("apt-get install {}", need.package),
        )),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(path: &str, program: &str) -> Server {
        let text = format!(
            "name = 'a'\npath = ['{path}']\nneeds = [{{ program = '{program}', package = 'the-package' }}]\n\
             [server]\ncommand = 'a'\n[load]\ncommand = 'b'\n[ready]\noutput = 'up'\n"
        );
        Server::parse(&text).unwrap()
    }

    #[test]
    fn a_missing_program_is_reported_with_its_package() {
        assert_eq!(check(&server("/", "sh")), Ok(()));
        let failure = check(&server("/", "no-such-program")).unwrap_err();
        assert_eq!(failure.reason, "the program no-such-program is missing");
        assert_eq!(failure.remedy, "apt-get install the-package");
    }

    #[test]
    fn the_newest_version_is_used() {
        let versions = tempfile::tempdir().unwrap();
        for version in ["9.6", "15", "13"] {
            std::fs::create_dir_all(versions.path().join(version).join("bin")).unwrap();
        }
        let pattern = versions.path().join("*/bin");
        let path = path(&server(pattern.to_str().unwrap(), "sh"));
        let last = std::env::split_paths(&path).last().unwrap();
        assert_eq!(last, versions.path().join("15/bin"));
    }
}
