//! Writing a record so that nothing already measured can be lost.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use super::lock::Lock;
use super::{Access, RUN_FILE, RecordError, RunRecord, SAMPLES_FILE, SampleLine};

/// An open record; nobody else can write it meanwhile.
pub struct Writer {
    dir: PathBuf,
    _lock: Lock,
    samples: File,
    /// Length of the whole lines in the file of samples.
    length: u64,
}

impl Writer {
    /// Makes the directory `dir`, which must not exist or be empty, and writes the description of
    /// a run that has just begun. Where that fails, nothing new is left.
    pub fn create(dir: &Path, run: &RunRecord) -> Result<Self, RecordError> {
        let new: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
        let begun = Self::begin(dir, run);
        // A directory that another knee has made and locked meanwhile is about to be filled.
        if !matches!(begun, Ok(_) | Err(RecordError::InUse { .. })) {
            for dir in new {
                let _ = fs::remove_dir(dir);
            }
        }
        begun
    }

    fn begin(dir: &Path, run: &RunRecord) -> Result<Self, RecordError> {
        fs::create_dir_all(dir).map_err(|e| RecordError::io(Access::Create, dir, e))?;
        let lock = Lock::take(dir)?;
        let mut entries = fs::read_dir(dir).map_err(|e| RecordError::io(Access::Create, dir, e))?;
        if entries.next().is_some() {
            return Err(RecordError::NotEmpty { dir: dir.to_owned() });
        }
        let path = dir.join(SAMPLES_FILE);
        let samples = OpenOptions::new()
            .create_new(true)
            .append(true)
            .open(&path)
            .map_err(|e| RecordError::io(Access::Create, &path, e))?;
        let writer = Self { dir: dir.to_owned(), _lock: lock, samples, length: 0 };
        writer.put(run, Access::Create).inspect_err(|_| {
            let _ = fs::remove_file(&path);
        })?;
        Ok(writer)
    }

    /// Goes on in `dir`, which holds whole lines of samples, with what `run` says now.
    pub(super) fn go_on(dir: PathBuf, lock: Lock, run: &RunRecord) -> Result<Self, RecordError> {
        let path = dir.join(SAMPLES_FILE);
        let failed = |e| RecordError::io(Access::Write, &path, e);
        let samples = OpenOptions::new().append(true).open(&path).map_err(failed)?;
        let length = samples.metadata().map_err(failed)?.len();
        let writer = Self { dir, _lock: lock, samples, length };
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
        write_atomically(&path, &text).map_err(|e| RecordError::io(access, &path, e))
    }

    /// Adds one sample.
    pub fn append(&mut self, line: &SampleLine) -> Result<(), RecordError> {
        let text = to_line(line);
        if let Err(error) = self.samples.write_all(&text) {
            // Half a line on a full disk would be the start of the next one.
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

/// Replaces the file at `path` by one with this content: readers see the old one or the new one.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(content)?;
    file.persist()
}

/// A file that replaces another one when it is whole; dropped before, it is as if it had never been.
/// What is no ordinary file, such as a pipe or `/dev/stdout`, is written to as it is.
pub struct AtomicFile(Target);

enum Target {
    /// The file by itself: errors of `NamedTempFile` name a file that nobody has asked for.
    Replaced {
        path: PathBuf,
        temporary: tempfile::TempPath,
        file: BufWriter<File>,
    },
    Special(BufWriter<File>),
}

impl AtomicFile {
    /// One that is to be at `path`, or where that leads, with the permissions of what is there.
    pub fn create(path: &Path) -> io::Result<Self> {
        let there = match std::fs::metadata(path) {
            Ok(there) => Some(there),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let file = File::options().write(true).open(path)?;
            return Ok(Self(Target::Special(BufWriter::new(file))));
        }
        // A link goes on leading to it.
        let path = if there.is_some() { path.canonicalize()? } else { path.to_owned() };
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let open =
            |path: &Path| File::options().write(true).create_new(true).mode(0o644).open(path);
        let (file, temporary) = tempfile::Builder::new().make_in(dir, open)?.into_parts();
        if let Some(there) = there {
            file.set_permissions(there.permissions())?;
        }
        Ok(Self(Target::Replaced { path, temporary, file: BufWriter::new(file) }))
    }

    /// Adds to it.
    pub fn write_all(&mut self, content: &[u8]) -> io::Result<()> {
        match &mut self.0 {
            Target::Replaced { file, .. } => file.write_all(content),
            Target::Special(file) => file.write_all(content),
        }
    }

    /// It is whole.
    pub fn persist(self) -> io::Result<()> {
        match self.0 {
            Target::Special(mut file) => file.flush(),
            Target::Replaced { path, temporary, file } => {
                let file = file.into_inner().map_err(io::IntoInnerError::into_error)?;
                file.sync_all()?;
                temporary.persist(path).map_err(|refused| refused.error)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn a_link_goes_on_leading_to_what_is_written_with_the_permissions_it_had() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn an_error_named_the_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| write_atomically(path, b"").unwrap_err().to_string();
        assert_eq!(error(&dir.path().join("none/file")), "No such file or directory (os error 2)");
        let file = dir.path().join("file");
        write_atomically(&file, b"").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o133, 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_ordinary_file_stays_what_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mkfifoat(
            rustix::fs::CWD,
            &fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        )
        .unwrap();
        let path = fifo.clone();
        let reader = std::thread::spawn(move || fs::read(path).unwrap());
        write_atomically(&fifo, b"through").unwrap();
        assert_eq!(reader.join().unwrap(), b"through");
        assert!(!fs::metadata(&fifo).unwrap().is_file());
        assert!(write_atomically(dir.path(), b"").is_err());
    }
}
