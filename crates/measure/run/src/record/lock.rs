//! One writer per record.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

use knee_host::LockFile;
use knee_host::regular_file::{FileError, own_directory};

use super::{Access, RecordError};

/// A lock that is held while a record is written. The kernel releases it when the process dies, so
/// that the record of a killed knee can be resumed at once.
pub(super) struct Lock {
    /// Dropped before the directory, through which it is removed.
    _file: LockFile,
    directory: File,
}

impl Lock {
    /// Locks the directory of a record, unless another knee holds the lock. The directory must be this
    /// user's own, and nobody else may be able to change what is in it; otherwise, the error is that of
    /// `foreign`.
    pub(super) fn take(
        dir: &Path,
        access: Access,
        foreign: impl FnOnce(FileError) -> RecordError,
    ) -> Result<Self, RecordError> {
        let directory = own_directory(dir).map_err(|error| match error {
            FileError::System(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    RecordError::NoRecord { dir: dir.to_owned() }
                }
                _ => RecordError::io(Access::Read, dir, error),
            },
            error => foreign(error),
        })?;
        let file = LockFile::take(&path(&directory));
        match file.map_err(|error| RecordError::io(access, dir, error))? {
            Some(_file) => Ok(Self { _file, directory }),
            None => Err(RecordError::InUse { dir: dir.to_owned() }),
        }
    }

    /// A path to the directory that stays valid if another user moves the directory, or puts something else in
    /// its place.
    pub(super) fn path(&self) -> PathBuf {
        path(&self.directory)
    }
}

fn path(directory: &File) -> PathBuf {
    format!("/proc/self/fd/{}", directory.as_raw_fd()).into()
}
