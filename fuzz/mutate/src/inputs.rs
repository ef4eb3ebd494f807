//! The inputs to mutate: those in the repository, and those that knee has recorded on this machine.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A file by its path in the directory of a run.
pub(crate) type Placed = (String, Vec<u8>);

pub(crate) struct Inputs {
    repository: PathBuf,
    /// The directory of [`record`](crate::recording::record).
    recorded: PathBuf,
}

impl Inputs {
    pub(crate) fn new(recorded: PathBuf) -> Self {
        let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        Self { repository, recorded }
    }

    /// A file of the repository.
    pub(crate) fn stored(&self, path: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.repository.join(path);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    }

    /// The corpus of a fuzz target, by name.
    pub(crate) fn corpus(&self, target: &str) -> anyhow::Result<Vec<Placed>> {
        self.directory(&format!("fuzz/corpus/{target}"))
    }

    /// The files in a directory of the repository, by path.
    pub(crate) fn directory(&self, path: &str) -> anyhow::Result<Vec<Placed>> {
        let directory = self.repository.join(path);
        let names = names(&directory).with_context(|| format!("cannot read {path}"))?;
        let file = |name: String| Ok((format!("{path}/{name}"), fs::read(directory.join(name))?));
        names.into_iter().map(file).collect()
    }

    /// A recorded file, if this machine could record it.
    pub(crate) fn recorded(&self, path: &str) -> Option<Placed> {
        Some((format!("recorded {path}"), fs::read(self.recorded.join(path)).ok()?))
    }

    /// All recorded files whose name begins and ends like this.
    pub(crate) fn all_recorded(&self, start: &str, end: &str) -> Vec<Placed> {
        let names = names(&self.recorded).unwrap_or_default();
        let wanted = names.iter().filter(|name| name.starts_with(start) && name.ends_with(end));
        wanted.filter_map(|name| self.recorded(name)).collect()
    }

    /// The recorded directories that contain this file.
    pub(crate) fn recorded_directories(&self, file: &str) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.recorded)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.path().join(file).is_file())
            .filter_map(|entry| entry.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }
}

/// The names of the files in a directory, sorted, because the number of a run selects one by its place.
fn names(directory: &Path) -> std::io::Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.path().is_file() {
            names.extend(entry.file_name().into_string());
        }
    }
    names.sort();
    Ok(names)
}
