//! Why a record cannot be written or read.

use std::io;
use std::path::{Path, PathBuf};

use super::CHECK_FILE;

/// Why a record cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FindingsError {
    /// A file or directory could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file or directory could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The directory for a new record already contains a record.
    #[error(
        "{} already exists; continue it with --resume, remove it, or name another directory",
        .0.display()
    )]
    Exists(PathBuf),
    /// The path for a new record already exists and is not a record.
    #[error("{} already exists and is not a record; remove it, or name another \
        directory", .0.display())]
    Foreign(PathBuf),
    /// There is no record.
    #[error("{} is not a record of knee commute check: it has no {CHECK_FILE}", .0.display())]
    NoRecord(PathBuf),
    /// Another knee process is writing the record.
    #[error("another knee is writing {}; wait until it ends", .0.display())]
    InUse(PathBuf),
    /// `check.json` is invalid.
    #[error("{}: {reason}", path.display())]
    Check {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// A line of `tests.jsonl` is invalid.
    #[error("{}:{line}: {reason}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// The reason.
        reason: String,
    },
    /// The record to resume belongs to another check or shard.
    #[error("{} cannot be resumed: {difference}", dir.display())]
    OtherCheck {
        /// The record.
        dir: PathBuf,
        /// What differs.
        difference: String,
    },
    /// Two records are not shards of the same check.
    #[error(
        "{} and {} are not shards of the same check: {difference}; to compare two checks, use \
         `knee commute diff`",
        one.display(), other.display()
    )]
    OtherShard {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
        /// What differs.
        difference: String,
    },
    /// Two shards contain the same test.
    #[error(
        "{} and {} both contain the test {test}; read the shards of a single check", one.display(),
        other.display()
    )]
    SameTest {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
        /// The test.
        test: String,
    },
    /// A record contains more tests than its check has.
    #[error("{} contains {found} tests, but the check has {count}", dir.display())]
    TooMany {
        /// The record.
        dir: PathBuf,
        /// The number of tests in it.
        found: usize,
        /// The number of tests in the check.
        count: usize,
    },
    /// Two records contain the same shard.
    #[error("{} and {} are the same shard, {shard}", one.display(), other.display())]
    SameShard {
        /// The first.
        one: PathBuf,
        /// The second.
        other: PathBuf,
        /// The shard: `1/2`.
        shard: String,
    },
}

impl FindingsError {
    pub(super) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Read { path: path.to_owned(), source }
    }

    pub(super) fn write(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Write { path: path.to_owned(), source }
    }
}
