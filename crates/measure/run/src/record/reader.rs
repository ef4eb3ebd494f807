//! Reading a record back.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use knee_results::PointId;
use knee_results::RUN_FILE;

use super::older;
use super::plausible::{check_run, check_sample};
use super::{Rounds, RunRecord, SAMPLES_FILE, SCHEMA, SampleLine};

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
    #[error("{} has schema {found}, and this knee reads {SCHEMA}: use the knee that wrote it",
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
    "{} lacks {missing} of {of} rounds that run.json says were measured, the first of {}; \
     measure them again with: knee run --resume {}",
    .dir.join(SAMPLES_FILE).display(),
    name(.first),
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

    /// For a document that begins in line `first`, so that its place is told once.
    fn json(path: &Path, first: usize, error: &serde_json::Error) -> Self {
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
        let text = fs::read(&path).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                RecordError::NoRecord { dir: dir.to_owned() }
            }
            _ => RecordError::io(Access::Read, &path, error),
        })?;
        let malformed = |e| RecordError::json(&path, 1, &e);
        let value: serde_json::Value = serde_json::from_slice(&text).map_err(malformed)?;
        let Some(found) = value.get("schema").and_then(serde_json::Value::as_u64) else {
            let reason = "this is no record of knee run: it has no schema".to_owned();
            return Err(RecordError::Malformed { path, line: 1, reason });
        };
        if found != u64::from(SCHEMA) {
            return Err(RecordError::Schema { path, found });
        }
        let mut run: RunRecord = serde_json::from_slice(&text).map_err(malformed)?;
        older::complete(&mut run, &value);
        check_run(&run).map_err(|reason| RecordError::Implausible { path, reason })?;
        Ok(Self { run, dir: dir.to_owned() })
    }

    /// The samples, in the order in which they were taken. A last line without an end is a sample
    /// that was being written when knee was killed, and is left out.
    pub fn samples(
        &self,
    ) -> Result<impl Iterator<Item = Result<SampleLine, RecordError>> + use<>, RecordError> {
        let path = self.dir.join(SAMPLES_FILE);
        let file = File::open(&path).map_err(|e| RecordError::io(Access::Read, &path, e))?;
        let mut reader = BufReader::new(file);
        let points: HashSet<PointId> = self.run.points().into_iter().collect();
        let mut text = Vec::new();
        let mut number = 0;
        Ok(std::iter::from_fn(move || {
            text.clear();
            number += 1;
            match reader.read_until(b'\n', &mut text) {
                Err(error) => Some(Err(RecordError::io(Access::Read, &path, error))),
                // The end of the line is no part of it: what is missing at it is not in the next.
                Ok(_) => Some(sample(text.strip_suffix(b"\n")?, &points, &path, number)),
            }
        }))
    }

    /// The rounds that were measured to the end.
    ///
    /// A round in which a task died or hung is not among them, whatever it counted until then.
    ///
    /// # Errors
    /// Also where a complete run lacks rounds.
    pub fn finished_rounds(&self) -> Result<Rounds, RecordError> {
        let rounds = self.rounds_left()?;
        match self.lacking(&rounds) {
            None => Ok(rounds),
            Some(lacking) => Err(lacking.into()),
        }
    }

    /// As [`finished_rounds`](Self::finished_rounds), but what is left of a record that has lost
    /// some.
    pub fn rounds_left(&self) -> Result<Rounds, RecordError> {
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

    /// What is missing in `rounds` if this run is complete.
    pub fn lacking(&self, rounds: &Rounds) -> Option<Lacking> {
        if !self.run.complete || !self.run.failures.is_empty() {
            return None;
        }
        let points = self.run.points();
        let asked = u64::from(self.run.request.rounds);
        let missing = |point: &PointId| asked.saturating_sub(rounds.of(point).count() as u64);
        Some(Lacking {
            dir: self.dir.clone(),
            missing: points.iter().map(missing).sum(),
            of: asked * points.len() as u64,
            first: points.iter().find(|point| missing(point) > 0)?.clone(),
        })
    }
}

fn sample(
    text: &[u8],
    points: &HashSet<PointId>,
    path: &Path,
    number: usize,
) -> Result<SampleLine, RecordError> {
    let line: SampleLine =
        serde_json::from_slice(text).map_err(|e| RecordError::json(path, number, &e))?;
    let malformed = |reason| RecordError::Malformed { path: path.to_owned(), line: number, reason };
    if !points.contains(&line.point) {
        return Err(malformed(format!("{RUN_FILE} knows no point {}", name(&line.point))));
    }
    check_sample(&line).map_err(malformed)?;
    Ok(line)
}

/// `mmap1 threads ×2`
pub(super) fn name(point: &PointId) -> String {
    format!("{} {} ×{}", point.case, point.mode, point.tasks)
}
