//! Writing a record so that nothing already measured can be lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::{RUN_FILE, Record, RecordError, RunRecord, SAMPLES_FILE, SampleLine};

/// An open record.
pub struct Writer {
    dir: PathBuf,
    samples: File,
    /// Length of the whole lines in the file of samples.
    length: u64,
}

impl Writer {
    /// Makes the directory `dir`, which must not exist or be empty, and writes the description of
    /// a run that has just begun.
    pub fn create(dir: &Path, run: &RunRecord) -> Result<Self, RecordError> {
        fs::create_dir_all(dir).map_err(|e| RecordError::io("create", dir, e))?;
        let mut entries = fs::read_dir(dir).map_err(|e| RecordError::io("read", dir, e))?;
        if entries.next().is_some() {
            return Err(RecordError::NotEmpty { dir: dir.to_owned() });
        }
        let path = dir.join(SAMPLES_FILE);
        let samples = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(|e| RecordError::io("create", &path, e))?;
        let writer = Self { dir: dir.to_owned(), samples, length: 0 };
        writer.describe(run)?;
        Ok(writer)
    }

    /// Opens the record in `dir` to go on with it. Samples of rounds that were not finished are
    /// dropped, so that these rounds can be taken again; failures are forgotten, because whoever
    /// resumes has mended them, or wants to know that they happen again.
    pub fn resume(dir: &Path) -> Result<(Self, Record), RecordError> {
        let mut record = Record::read(dir)?;
        record.drop_unfinished_rounds();
        record.run.failures.clear();
        let path = dir.join(SAMPLES_FILE);
        let mut text = Vec::new();
        for line in &record.samples {
            text.extend(to_line(line));
        }
        write_atomically(&path, &text).map_err(|e| RecordError::io("write", &path, e))?;
        let samples = OpenOptions::new()
            .append(true)
            .open(&path)
            .map_err(|e| RecordError::io("open", &path, e))?;
        Ok((Self { dir: dir.to_owned(), samples, length: text.len() as u64 }, record))
    }

    /// Where the record is.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Replaces the description of the run.
    pub fn describe(&self, run: &RunRecord) -> Result<(), RecordError> {
        let path = self.dir.join(RUN_FILE);
        let mut text = serde_json::to_vec_pretty(run).expect("a record is plain data");
        text.push(b'\n');
        write_atomically(&path, &text).map_err(|e| RecordError::io("write", &path, e))
    }

    /// Adds one sample.
    pub fn append(&mut self, line: &SampleLine) -> Result<(), RecordError> {
        let text = to_line(line);
        if let Err(error) = self.samples.write_all(&text) {
            // Half a line on a full disk would be the start of the next one.
            let _ = self.samples.set_len(self.length);
            return Err(RecordError::io("write", &self.dir.join(SAMPLES_FILE), error));
        }
        self.length += text.len() as u64;
        Ok(())
    }

    /// Flushes the samples to the disk.
    pub fn sync(&self) -> Result<(), RecordError> {
        self.samples
            .sync_data()
            .map_err(|e| RecordError::io("write", &self.dir.join(SAMPLES_FILE), e))
    }
}

fn to_line(line: &SampleLine) -> Vec<u8> {
    let mut text = serde_json::to_vec(line).expect("a sample is plain data");
    text.push(b'\n');
    text
}

/// Replaces the file at `path` by one with this content: readers see the old one or the new one.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new()
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
        .tempfile_in(dir)?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}
