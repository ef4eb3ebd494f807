//! Locks of directories that are written by one process at a time.
//!
//! A user who can open a file can lock it (`flock(2)`), even if this user may only read it. With a lock on the
//! directory itself, each of its readers could stop its writer. So the lock is on a file in the directory that only
//! its owner can open. The file is removed before it is unlocked; after a killed process it remains, unlocked.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use rustix::io::Errno;

use crate::temporary::Listed;
use crate::users;

/// Name of the file in a locked directory.
pub const LOCK_FILE: &str = ".lock";
/// Permissions of anybody but the owner.
const OF_OTHERS: u32 = 0o077;
/// Another holder may remove the file each time before it can be locked.
const ATTEMPTS: usize = 100;

/// A lock that is held until this value is dropped or the process ends.
#[derive(Debug)]
pub struct LockFile {
    file: File,
    path: PathBuf,
    _listed: Listed,
}

impl LockFile {
    /// Locks the directory `dir`, in which no other user may be able to replace files. Returns `None` if
    /// another process holds the lock.
    ///
    /// # Errors
    /// The file cannot be created in the directory.
    pub fn take(dir: &Path) -> io::Result<Option<Self>> {
        Self::lock(dir, FlockOperation::NonBlockingLockExclusive)
    }

    /// Like [`LockFile::take`], but waits while another process holds the lock.
    ///
    /// # Errors
    /// The file cannot be created in the directory, or a signal ends the wait.
    pub fn wait(dir: &Path) -> io::Result<Self> {
        loop {
            if let Some(lock) = Self::lock(dir, FlockOperation::LockExclusive)? {
                return Ok(lock);
            }
        }
    }

    fn lock(dir: &Path, operation: FlockOperation) -> io::Result<Option<Self>> {
        let path = dir.join(LOCK_FILE);
        for _ in 0..ATTEMPTS {
            let flags = OFlags::RDWR
                | OFlags::CREATE
                | OFlags::NOFOLLOW
                | OFlags::NONBLOCK
                | OFlags::CLOEXEC;
            let file = File::from(open(&path, flags, Mode::RUSR | Mode::WUSR)?);
            let opened = file.metadata()?;
            let is_open_to_others = opened.mode() & OF_OTHERS != 0 && keeps_permissions(&file);
            if is_open_to_others || !users::is_own(opened.uid()) {
                // It comes from elsewhere, and others may have it open. knee creates no such file.
                fs::remove_file(&path)?;
                continue;
            }
            match flock(&file, operation) {
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(Errno::INTR) => return Err(Errno::INTR.into()),
                // Any other error means a file system without locks. To write without one is better than not
                // to write.
                Ok(()) | Err(_) => {}
            }
            // The last holder may have removed the file after it was opened here.
            let is_same =
                |there: fs::Metadata| (there.dev(), there.ino()) == (opened.dev(), opened.ino());
            if fs::symlink_metadata(&path).is_ok_and(is_same) {
                return Ok(Some(Self { file, _listed: Listed::new(&path), path }));
            }
        }
        Ok(None)
    }
}

/// Whether the file system of a file stores permissions. FAT and some network file systems give all files the same
/// ones.
fn keeps_permissions(file: &File) -> bool {
    let restricted = file.set_permissions(fs::Permissions::from_mode(0o600));
    restricted.is_ok() && file.metadata().is_ok_and(|found| found.mode() & OF_OTHERS == 0)
}

impl Drop for LockFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
        // Explicitly: after a close alone, a child between fork and exec would still hold the lock.
        let _ = flock(&self.file, FlockOperation::Unlock);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;

    use super::*;

    #[test]
    fn a_lock_has_one_holder_and_leaves_no_file() {
        let dir = tempfile::tempdir().unwrap();
        let lock = LockFile::take(dir.path()).unwrap().unwrap();
        let mode = fs::metadata(dir.path().join(LOCK_FILE)).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600, "other users cannot open it");
        assert!(LockFile::take(dir.path()).unwrap().is_none());
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
        assert!(LockFile::take(dir.path()).unwrap().is_some());
    }

    #[test]
    fn a_process_that_waits_for_a_lock_takes_it_next() {
        let dir = tempfile::tempdir().unwrap();
        let lock = LockFile::take(dir.path()).unwrap().unwrap();
        let path = dir.path().to_owned();
        let waiting = std::thread::spawn(move || LockFile::wait(&path).unwrap());
        // Whether the thread waits already or not, it locks a new file, because this one is removed.
        drop(lock);
        let lock = waiting.join().unwrap();
        assert!(LockFile::take(dir.path()).unwrap().is_none());
        drop(lock);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_lock_of_a_killed_process_is_free() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK_FILE);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
        assert!(LockFile::take(dir.path()).unwrap().is_some());
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_others_can_open_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(LOCK_FILE);
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let of_reader = File::open(&path).unwrap();
        flock(&of_reader, FlockOperation::NonBlockingLockShared).unwrap();
        assert!(LockFile::take(dir.path()).unwrap().is_some());
    }
}
