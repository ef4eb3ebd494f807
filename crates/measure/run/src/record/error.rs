//! What can be wrong with a record.

use std::io;
use std::path::{Path, PathBuf};

use knee_host::json::fault;
use knee_host::regular_file::FileError;
use knee_host::shell::word;
use knee_results::{Order, PointId, RUN_FILE};

use super::{SAMPLES_FILE, SCHEMA, resume_advice};

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file or directory that cannot be used.
    #[error("cannot {access} {}: {error}{}", .path.display(), advice(*.access, .error))]
    Io {
        /// The kind of access.
        access: Access,
        /// The file or directory.
        path: PathBuf,
        /// The system's error. It is part of the message, and not a `source`, which would repeat
        /// it.
        error: io::Error,
    },
    /// The directory for a new record is in use.
    #[error("{0} is not empty; choose another directory with -o, or, if it contains a run, continue \
        that run with --resume {1}", .dir.display(), word(.dir))]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// Not the directory of a record.
    #[error("{} contains no {RUN_FILE}; name the directory of a run (by default, knee writes runs \
        to runs/)", .dir.display())]
    NoRecord {
        /// The directory.
        dir: PathBuf,
    },
    /// There is no such directory.
    #[error("{} does not exist; name the directory of a run (by default, knee writes runs to runs/)", .dir.display())]
    NoDirectory {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process writes the record.
    #[error("another knee is writing {}; wait until it ends, or choose another \
        directory", .dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// A record that another user can have written.
    #[error("cannot resume {0}: knee runs the commands in a record, and another user may have changed \
        them ({1}: {error}); copy it, read COPY/{RUN_FILE}, then resume the copy: cp -r {2} COPY",
            .dir.display(), .path.display(), word(.dir))]
    Foreign {
        /// The directory of the record.
        dir: PathBuf,
        /// The file or directory that another user can have changed.
        path: PathBuf,
        /// Why. It is part of the message, and not a `source`, which would repeat it.
        error: FileError,
    },
    /// A line that knee does not write.
    #[error("{}:{line}: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// A number that knee never writes.
    #[error("{}: {reason}", .path.display())]
    Implausible {
        /// The file.
        path: PathBuf,
        /// Which field, and what is wrong with it.
        reason: String,
    },
    /// Samples of measured rounds are missing.
    #[error(transparent)]
    Lacking(#[from] Lacking),
    /// Another version of the format.
    #[error("{} has schema {found}, but this version of knee reads {SCHEMA}; use the version that \
        wrote it",
            .path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// A complete run whose file of samples lacks rounds, because it was truncated or lines were
/// removed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} lacks {missing} of the {of} rounds that run.json lists as measured (the first missing one \
     is a round of {}); to measure the missing rounds again{}",
    .dir.join(SAMPLES_FILE).display(),
    .first,
    resume_advice(*.order, .dir, *.runs_commands)
)]
pub struct Lacking {
    /// The directory of the record.
    pub dir: PathBuf,
    /// How many rounds are missing.
    pub missing: u64,
    /// How many rounds there should be at least.
    pub of: u64,
    /// The first point with missing rounds.
    pub first: PointId,
    /// Whether measuring them runs commands, servers or plug-ins that the record names.
    pub runs_commands: bool,
    /// The order of the points, which shows what kind of run it is.
    pub order: Order,
}

/// A kind of access to a file or directory of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Access {
    /// Begin a record.
    Create,
    /// Continue an existing record.
    Write,
    /// Read it.
    Read,
}

fn advice(access: Access, error: &io::Error) -> &'static str {
    use io::ErrorKind::{PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull};
    match (access, error.kind()) {
        (Access::Create, StorageFull | QuotaExceeded | PermissionDenied | ReadOnlyFilesystem) => {
            "; choose another directory with -o DIR"
        }
        (Access::Write, StorageFull | QuotaExceeded) => "; free space, then continue with --resume",
        (Access::Write, PermissionDenied | ReadOnlyFilesystem) => {
            "; make it writable, then continue with --resume"
        }
        _ => "",
    }
}

impl RecordError {
    /// `dir` has no description of a run.
    pub(super) fn no_record(dir: &Path) -> Self {
        let exists = dir.exists();
        let dir = dir.to_owned();
        if exists { Self::NoRecord { dir } } else { Self::NoDirectory { dir } }
    }

    pub(super) fn io(access: Access, path: &Path, error: io::Error) -> Self {
        Self::Io { access, path: path.to_owned(), error }
    }

    pub(super) fn foreign(dir: &Path, path: &Path, error: FileError) -> Self {
        Self::Foreign { dir: dir.to_owned(), path: path.to_owned(), error }
    }

    /// An error of `run.json`.
    pub(super) fn run_json(path: &Path, error: &serde_json::Error) -> Self {
        let reason = format!("{}; restore it from a copy", fault("the file", error));
        Self::Malformed { path: path.to_owned(), line: error.line().max(1), reason }
    }

    /// An error of a line of the samples. `resume` is the [`RunRecord::resume_advice`] of the record.
    ///
    /// [`RunRecord::resume_advice`]: super::RunRecord::resume_advice
    pub(super) fn sample_json(
        path: &Path,
        line: usize,
        error: &serde_json::Error,
        resume: &str,
    ) -> Self {
        let fault = fault("the line", error);
        let reason = format!("{fault}; delete the line, then measure its round again{resume}");
        Self::Malformed { path: path.to_owned(), line, reason }
    }
}
