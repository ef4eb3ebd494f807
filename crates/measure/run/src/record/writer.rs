//! Writing a record so that no completed measurement is lost.

use std::fs::{self, DirEntry, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use knee_host::lock_file::LOCK_FILE;
use knee_host::regular_file::FileError;
use knee_host::{OwnDirectory, write_atomically};
use knee_results::RUN_FILE;

use super::lock::Lock;
use super::plausible::check_size;
use super::{Access, RecordError, RunRecord, SAMPLES_FILE, SampleLine};

/// Permissions of a new file of samples, further restricted by the umask. Only its owner may write to it,
/// whatever the umask.
const FILE_MODE: u32 = 0o644;

/// An open record, locked against other writers.
pub struct Writer {
    dir: PathBuf,
    lock: Lock,
    samples: File,
    /// Length of the whole lines in the file of samples.
    length: u64,
}

impl Writer {
    /// Creates the directory `dir`, which must be missing or empty, and writes the description of a
    /// run that has just begun. On an error, no new file or directory remains.
    pub fn create(dir: &Path, run: &RunRecord) -> Result<Self, RecordError> {
        check_size(run)
            .map_err(|reason| RecordError::Implausible { path: dir.join(RUN_FILE), reason })?;
        let new: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
        let begun = Self::begin(dir, run);
        // Another knee may have created and locked the directory meanwhile, and will write to it.
        if !matches!(begun, Ok(_) | Err(RecordError::InUse { .. })) {
            for dir in new {
                let _ = fs::remove_dir(dir);
            }
        }
        begun
    }

    /// Checks that `dir` is missing or empty, so that a record can be created there.
    pub fn check_unused(dir: &Path) -> Result<(), RecordError> {
        Self::check_unused_at(dir, dir)
    }

    /// Like [`check_unused`](Self::check_unused), but reads the directory at `path`, which is `dir`.
    fn check_unused_at(path: &Path, dir: &Path) -> Result<(), RecordError> {
        // A run that was killed at its start leaves only its lock.
        let is_lock = |entry: &DirEntry| entry.file_name() == LOCK_FILE;
        let is_used = |entry: io::Result<DirEntry>| !entry.as_ref().is_ok_and(is_lock);
        match fs::read_dir(path).map(|mut entries| entries.any(is_used)) {
            Ok(true) => Err(RecordError::NotEmpty { dir: dir.to_owned() }),
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                Err(RecordError::io(Access::Create, dir, e))
            }
            Ok(false) | Err(_) => Ok(()),
        }
    }

    fn begin(dir: &Path, run: &RunRecord) -> Result<Self, RecordError> {
        OwnDirectory::create(dir).map_err(|e| RecordError::io(Access::Create, dir, e))?;
        let foreign = |e: FileError| RecordError::io(Access::Create, dir, e.into());
        let lock = Lock::take(dir, Access::Create, foreign)?;
        Self::check_unused_at(&lock.path(), dir)?;
        // Through the lock, a file could be created whose own path is too long to be opened later.
        let named = dir.join(SAMPLES_FILE);
        match fs::symlink_metadata(&named) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => {
                return Err(RecordError::io(Access::Create, &named, e));
            }
            _ => {}
        }
        let path = lock.path().join(SAMPLES_FILE);
        let samples = OpenOptions::new()
            .create_new(true)
            .append(true)
            .mode(FILE_MODE)
            .open(&path)
            .map_err(|e| RecordError::io(Access::Create, &named, e))?;
        let writer = Self { dir: dir.to_owned(), lock, samples, length: 0 };
        writer.put(run, Access::Create).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        Ok(writer)
    }

    /// Continues in `dir`, which contains whole lines of samples, with the description `run`.
    pub(super) fn go_on(dir: PathBuf, lock: Lock, run: &RunRecord) -> Result<Self, RecordError> {
        let path = dir.join(SAMPLES_FILE);
        let failed = |e| RecordError::io(Access::Write, &path, e);
        let samples =
            OpenOptions::new().append(true).open(lock.path().join(SAMPLES_FILE)).map_err(failed)?;
        let length = samples.metadata().map_err(failed)?.len();
        let writer = Self { dir, lock, samples, length };
        writer.describe(run)?;
        Ok(writer)
    }

    /// Where the record is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Replaces the description of the run.
    pub fn describe(&self, run: &RunRecord) -> Result<(), RecordError> {
        self.put(run, Access::Write)
    }

    fn put(&self, run: &RunRecord, access: Access) -> Result<(), RecordError> {
        let path = self.dir.join(RUN_FILE);
        let mut text = serde_json::to_vec_pretty(run).expect("a record is plain data");
        text.push(b'\n');
        write_atomically(&self.lock.path().join(RUN_FILE), &text)
            .map_err(|e| RecordError::io(access, &path, e))
    }

    /// Adds one sample.
    pub fn append(&mut self, line: &SampleLine) -> Result<(), RecordError> {
        let text = to_line(line);
        if let Err(error) = self.samples.write_all(&text) {
            // Removes the part of the line that was written before the disk was full.
            let _ = self.samples.set_len(self.length);
            return Err(RecordError::io(Access::Write, &self.dir.join(SAMPLES_FILE), error));
        }
        self.length += text.len() as u64;
        Ok(())
    }

    /// Flushes the samples to the disk.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.samples
            .sync_data()
            .map_err(|e| RecordError::io(Access::Write, &self.dir.join(SAMPLES_FILE), e))
    }
}

pub(super) fn to_line(line: &SampleLine) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("a sample is plain data");
    text.push(b'\n');
    text
}
