//! Reading a record back.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::{RUN_FILE, RunRecord, SAMPLES_FILE, SCHEMA, SampleLine};
use crate::job::Phase;
use crate::plan::Point;

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

    /// What the system said, where it said something.
    pub fn io_kind(&self) -> Option<io::ErrorKind> {
        match self {
            Self::Io { source, .. } => Some(source.kind()),
            _ => None,
        }
    }
}

/// A record in memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// `run.json`.
    pub run: RunRecord,
    /// `samples.jsonl`.
    pub samples: Vec<SampleLine>,
}

impl Record {
    /// Reads the record in `dir`. A last line without an end is a sample that was being written
    /// when knee was killed, and is left out.
    pub fn read(dir: &Path) -> Result<Self, RecordError> {
        let path = dir.join(RUN_FILE);
        let text = fs::read_to_string(&path).map_err(|e| RecordError::io("read", &path, e))?;
        let malformed = |path: &Path, line: usize, reason: String| RecordError::Malformed {
            path: path.to_owned(),
            line,
            reason,
        };
        let value: serde_json::Value =
            serde_json::from_str(&text).map_err(|e| malformed(&path, e.line(), e.to_string()))?;
        let found = value.get("schema").and_then(serde_json::Value::as_u64).unwrap_or(0);
        if found != u64::from(SCHEMA) {
            return Err(RecordError::Schema { path, found });
        }
        let run =
            serde_json::from_str(&text).map_err(|e| malformed(&path, e.line(), e.to_string()))?;

        let path = dir.join(SAMPLES_FILE);
        let text = fs::read_to_string(&path).map_err(|e| RecordError::io("read", &path, e))?;
        let whole = &text[..text.rfind('\n').map_or(0, |end| end + 1)];
        let samples = whole
            .lines()
            .enumerate()
            .map(|(i, line)| {
                serde_json::from_str(line).map_err(|e| malformed(&path, i + 1, e.to_string()))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { run, samples })
    }

    /// The rounds of each point that were measured to the end, with their samples.
    ///
    /// A round in which a task died or hung is not among them, whatever it counted until then.
    pub fn finished_rounds(&self) -> BTreeMap<&Point, BTreeMap<u32, Vec<&SampleLine>>> {
        let mut points: BTreeMap<&Point, BTreeMap<u32, Vec<&SampleLine>>> = BTreeMap::new();
        for line in &self.samples {
            let rounds = points.entry(&line.point).or_default();
            rounds.entry(line.round).or_default().push(line);
        }
        let wanted = self.run.request.samples;
        for (point, rounds) in &mut points {
            rounds.retain(|round, lines| {
                let measured = lines.iter().filter(|line| line.phase == Phase::Measure).count();
                let failed =
                    self.run.failures.iter().any(|f| f.point == **point && f.round == *round);
                measured as u64 >= wanted && !failed
            });
        }
        points
    }

    /// Removes the samples of all other rounds.
    pub(super) fn drop_unfinished_rounds(&mut self) {
        let finished = self.finished_rounds();
        let keep: Vec<bool> = self
            .samples
            .iter()
            .map(|line| finished[&line.point].contains_key(&line.round))
            .collect();
        let mut keep = keep.into_iter();
        self.samples.retain(|_| keep.next() == Some(true));
    }
}
