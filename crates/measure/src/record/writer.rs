//! Writing a record so that nothing already measured can be lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::{RUN_FILE, Record, RecordError, Rounds, RunRecord, SAMPLES_FILE, SampleLine};

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
    pub fn resume(dir: &Path) -> Result<(Self, Record, Rounds), RecordError> {
        let mut record = Record::open(dir)?;
        let finished = record.finished_rounds()?;
        let path = dir.join(SAMPLES_FILE);
        let failed = |e| RecordError::io("write", &path, e);
        let mut kept = AtomicFile::create(&path).map_err(failed)?;
        for line in record.samples()? {
            let line = line?;
            if finished.contains(&line.point, line.round) {
                kept.write_all(&to_line(&line)).map_err(failed)?;
            }
        }
        kept.persist().map_err(failed)?;
        record.run.failures.clear();
        let samples = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        let length = samples.metadata().map_err(failed)?.len();
        Ok((Self { dir: dir.to_owned(), samples, length }, record, finished))
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
    let mut file = AtomicFile::create(path)?;
    file.write_all(content)?;
    file.persist()
}

/// A file that replaces another one when it is whole.
struct AtomicFile {
    path: PathBuf,
    file: BufWriter<tempfile::NamedTempFile>,
}

impl AtomicFile {
    fn create(path: &Path) -> io::Result<Self> {
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::Builder::new()
            .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))
            .tempfile_in(dir)?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn write_all(&mut self, content: &[u8]) -> io::Result<()> {
        self.file.write_all(content)
    }

    fn persist(self) -> io::Result<()> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(self.path)?;
        Ok(())
    }
}
