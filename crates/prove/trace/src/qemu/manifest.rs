//! Records the digests of the files of an unpacked QEMU, so that knee runs only what apt has verified.
//!
//! The digests are in the file `SHA256SUMS` in the directory of the QEMU. It has a line in the format of
//! sha256sum(1) for every other file below the directory, and a line for every symbolic link.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use knee_host::digest::sha256;
use knee_host::{RegularFile, write_atomically};

use crate::package::PackageError;

/// The name of the list.
const LIST: &str = "SHA256SUMS";

/// Whether the digests of the files in `root` are recorded.
pub(super) fn is_recorded(root: &Path) -> bool {
    path(root).is_file()
}

/// Records the digests of the files in `root`.
pub(super) fn record(root: &Path) -> Result<(), PackageError> {
    let lines = lines(root).map_err(PackageError::read(root))?;
    let path = path(root);
    write_atomically(&path, lines.as_bytes()).map_err(PackageError::write(&path))
}

/// Whether `root` contains the recorded files, unchanged, and nothing else. Returns false if a file cannot be
/// read.
pub(super) fn is_intact(root: &Path) -> bool {
    let recorded = RegularFile::at(&path(root)).read_to_string();
    recorded.is_ok_and(|recorded| lines(root).is_ok_and(|lines| lines == recorded))
}

fn path(root: &Path) -> PathBuf {
    root.join(LIST)
}

/// The lines of the list, sorted: one for each link and each file below `root`, except the list itself.
fn lines(root: &Path) -> io::Result<String> {
    let mut lines = Vec::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            let (kind, path) = (entry.file_type()?, entry.path());
            let name = path.strip_prefix(root).unwrap_or(&path).display();
            if kind.is_symlink() {
                lines.push(format!("link to {}  {name}\n", fs::read_link(&path)?.display()));
            } else if kind.is_dir() {
                directories.push(path);
            } else if path != self::path(root) {
                lines.push(format!("{}  {name}\n", sha256(RegularFile::at(&path).read()?)));
            }
        }
    }
    lines.sort();
    Ok(lines.concat())
}
