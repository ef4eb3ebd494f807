//! Reading a record back.

use std::collections::HashSet;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use knee_host::RegularFile;
use knee_host::json::{Head, with_one_line_strings};
use knee_host::regular_file::{FileError, read_line};
use knee_results::{PointId, RUN_FILE};

use super::error::{Access, Lacking, RecordError};
use super::plausible::{check_run, check_sample};
use super::{Rounds, RunRecord, SAMPLES_FILE, SCHEMA, SampleLine, older};
use crate::plan::Case;

/// The largest `run.json` that is read. It takes up to twenty times as much memory. It grows with the failed points:
/// a hundred testcases that fail at 64 task counts in both modes make 5 MB.
const MOST_BYTES: u64 = 32 << 20;

/// The directory of the record that `path` names: this directory, or the one of this `run.json`.
pub fn directory(path: &Path) -> &Path {
    let is_description = path.ends_with(RUN_FILE) && !path.is_dir();
    match path.parent().filter(|_| is_description) {
        None => path,
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
    }
}

/// A record on disk. Its description is in memory; its samples are read on demand.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// `run.json`.
    pub run: RunRecord,
    /// The directory.
    pub dir: PathBuf,
}

impl Record {
    /// Opens the record that `path` names; see [`directory`].
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let dir = directory(path);
        let path = dir.join(RUN_FILE);
        let text = RegularFile::at(&path).at_most(MOST_BYTES).read();
        Self::parse(dir, text.map(|text| with_one_line_strings(&text).into_owned()))
    }

    /// Like [`open`](Self::open), but refuses a description that another user can have written, and keeps its
    /// strings as they are, because the commands in it are run. Reads it in `locked`, a path to the locked
    /// directory, because another user may have put another directory at `dir` meanwhile.
    pub(super) fn open_own(dir: &Path, locked: &Path) -> Result<Self, RecordError> {
        let path = locked.join(RUN_FILE);
        Self::parse(dir, RegularFile::at(&path).own().without_links().at_most(MOST_BYTES).read())
    }

    fn parse(dir: &Path, text: Result<Vec<u8>, FileError>) -> Result<Self, RecordError> {
        let path = dir.join(RUN_FILE);
        let text = text.map_err(|error| match error {
            FileError::System(error) if is_absence(&error) => RecordError::no_record(dir),
            error => unreadable(dir, &path, error),
        })?;
        let malformed = |e| RecordError::run_json(&path, &e);
        let Some(found) = Head::of(&text).map_err(malformed)?.schema else {
            let reason = "this is not a record of knee run: it has no schema".to_owned();
            return Err(RecordError::Malformed { path, line: 1, reason });
        };
        if found != u64::from(SCHEMA) {
            return Err(RecordError::Schema { path, found });
        }
        let mut run: RunRecord = serde_json::from_slice(&text).map_err(malformed)?;
        older::complete(&mut run, &text).map_err(malformed)?;
        run.cases.iter_mut().for_each(Case::describe_source);
        check_run(&run).map_err(|reason| RecordError::Implausible { path, reason })?;
        Ok(Self { run, dir: dir.to_owned() })
    }

    /// The samples, in the order of measurement. Skips an incomplete last line, a sample that was
    /// being written when knee was killed.
    pub fn samples(
        &self,
    ) -> Result<impl Iterator<Item = Result<SampleLine, RecordError>> + use<>, RecordError> {
        self.samples_in(RegularFile::at(&self.dir.join(SAMPLES_FILE)))
    }

    /// Like [`samples`](Self::samples), but refuses a file that another user can have written, and reads it in
    /// `locked` as [`open_own`](Self::open_own) does.
    pub(super) fn own_samples(
        &self,
        locked: &Path,
    ) -> Result<impl Iterator<Item = Result<SampleLine, RecordError>> + use<>, RecordError> {
        self.samples_in(RegularFile::at(&locked.join(SAMPLES_FILE)).own().without_links())
    }

    fn samples_in(
        &self,
        file: RegularFile<'_>,
    ) -> Result<impl Iterator<Item = Result<SampleLine, RecordError>> + use<>, RecordError> {
        let path = self.dir.join(SAMPLES_FILE);
        let file = file.open().map_err(|error| unreadable(&self.dir, &path, error))?;
        let mut reader = BufReader::new(file);
        let points: HashSet<PointId> = self.run.points().into_iter().collect();
        let resume = self.run.resume_advice(&self.dir);
        let mut text = Vec::new();
        let mut number = 0;
        Ok(std::iter::from_fn(move || {
            text.clear();
            number += 1;
            match read_line(&mut reader, &mut text) {
                Err(error) => Some(Err(RecordError::io(Access::Read, &path, error))),
                // Without its end, so that an error at the end of the line has this line number.
                Ok(_) => Some(sample(text.strip_suffix(b"\n")?, &points, &path, number, &resume)),
            }
        }))
    }

    /// The rounds that were measured to the end. A round in which a task died or hung is not
    /// finished.
    ///
    /// # Errors
    /// The record cannot be read, or it is complete but lacks rounds.
    pub fn finished_rounds(&self) -> Result<Rounds, RecordError> {
        let rounds = self.rounds_left()?;
        match self.lacking(&rounds) {
            None => Ok(rounds),
            Some(lacking) => Err(lacking.into()),
        }
    }

    /// Like [`finished_rounds`](Self::finished_rounds), but accepts a record that has lost rounds.
    pub fn rounds_left(&self) -> Result<Rounds, RecordError> {
        self.rounds_in(self.samples()?)
    }

    /// The rounds among these samples that were measured to the end.
    pub(super) fn rounds_in(
        &self,
        samples: impl Iterator<Item = Result<SampleLine, RecordError>>,
    ) -> Result<Rounds, RecordError> {
        let mut rounds = Rounds::default();
        for line in samples {
            rounds.add(&line?);
        }
        let run = &self.run;
        let failures = run.failures.iter().chain(&run.failed_repeats);
        let failures: HashSet<(&PointId, u32)> = failures.map(|f| (&f.point, f.round)).collect();
        rounds.retain(|point, nr, round| {
            // A server that failed while its latency was measured has a rate.
            let has_rate = round.failure().is_some();
            let failed = !has_rate && failures.contains(&(point, nr));
            round.samples >= run.request.samples && !failed
        });
        rounds.mark_slow(run);
        Ok(rounds)
    }

    /// The rounds that are missing in `rounds`, if this run is complete.
    pub fn lacking(&self, rounds: &Rounds) -> Option<Lacking> {
        if !self.run.complete || !self.run.failures.is_empty() {
            return None;
        }
        let points = self.run.points();
        let asked = u64::from(self.run.request.rounds);
        let missing = |point: &PointId| asked.saturating_sub(rounds.of(point).count() as u64);
        Some(Lacking {
            dir: self.dir.clone(),
            runs_commands: self.run.runs_commands(),
            order: self.run.request.order,
            missing: points.iter().map(missing).sum(),
            of: asked * points.len() as u64,
            first: points.iter().find(|point| missing(point) > 0)?.clone(),
        })
    }
}

/// A file of the record in `dir` that cannot be opened or read.
fn unreadable(dir: &Path, path: &Path, error: FileError) -> RecordError {
    match error {
        FileError::Owner(_) | FileError::Shared => RecordError::foreign(dir, path, error),
        error => RecordError::io(Access::Read, path, error.into()),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

fn sample(
    text: &[u8],
    points: &HashSet<PointId>,
    path: &Path,
    number: usize,
    resume: &str,
) -> Result<SampleLine, RecordError> {
    let line: SampleLine = serde_json::from_slice(text)
        .map_err(|e| RecordError::sample_json(path, number, &e, resume))?;
    let malformed = |reason| RecordError::Malformed { path: path.to_owned(), line: number, reason };
    if !points.contains(&line.point) {
        return Err(malformed(format!("{RUN_FILE} has no point {}", line.point)));
    }
    check_sample(&line).map_err(malformed)?;
    Ok(line)
}
