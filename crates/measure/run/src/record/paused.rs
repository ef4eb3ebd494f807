//! A record that is about to be continued.

use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use knee_host::AtomicFile;

use super::lock::Lock;
use super::writer::to_line;
use super::{Access, Record, RecordError, Rounds, RunRecord, SAMPLES_FILE, Writer, directory};

/// A locked record that no run is writing. It has not been changed, so a caller that cannot
/// continue it leaves it as it was.
pub struct Paused {
    record: Record,
    lock: Lock,
}

impl Paused {
    /// Locks and reads the record that `path` names; see [`directory`]. Refuses a record that another user
    /// can have written, because to continue it is to run the commands in it.
    pub fn open(path: &Path) -> Result<Self, RecordError> {
        let dir = directory(path);
        let foreign = |error| RecordError::foreign(dir, dir, error);
        let lock = Lock::take(dir, Access::Write, foreign)?;
        Ok(Self { record: Record::open_own(dir, &lock.path())?, lock })
    }

    /// The description of the run.
    pub fn run(&self) -> &RunRecord {
        &self.record.run
    }

    /// Continues the record. Drops the samples of unfinished rounds, and of those in which a server failed
    /// while its latency was measured, so that these rounds can be measured again. Clears the failures,
    /// because the user has fixed their causes or wants to know whether they recur.
    pub fn go_on(self) -> Result<(Writer, RunRecord, Rounds), RecordError> {
        let Self { record, lock } = self;
        let locked = lock.path();
        let named = record.dir.join(SAMPLES_FILE);
        let failed = |e| RecordError::io(Access::Write, &named, e);
        // Without the file, all rounds are measured again.
        match File::options()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(locked.join(SAMPLES_FILE))
        {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(failed(error));
            }
            _ => {}
        }
        let mut finished = record.rounds_in(record.own_samples(&locked)?)?;
        finished.retain(|_, _, round| round.failure().is_none());
        let mut kept = AtomicFile::create(&locked.join(SAMPLES_FILE)).map_err(failed)?;
        for line in record.own_samples(&locked)? {
            let line = line?;
            if finished.contains(&line.point, line.round) {
                kept.write_all(&to_line(&line)).map_err(failed)?;
            }
        }
        // Replaces the samples before the description: without its failure, a round that hung at
        // its end would count.
        kept.persist().map_err(failed)?;
        let mut run = record.run;
        run.failures.clear();
        run.failed_repeats.clear();
        run.end = None;
        run.complete = false;
        let writer = Writer::go_on(record.dir, lock, &run)?;
        Ok((writer, run, finished))
    }
}
