//! What can be wrong with a record.

use std::io;
use std::path::{Path, PathBuf};

use knee_results::{PointId, RUN_FILE};

use super::{SAMPLES_FILE, SCHEMA};

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file or directory that cannot be used.
    #[error("cannot {access} {}: {error}{}", .path.display(), advice(*.access, .error))]
    Io {
        /// What was tried.
        access: Access,
        /// On what.
        path: PathBuf,
        /// What the system said; part of the message, and no `source` that would repeat it.
        error: io::Error,
    },
    /// The directory for a new record is in use.
    #[error("{0} is not empty; choose another directory with -o, or, if it holds a run, continue \
        it with --resume {0}", .dir.display())]
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
    /// Another process writes the record.
    #[error("another knee is writing {}; wait until it ends, or choose another \
        directory", .dir.display())]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// Not what knee writes.
    #[error("{}:{line}: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// What knee writes, with numbers that it never does.
    #[error("{}: {reason}", .path.display())]
    Implausible {
        /// The file.
        path: PathBuf,
        /// Which field, and what is wrong with it.
        reason: String,
    },
    /// Less than the record says it has.
    #[error(transparent)]
    Lacking(#[from] Lacking),
    /// A format of another time.
    #[error("{} has schema {found}, but this knee reads {SCHEMA}; use the knee that wrote it",
            .path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// Rounds that a complete run has measured, and that are not in its file of samples: it has been cut
/// off, or lines of it are gone.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{} lacks {missing} of the {of} rounds listed as measured in run.json, the first for {}; to \
     measure them again: knee run --resume {}",
    .dir.join(SAMPLES_FILE).display(),
    .first,
    .dir.display()
)]
pub struct Lacking {
    /// The directory of the record.
    pub dir: PathBuf,
    /// How many rounds are missing.
    pub missing: u64,
    /// How many there should be at least.
    pub of: u64,
    /// The first point that lacks any.
    pub first: PointId,
}

/// What was to be done with a file or directory of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Access {
    /// Begin a record.
    Create,
    /// Add to one that is there.
    Write,
    /// Look at it.
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
    pub(super) fn io(access: Access, path: &Path, error: io::Error) -> Self {
        Self::Io { access, path: path.to_owned(), error }
    }

    /// An error of a document that begins in line `first`. The message contains the line once.
    pub(super) fn json(path: &Path, first: usize, error: &serde_json::Error) -> Self {
        let (text, column) = (error.to_string(), error.column());
        let place = format!(" at line {} column {column}", error.line());
        let reason = match text.strip_suffix(&place) {
            Some(reason) if column > 0 => format!("{reason} (column {column})"),
            Some(reason) => reason.to_owned(),
            None => text,
        };
        Self::Malformed { path: path.to_owned(), line: first + error.line().max(1) - 1, reason }
    }
}
