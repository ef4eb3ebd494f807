//! Reading a record back.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{RUN_FILE, Rounds, RunRecord, SAMPLES_FILE, SCHEMA, SampleLine};

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
    #[error("{0} is not empty: choose another directory with -o, or if it is that of a run, \
             continue it with --resume {0}", .dir.display())]
    NotEmpty {
        /// The directory.
        dir: PathBuf,
    },
    /// Not the directory of a record.
    #[error("{} holds no {RUN_FILE}: is it a run's directory? Runs are kept in runs/ unless -o \
             says otherwise", .dir.display())]
    NoRecord {
        /// The directory.
        dir: PathBuf,
    },
    /// Another process writes the record.
    #[error("{} is being written by another knee: wait until that run has ended, or choose \
             another directory", .dir.display())]
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
    /// A format of another time.
    #[error("{} has schema {found}, and this knee reads {SCHEMA}: use the knee that wrote it",
            .path.display())]
    Schema {
        /// The file.
        path: PathBuf,
        /// Its version.
        found: u64,
    },
}

/// What was to be done with a file or directory of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Begin a record.
    Create,
    /// Add to one that is there.
    Write,
    /// Look at it.
    Read,
}

impl std::fmt::Display for Access {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Create => "create",
            Self::Write => "write",
            Self::Read => "read",
        })
    }
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
}

/// A record on disk: its description in memory, its samples read as they are asked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// `run.json`.
    pub run: RunRecord,
    /// The directory.
    pub dir: PathBuf,
}

impl Record {
    /// Opens the record in `dir`.
    pub fn open(dir: &Path) -> Result<Self, RecordError> {
        let path = dir.join(RUN_FILE);
        let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                RecordError::NoRecord { dir: dir.to_owned() }
            }
            _ => RecordError::io(Access::Read, &path, error),
        })?;
        let malformed = |e: serde_json::Error| RecordError::Malformed {
            path: path.clone(),
            line: e.line(),
            reason: e.to_string(),
        };
        let value: serde_json::Value = serde_json::from_str(&text).map_err(malformed)?;
        let found = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if found != u64::from(SCHEMA) {
            return Err(RecordError::Schema { path, found });
        }
        let run = serde_json::from_str(&text).map_err(malformed)?;
        Ok(Self { run, dir: dir.to_owned() })
    }

    /// The samples, in the order in which they were taken. A last line without an end is a sample
    /// that was being written when knee was killed, and is left out.
    pub fn samples(
        &self,
    ) -> Result<impl Iterator<Item = Result<SampleLine, RecordError>>, RecordError> {
        let path = self.dir.join(SAMPLES_FILE);
        let file = File::open(&path).map_err(|e| RecordError::io(Access::Read, &path, e))?;
        let mut reader = BufReader::new(file);
        let mut text = String::new();
        let mut number = 0;
        Ok(std::iter::from_fn(move || {
            text.clear();
            number += 1;
            match reader.read_line(&mut text) {
                Err(error) => Some(Err(RecordError::io(Access::Read, &path, error))),
                Ok(_) if !text.ends_with('\n') => None,
                Ok(_) => Some(serde_json::from_str(&text).map_err(|e| RecordError::Malformed {
                    path: path.clone(),
                    line: number,
                    reason: e.to_string(),
                })),
            }
        }))
    }

    /// The rounds that were measured to the end.
    ///
    /// A round in which a task died or hung is not among them, whatever it counted until then.
    pub fn finished_rounds(&self) -> Result<Rounds, RecordError> {
        let mut rounds = Rounds::default();
        for line in self.samples()? {
            rounds.add(&line?);
        }
        let run = &self.run;
        rounds.retain(|point, nr, round| {
            let failed = run.failures.iter().any(|f| f.point == *point && f.round == nr);
            round.samples >= run.request.samples && !failed
        });
        Ok(rounds)
    }
}
