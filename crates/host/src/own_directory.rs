//! Directories of this user, in which nobody else can replace files.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;

use crate::regular_file::{FileError, path_of, require_own};
use crate::users;

/// An open directory of this user, in which nobody else can replace files.
#[derive(Debug)]
pub struct OwnDirectory(File);

impl OwnDirectory {
    /// Creates a directory and the missing ones on the way to it, if necessary. Nobody else can write to the new
    /// ones, whatever the umask. Others can read them if the umask permits it. Follows links of other users: where
    /// that must not happen, use [`fixed::create`](crate::fixed::create).
    ///
    /// # Errors
    /// A directory cannot be created, or there is something else.
    pub fn create(path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o755).create(path)
    }

    /// Opens a directory. Never waits, whatever is at the path. Refuses a symbolic link of another user, who could
    /// make it lead to any directory of this user.
    ///
    /// # Errors
    /// There is no such directory, it cannot be opened, or another user can replace files in it.
    pub fn open(path: &Path) -> Result<Self, FileError> {
        let directory = open_directory(path)?;
        require_own(&directory)?;
        Ok(Self(directory))
    }

    /// A path to the directory that stays valid while it is open, even if another user moves the directory, or puts
    /// something else in its place.
    pub fn path(&self) -> PathBuf {
        path_of(&self.0)
    }
}

/// Opens a directory, in which other users may be able to replace files. Never waits, whatever is at the path. Refuses a
/// symbolic link of another user, who could make it lead to any directory of this user. [`path_of`] is a path to it.
///
/// # Errors
/// There is no such directory, it cannot be opened, or a link of another user leads to it.
fn open_directory(path: &Path) -> Result<File, FileError> {
    // After a slash at the end of a path, the kernel follows the link before it.
    let path: PathBuf = path.components().collect();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = match open(&path, flags | OFlags::NOFOLLOW, Mode::empty()) {
        Err(Errno::NOTDIR | Errno::LOOP) => {
            require_own_link(&path)?;
            open(&path, flags, Mode::empty())
        }
        opened => opened,
    };
    Ok(File::from(opened.map_err(io::Error::from)?))
}

/// Checks that there is no symbolic link of another user, which could lead to any directory of this user. A missing
/// file passes.
///
/// # Errors
/// There is such a link, or the path cannot be examined.
pub fn refuse_foreign_link(path: &Path) -> Result<(), FileError> {
    match path.symlink_metadata() {
        Ok(found) if found.is_symlink() => require_own_link(path),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// Checks that there is a symbolic link that no other user can change.
fn require_own_link(path: &Path) -> Result<(), FileError> {
    let found = path.symlink_metadata()?;
    match found.uid() {
        _ if !found.is_symlink() => Err(io::Error::from(Errno::NOTDIR).into()),
        owner if users::is_trusted(owner) => Ok(()),
        owner => Err(FileError::Owner(owner)),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{lchown, symlink};

    use rustix::process::geteuid;

    use super::*;
    use crate::skip::skip;

    #[test]
    fn a_directory_behind_a_link_of_another_user_is_not_own() {
        let dir = tempfile::tempdir().unwrap();
        let [own, link] = ["own", "link"].map(|name| dir.path().join(name));
        OwnDirectory::create(&own).unwrap();
        symlink(&own, &link).unwrap();
        assert!(OwnDirectory::open(&own).is_ok() && OwnDirectory::open(&link).is_ok());
        if !geteuid().is_root() {
            return skip("root", "only root can give a link to another user");
        }
        lchown(&link, Some(65534), None).unwrap();
        // The last two paths end with a slash, and with a slash and a dot.
        for path in [link.clone(), link.join(""), link.join(".")] {
            let refused = OwnDirectory::open(&path).unwrap_err().to_string();
            assert_eq!(refused, "it belongs to user 65534", "{}", path.display());
        }
    }

    #[test]
    fn an_open_directory_keeps_its_files_when_another_one_takes_its_place() {
        let dir = tempfile::tempdir().unwrap();
        let [own, moved] = ["own", "moved"].map(|name| dir.path().join(name));
        OwnDirectory::create(&own).unwrap();
        let open = OwnDirectory::open(&own).unwrap();
        fs::rename(&own, &moved).unwrap();
        OwnDirectory::create(&own).unwrap();
        fs::write(open.path().join("file"), "").unwrap();
        assert!(moved.join("file").exists() && !own.join("file").exists());
    }

    #[test]
    fn a_file_is_no_directory() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = io::Error::from(OwnDirectory::open(file.path()).unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
    }
}
