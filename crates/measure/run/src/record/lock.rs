//! One writer per record.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use knee_host::regular_file::{FileError, directory, require_own};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Access, RecordError};

/// A lock that is held while a record is written. The kernel releases it when the process dies, so
/// that the record of a killed knee can be resumed at once.
pub(super) struct Lock {
    directory: File,
}

impl Lock {
    /// Locks the directory of a record, unless another knee holds the lock.
    ///
    /// The lock is on the directory itself, because the files in it are replaced while the record
    /// is written. A separate lock file would remain in the record.
    pub(super) fn take(dir: &Path) -> Result<Self, RecordError> {
        let directory = directory(dir).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                RecordError::NoRecord { dir: dir.to_owned() }
            }
            _ => RecordError::io(Access::Read, dir, error),
        })?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(RecordError::InUse { dir: dir.to_owned() }),
            // NFS cannot lock a file that is not open for writing, and a directory never is.
            // Measuring without the lock is better than not measuring.
            _ => Ok(Self { directory }),
        }
    }

    /// A path to the directory that stays valid if another user moves the directory, or puts something else in
    /// its place.
    pub(super) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.directory.as_raw_fd()).into()
    }

    /// Checks that the directory is this user's own, and that nobody else can change what is in it.
    pub(super) fn require_own(&self) -> Result<(), FileError> {
        require_own(&self.directory)
    }
}

impl Drop for Lock {
    /// Unlocks explicitly: after a close alone, a child between fork and exec would still hold the
    /// lock.
    fn drop(&mut self) {
        let _ = flock(&self.directory, FlockOperation::Unlock);
    }
}
