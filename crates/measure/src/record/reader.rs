//! Reading a record back.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{RUN_FILE, Rounds, RunRecord, SAMPLES_FILE, SCHEMA, SampleLine};

/// What is wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// A file or directory that cannot be used.
    #[error("cannot {what} {}: {source}{}", .path.display(), advice(.source))]
    Io {
        /// What was tried.
        what: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The directory for a new record is in use.
    #[error("{} is not empty: choose another -o DIR, or continue that run with --resume {0}",
            .dir.display())]
    NotEmpty {
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

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free space, then continue with --resume"
        }
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            "; choose another directory with -o DIR"
        }
        _ => "",
    }
}

impl RecordError {
    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
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
        let text = fs::read_to_string(&path).map_err(|e| RecordError::io("read", &path, e))?;
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
        let file = File::open(&path).map_err(|e| RecordError::io("read", &path, e))?;
        let mut reader = BufReader::new(file);
        let mut text = String::new();
        let mut number = 0;
        Ok(std::iter::from_fn(move || {
            text.clear();
            number += 1;
            match reader.read_line(&mut text) {
                Err(error) => Some(Err(RecordError::io("read", &path, error))),
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
