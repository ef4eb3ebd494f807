//! One writer per record.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use super::{Access, RecordError};

/// Held for as long as a record is written. The kernel ends it with the process, however that
/// dies, so that a record whose knee was killed can be resumed at once.
pub(super) struct Lock {
    directory: File,
}

impl Lock {
    /// Takes the directory of a record, unless another knee has it.
    ///
    /// The directory itself is locked: its files are replaced while the record is written, and a
    /// file for the lock alone would be litter in a record.
    pub(super) fn take(dir: &Path) -> Result<Self, RecordError> {
        let directory = File::open(dir).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => RecordError::NoRecord { dir: dir.to_owned() },
            _ => RecordError::io(Access::Read, dir, error),
        })?;
        match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Err(RecordError::InUse { dir: dir.to_owned() }),
            // NFS cannot lock what is not open for writing, which a directory never is. Measuring
            // without the lock is better than not at all.
            _ => Ok(Self { directory }),
        }
    }
}

impl Drop for Lock {
    /// Closing the directory would leave the lock to a child that is between fork and exec.
    fn drop(&mut self) {
        let _ = flock(&self.directory, FlockOperation::Unlock);
    }
}
