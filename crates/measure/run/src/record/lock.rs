//! One writer per record.

use std::io;
use std::path::{Path, PathBuf};

use knee_host::regular_file::FileError;
use knee_host::{LockFile, OwnDirectory};

use super::{Access, RecordError};

/// A lock that is held while a record is written. The kernel releases it when the process dies, so
/// that the record of a killed knee can be resumed at once.
pub(super) struct Lock {
    /// Dropped before the directory, through which it is removed.
    _file: LockFile,
    directory: OwnDirectory,
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
        let directory = OwnDirectory::open(dir).map_err(|error| match error {
            FileError::System(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    RecordError::no_record(dir)
                }
                _ => RecordError::io(Access::Read, dir, error),
            },
            error => foreign(error),
        })?;
        let file = LockFile::take(&directory.path());
        match file.map_err(|error| RecordError::io(access, dir, error))? {
            Some(_file) => Ok(Self { _file, directory }),
            None => Err(RecordError::InUse { dir: dir.to_owned() }),
        }
    }

    /// A path to the directory that stays valid if another user moves the directory, or puts something else in
    /// its place.
    pub(super) fn path(&self) -> PathBuf {
        self.directory.path()
    }
}
