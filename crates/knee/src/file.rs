//! Files that commands write.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use knee_host::regular_file::FileError;
use knee_host::{AtomicFile, OwnDirectory, write_atomically};

use crate::filter::{Content, Filter};

/// Writes a whole file. It appears under its name only when it is complete.
pub(crate) fn write(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    write_atomically(path, content).with_context(|| cannot_write(path))
}

/// Like [`write`], for a file that may be too long for the memory. `write` writes it line by line.
pub(crate) fn write_with(
    path: &Path,
    content: Content,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> anyhow::Result<()> {
    let written = AtomicFile::create(path).and_then(|file| {
        let mut filter = Filter::new(file, content);
        write(&mut filter).and_then(|()| filter.flush())?;
        filter.out.persist()
    });
    written.with_context(|| cannot_write(path))
}

/// A directory for several files. They go into this directory, whatever is at its path later.
pub(crate) struct OutputDirectory {
    open: OwnDirectory,
    path: PathBuf,
}

impl OutputDirectory {
    /// Opens a directory. Refuses that of another user, or a link of another user.
    pub(crate) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self { open: OwnDirectory::open(path)?, path: path.to_owned() })
    }

    /// Writes a file as [`write`] does.
    pub(crate) fn write(&self, name: impl AsRef<Path>, content: &[u8]) -> anyhow::Result<()> {
        write_atomically(&self.open.path().join(&name), content)
            .with_context(|| cannot_write(&self.path.join(name)))
    }
}

/// The file for the result of a command that measures for a while.
pub(crate) struct Output {
    path: PathBuf,
    /// A FIFO or a device.
    special: Option<AtomicFile>,
}

impl Output {
    /// Checks before the measurement that knee can write the result. Opens a FIFO or a device, so that knee
    /// measures nothing in vain if no program reads the FIFO.
    pub(crate) fn begin(path: &Path) -> anyhow::Result<Self> {
        ensure!(!path.is_dir(), "-o {} is a directory; name a file in it", path.display());
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        ensure!(
            dir.is_none_or(Path::is_dir),
            "-o {}: its directory does not exist",
            path.display()
        );
        AtomicFile::check(path).with_context(|| cannot_write(path))?;
        let is_special = path.exists() && !path.is_file();
        let special = is_special.then(|| AtomicFile::create(path)).transpose();
        let special = special.with_context(|| cannot_write(path))?;
        Ok(Self { path: path.to_owned(), special })
    }

    /// Writes the result, and returns the path.
    pub(crate) fn finish(self, content: &[u8]) -> anyhow::Result<PathBuf> {
        match self.special {
            None => write(&self.path, content)?,
            Some(mut file) => {
                let written = file.write_all(content).and_then(|()| file.persist());
                written.with_context(|| cannot_write(&self.path))?;
            }
        }
        Ok(self.path)
    }
}

fn cannot_write(path: &Path) -> String {
    format!("cannot write {}", path.display())
}
