//! Package files in the cache, each with its SHA-256 from apt's signed index beside it.
//!
//! `PACKAGE.deb.sha256` has the format of sha256sum(1), so that `sha256sum -c` can check the package too.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use knee_host::digest::sha256;
use knee_host::{RegularFile, write_atomically};

use crate::package::PackageError;

/// The extension of digest files.
const DIGEST_ENDING: &str = ".sha256";
/// The maximum size of a digest file in bytes. The file contains 64 digits and a file name of at most 255
/// bytes.
const MOST_BYTES: u64 = 1024;

fn digest_file(package: &Path) -> PathBuf {
    let mut path = package.as_os_str().to_owned();
    path.push(DIGEST_ENDING);
    path.into()
}

/// The digest that is recorded beside a package file, if there is one.
pub(crate) fn recorded(package: &Path) -> Option<String> {
    let path = digest_file(package);
    let text = RegularFile::at(&path).at_most(MOST_BYTES).read_to_string().ok()?;
    text.split_whitespace().next().map(str::to_owned)
}

/// Records the digest of a package file.
pub(crate) fn record(package: &Path, digest: &str) -> Result<(), PackageError> {
    let name = package.file_name().unwrap_or_default().display();
    let path = digest_file(package);
    let line = format!("{digest}  {name}\n");
    write_atomically(&path, line.as_bytes()).map_err(PackageError::write(&path))
}

/// Whether a package file has this digest. Returns false if the file cannot be read.
pub(crate) fn has_digest(package: &Path, digest: &str) -> bool {
    RegularFile::at(package).read().is_ok_and(|content| sha256(content) == digest)
}

/// Checks the content of a package file, if its digest is recorded.
pub(crate) fn require_recorded(package: &Path, content: &[u8]) -> Result<(), PackageError> {
    match recorded(package) {
        Some(digest) if digest != sha256(content) => Err(PackageError::Damaged(package.to_owned())),
        _ => Ok(()),
    }
}

/// Removes a package file and its digest.
pub(crate) fn remove(package: &Path) -> Result<(), PackageError> {
    for path in [package, &digest_file(package)] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(PackageError::write(path)(error));
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_must_have_the_digest_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let package = dir.path().join("p_1_amd64.deb");
        fs::write(&package, "abc").unwrap();
        assert_eq!(recorded(&package), None);
        assert!(require_recorded(&package, b"abc").is_ok());
        record(&package, &sha256("abc")).unwrap();
        let line = fs::read_to_string(dir.path().join("p_1_amd64.deb.sha256")).unwrap();
        assert_eq!(line, format!("{}  p_1_amd64.deb\n", sha256("abc")));
        assert!(require_recorded(&package, b"abc").is_ok());
        let error = require_recorded(&package, b"ab").unwrap_err().to_string();
        assert!(error.contains("p_1_amd64.deb does not have the SHA-256"), "{error}");
        assert!(has_digest(&package, &sha256("abc")) && !has_digest(&package, &sha256("ab")));
        remove(&package).unwrap();
        remove(&package).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
