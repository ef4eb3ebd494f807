//! One run: an input, its mutation, and a command on it.

use std::ffi::OsString;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::Context;

use crate::mutation::mutate;
use crate::process::{self, Ended, MOST_CPU};
use crate::random::Random;
use crate::readers::{GENERATOR, Original, PERF_MAP, Reader, TEXT};

/// One in so many runs takes any original. The others take one that knee accepts as it is.
const REFUSED_TOO: usize = 5;

/// What one run does.
pub(crate) struct Trial<'r> {
    pub(crate) reader: &'r Reader,
    pub(crate) original: &'r Original,
    pub(crate) command: &'static str,
    pub(crate) text: Vec<u8>,
}

impl<'r> Trial<'r> {
    /// Run number `run` of the campaign with this seed.
    pub(crate) fn of_run(seed: u64, run: u64, reader: &'r Reader) -> Self {
        let mut random = Random::of_run(seed, run);
        let command = *random.pick(reader.commands);
        let accepted = &reader.originals[..reader.accepted];
        let original = match accepted {
            [_, ..] if !random.one_in(REFUSED_TOO) => random.pick(accepted),
            _ => random.pick(&reader.originals),
        };
        // Files with the same place have the same format.
        let others: Vec<&Original> =
            reader.originals.iter().filter(|other| other.at == original.at).collect();
        let other = random.pick(&others);
        let text = mutate(&original.text, &other.text, &mut random);
        Self { reader, original, command, text }
    }

    /// A run of the reader's first command on an original as it is.
    pub(crate) fn of_original(reader: &'r Reader, original: &'r Original) -> Self {
        Self { reader, original, command: reader.commands[0], text: original.text.clone() }
    }

    /// The arguments of knee, without the mutated text.
    pub(crate) fn arguments(&self) -> Vec<&'static str> {
        self.command.split(' ').collect()
    }

    /// Writes the mutated text and the files that belong to it.
    pub(crate) fn write(&self, directory: &Path) -> anyhow::Result<()> {
        for (path, text) in &self.original.with {
            write(directory, path, text)?;
        }
        write(directory, self.original.at, &self.text)
    }

    /// Runs knee in a directory with all files in place.
    pub(crate) fn run(&self, knee: &Path, directory: &Path, prints: bool) -> anyhow::Result<Ended> {
        let mut command = Command::new(knee);
        for argument in self.arguments() {
            command.arg(self.argument(argument));
        }
        command.env_clear().env("LC_ALL", "C.UTF-8").env("HOME", directory);
        command.env("XDG_STATE_HOME", directory.join("state"));
        // A kernel is opened, and then there is no QEMU to boot it.
        command.env("KNEE_QEMU", "/nonexistent");
        // Each job uses one CPU.
        command.env("RAYON_NUM_THREADS", "1");
        command.stdin(File::open(directory.join(self.original.at))?);
        command.stdout(if prints { Stdio::inherit() } else { Stdio::null() });
        process::run(command.current_dir(directory), &directory.join("errors"), MOST_CPU)
    }

    /// Whether knee accepts the input. A message may mean that knee ignores it, as it does with bad noise floors.
    pub(crate) fn is_accepted(&self, knee: &Path, directory: &Path) -> anyhow::Result<bool> {
        self.write(directory)?;
        let ended = self.run(knee, directory, false)?;
        Ok(ended.status.success() && ended.errors.is_empty())
    }

    fn argument(&self, argument: &str) -> OsString {
        let Some(start) = argument.strip_suffix(TEXT) else { return argument.into() };
        // An argument cannot contain NUL.
        let text = self.text.iter().map(|byte| if *byte == 0 { b' ' } else { *byte });
        OsString::from_vec(start.bytes().chain(text).collect())
    }
}

/// A directory for each reader in which knee runs, with the files that every run needs.
pub(crate) struct Places(PathBuf);

impl Drop for Places {
    /// Removes the names that the last run of the generator left in `/tmp`.
    fn drop(&mut self) {
        if let Ok(names) = fs::read_link(self.0.join(PERF_MAP).join("names")) {
            let _ = fs::remove_file(names);
        }
    }
}

impl Places {
    pub(crate) fn create(directory: PathBuf, readers: &[Reader]) -> anyhow::Result<Self> {
        for reader in readers {
            place(&directory.join(reader.name), reader)?;
        }
        Ok(Self(directory))
    }

    pub(crate) fn of(&self, reader: &Reader) -> PathBuf {
        self.0.join(reader.name)
    }
}

/// Makes a directory with the files that every run of a reader needs.
pub(crate) fn place(directory: &Path, reader: &Reader) -> anyhow::Result<()> {
    fs::create_dir_all(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    for (path, text) in &reader.beside {
        make_parent(directory, path)?;
        write(directory, path, text)?;
        if path == GENERATOR {
            fs::set_permissions(directory.join(path), Permissions::from_mode(0o755))?;
        }
    }
    // All originals replace the same files.
    if let Some(original) = reader.originals.first() {
        let with = original.with.iter().map(|(path, _)| path.as_str());
        for path in with.chain([original.at]) {
            make_parent(directory, path)?;
        }
    }
    Ok(())
}

fn make_parent(directory: &Path, path: &str) -> anyhow::Result<()> {
    let path = directory.join(path);
    let parent = path.parent().unwrap_or(directory);
    fs::create_dir_all(parent).with_context(|| format!("cannot create {}", parent.display()))
}

fn write(directory: &Path, path: &str, text: &[u8]) -> anyhow::Result<()> {
    let path = directory.join(path);
    fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
}
