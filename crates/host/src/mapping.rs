//! Files that are mapped into memory.
//!
//! The kernel kills a process that reads a mapping beyond the end of its file (SIGBUS). So a file must not become
//! shorter while it is mapped, and another user who may write to it could truncate it at any time.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;

use rustix::fs::{MemfdFlags, memfd_create};

use crate::regular_file::{FileError, has_acl, others_can_write};
use crate::users;

/// Whether only root and this user can change an open file.
///
/// # Errors
/// The system does not tell who owns the file.
pub fn is_trusted(file: &File) -> io::Result<bool> {
    let found = file.metadata()?;
    let can_change = || others_can_write(found.mode(), found.gid(), || has_acl(file));
    Ok(users::is_trusted(found.uid()) && !can_change())
}

/// The file itself if only root and this user can change it, and otherwise a [`copy`] of at most `most_bytes`.
///
/// # Errors
/// The file cannot be copied, or is larger than the limit.
pub fn mappable(file: File, most_bytes: u64) -> Result<File, FileError> {
    if is_trusted(&file)? { Ok(file) } else { copy(file, most_bytes) }
}

/// A copy of a file in memory, which nobody else can open. The file may change meanwhile. The copy has at most as many
/// bytes as the file had at the beginning.
///
/// # Errors
/// The file cannot be copied, or has more than `most_bytes`, or its length is 0. Files in `/proc` and `/sys` have that
/// length, whatever they contain: `/proc/PID/pagemap` has petabytes.
pub fn copy(mut file: File, most_bytes: u64) -> Result<File, FileError> {
    let length = file.metadata()?.len();
    if length > most_bytes {
        return Err(FileError::TooLarge(most_bytes));
    }
    if length == 0 {
        return Err(FileError::Empty);
    }
    let copy = memfd_create("knee-copy", MemfdFlags::CLOEXEC).map_err(io::Error::from)?;
    let mut copy = File::from(copy);
    file.rewind()?;
    io::copy(&mut file.take(length), &mut copy)?;
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{FileExt, PermissionsExt, chown};

    use rustix::process::geteuid;

    use super::*;
    use crate::skip::skip;

    #[test]
    fn a_file_that_others_can_truncate_is_copied() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let open = |mode| {
            fs::write(&path, "text").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            File::open(&path).unwrap()
        };
        let own = mappable(open(0o644), 0).unwrap();
        let number = |file: &File| file.metadata().unwrap().ino();
        assert_eq!(number(&own), number(&File::open(&path).unwrap()));
        let mut shared = open(0o666);
        shared.read_exact(&mut [0; 2]).unwrap();
        let copy = mappable(shared, 4).unwrap();
        File::create(&path).unwrap();
        let mut text = [0; 4];
        copy.read_exact_at(&mut text, 0).unwrap();
        assert_eq!((&text, copy.metadata().unwrap().len()), (b"text", 4));
        assert!(matches!(mappable(open(0o666), 3), Err(FileError::TooLarge(3))));
        let file = open(0o644);
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        chown(&path, Some(65534), None).unwrap();
        assert!(matches!(mappable(file, 3), Err(FileError::TooLarge(3))));
    }

    #[test]
    fn a_file_without_a_length_is_not_copied() {
        // The kernel computes these files when they are read, and the first one has petabytes.
        for path in ["/proc/self/pagemap", "/proc/self/maps"] {
            assert!(
                matches!(copy(File::open(path).unwrap(), 8192), Err(FileError::Empty)),
                "{path}"
            );
        }
    }
}
