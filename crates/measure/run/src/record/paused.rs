//! A record that somebody wants to go on with.

use std::path::Path;

use knee_host::AtomicFile;

use super::lock::Lock;
use super::writer::to_line;
use super::{Access, Record, RecordError, Rounds, RunRecord, SAMPLES_FILE, Writer};

/// A record that nobody writes, kept from others. It has not been changed yet, so that whoever
/// finds that it cannot be continued here leaves it as it was.
pub struct Paused {
    record: Record,
    lock: Lock,
}

impl Paused {
    /// Locks and reads the record in `dir`.
    pub fn open(dir: &Path) -> Result<Self, RecordError> {
        let lock = Lock::take(dir)?;
        Ok(Self { record: Record::open(dir)?, lock })
    }

    /// What was asked for, on which machine, and how it ended.
    pub fn run(&self) -> &RunRecord {
        &self.record.run
    }

    /// Goes on with it. Samples of rounds that were not finished are dropped, so that these rounds
    /// can be taken again; failures are forgotten, because whoever resumes has mended them, or
    /// wants to know that they happen again.
    pub fn go_on(self) -> Result<(Writer, RunRecord, Rounds), RecordError> {
        let Self { record, lock } = self;
        let finished = record.rounds_left()?;
        let path = record.dir.join(SAMPLES_FILE);
        let failed = |e| RecordError::io(Access::Write, &path, e);
        let mut kept = AtomicFile::create(&path).map_err(failed)?;
        for line in record.samples()? {
            let line = line?;
            if finished.contains(&line.point, line.round) {
                kept.write_all(&to_line(&line)).map_err(failed)?;
            }
        }
        // First the samples: with its failures forgotten, a round that hung at its end would count.
        kept.persist().map_err(failed)?;
        let mut run = record.run;
        run.failures.clear();
        run.end = None;
        run.complete = false;
        let writer = Writer::go_on(record.dir, lock, &run)?;
        Ok((writer, run, finished))
    }
}
