//! Directories that no other user can replace.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::regular_file::{FileError, has_acl_at, is_trusted_owner, others_can_write};

/// With this bit, users who may write to a directory cannot replace the files of others there.
const STICKY: u32 = 0o1000;
/// The kernel follows no more symbolic links in a path either (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

/// A directory in which other users can replace a part of a path.
#[derive(Debug, thiserror::Error)]
#[error("other users can change {}: {error}; use a directory of your own, or protect the names in it: chmod +t", dir.display())]
pub struct NotFixed {
    /// The directory or symbolic link.
    pub dir: PathBuf,
    /// Why.
    pub error: FileError,
}

/// Checks that no other user can replace what is in a directory, or the directory itself. A user who may rename
/// any directory of its path can put another one in its place, so this checks each of them, and each symbolic
/// link on the way. If the directory is missing, checks those in which it will be created.
///
/// # Errors
/// Another user can, or the path cannot be examined.
pub fn require(dir: &Path) -> Result<(), NotFixed> {
    let refused = |dir: &Path, error: FileError| NotFixed { dir: dir.to_owned(), error };
    let mut here = PathBuf::new();
    let mut rest: Vec<OsString> = names(dir).collect();
    let mut links = 0;
    while let Some(name) = rest.pop() {
        if name == ".." {
            here.pop();
            continue;
        }
        let next = here.join(&name);
        let found = match fs::symlink_metadata(&next) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(refused(&next, error.into())),
        };
        if !is_trusted_owner(found.uid()) {
            return Err(refused(&next, FileError::Owner(found.uid())));
        }
        if found.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(refused(dir, io::Error::from(Errno::LOOP).into()));
            }
            let target = fs::read_link(&next).map_err(|error| refused(&next, error.into()))?;
            rest.extend(names(&target));
            continue;
        }
        let is_shared = others_can_write(found.mode(), found.gid(), || has_acl_at(&next));
        if is_shared && found.mode() & STICKY == 0 {
            return Err(refused(&next, FileError::Shared));
        }
        here = next;
    }
    Ok(())
}

/// The parts of a path, the last one first. The first part of an absolute path is `/`.
fn names(path: &Path) -> impl Iterator<Item = OsString> + '_ {
    path.components().rev().map(|part| part.as_os_str().to_owned())
}
