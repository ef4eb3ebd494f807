//! Directories for the files of testcases, of which nothing may remain.
//!
//! A run owns a directory `knee-work.XXXXXX` in the place that the user chose, and one in
//! `/dev/shm` when a testcase wants a tmpfs. Each round gets a subdirectory that goes with the
//! round. The runner removes it when knee itself was killed; and should both be killed at once,
//! the next run sweeps it away: a directory whose lock nobody holds has no owner.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

/// Start of the name of every directory that knee makes.
const PREFIX: &str = "knee-work.";
/// The locked file in it.
const LOCK: &str = ".lock";

/// A run's directory, removed when dropped.
pub struct WorkDir {
    dir: tempfile::TempDir,
    next: u64,
    _lock: File,
}

impl WorkDir {
    /// Makes a directory below `parent`, after removing those there that dead runs left.
    pub fn create(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        // Locked before it gets its name: whoever sees a lock file sees who holds it.
        let nameless = dir.path().join(".lock.new");
        let lock = File::create(&nameless)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&nameless, dir.path().join(LOCK))?;
        Ok(Self { dir, next: 0, _lock: lock })
    }

    /// A new empty directory for one round; pass it to [`WorkDir::end_round`] afterwards.
    pub fn begin_round(&mut self) -> io::Result<PathBuf> {
        self.next += 1;
        let dir = self.dir.path().join(self.next.to_string());
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Removes the directory of a round with all that is in it.
    pub fn end_round(&self, dir: &Path) -> io::Result<()> {
        remove_all(dir)
    }
}

/// Removes what the round in `dir` left, and the run's directory if knee is no longer there to do
/// it. Called by a runner whose knee was killed.
pub(crate) fn remove_orphaned(dir: &Path) {
    let Some(run) = dir.parent() else { return };
    let is_ours = run.file_name().is_some_and(|n| n.to_string_lossy().starts_with(PREFIX));
    let _ = remove_all(if is_ours { run } else { dir });
}

fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A directory without a lock is one that is just being made.
        let Ok(lock) = File::open(entry.path().join(LOCK)) else { continue };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = remove_all(&entry.path());
        }
    }
}

fn remove_all(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_run_is_swept_and_a_living_one_is_not() {
        let parent = tempfile::tempdir().unwrap();
        let dead = parent.path().join("knee-work.dead");
        fs::create_dir_all(dead.join("1/files")).unwrap();
        File::create(dead.join(LOCK)).unwrap();
        let stranger = parent.path().join("knee-work.unlocked");
        fs::create_dir(&stranger).unwrap();

        let living = WorkDir::create(parent.path()).unwrap();
        let _second = WorkDir::create(parent.path()).unwrap();

        assert!(!dead.exists());
        assert!(stranger.exists());
        assert!(living.dir.path().exists());
    }

    #[test]
    fn a_round_leaves_nothing() {
        let parent = tempfile::tempdir().unwrap();
        let mut work = WorkDir::create(parent.path()).unwrap();
        let round = work.begin_round().unwrap();
        fs::write(round.join("file"), "x").unwrap();
        work.end_round(&round).unwrap();
        assert!(!round.exists());
        work.end_round(&round).unwrap();
        drop(work);
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
