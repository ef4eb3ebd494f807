//! Directories for the files of testcases, which are always removed.
//!
//! A run owns a directory `knee-work.XXXXXX` in the directory that the user chose, and one in
//! `/dev/shm` if a testcase requires a tmpfs. Each round gets a subdirectory, which is removed
//! after the round. If knee is killed, a janitor removes the directory: a shell that waits for the
//! end of a pipe. If both are killed, the next run removes each directory whose lock is free.

use std::fs::{self, File};
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::process::{Tied, Ties, spawn};
use crate::temporary::Listed;

/// Prefix of the names of all directories that knee creates.
const PREFIX: &str = "knee-work.";
/// The lock file in it.
const LOCK: &str = ".lock";
/// The file in it with the process group of the running command.
const GROUP: &str = ".group";

/// A run's directory, removed when dropped.
pub struct WorkDir {
    dir: tempfile::TempDir,
    next: u64,
    _lock: File,
    _janitor: Option<Tied>,
    /// Without a janitor, whoever ends this process early removes the directory.
    _listed: Option<Listed>,
}

impl WorkDir {
    /// Creates a directory below `parent`, after removing the directories of dead runs there.
    pub fn create(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
        let listed = Listed::new(dir.path());
        // Locked before it gets its name, so that a visible lock file is never free by mistake.
        let nameless = dir.path().join(".lock.new");
        let lock = File::create(&nameless)?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&nameless, dir.path().join(LOCK))?;
        // Where there is no shell, there is still the sweep.
        let janitor = hire_janitor(dir.path()).ok();
        let listed = janitor.is_none().then_some(listed);
        Ok(Self { dir, next: 0, _lock: lock, _janitor: janitor, _listed: listed })
    }

    /// A new empty directory for one round; pass it to [`WorkDir::end_round`] afterwards.
    pub fn begin_round(&mut self) -> io::Result<PathBuf> {
        self.next += 1;
        let dir = self.dir.path().join(self.next.to_string());
        fs::create_dir(&dir)?;
        Ok(dir)
    }

    /// Removes the directory of a round with all of its content.
    pub fn end_round(&self, dir: &Path) -> io::Result<()> {
        remove_all(dir)
    }
}

/// Names the process group that the janitor kills if knee is killed while this value exists. The
/// kernel kills the children of knee, but not their children. Drop it before the leader of the
/// group is reaped, because the number of the group may be reused afterwards.
pub struct DeadMansNote(PathBuf);

impl DeadMansNote {
    /// Writes it down beside `round`, a directory of [`WorkDir::begin_round`].
    pub fn leave(round: &Path, group: u32) -> Option<Self> {
        let file = round.parent()?.join(GROUP);
        fs::write(&file, group.to_string()).ok()?;
        Some(Self(file))
    }
}

impl Drop for DeadMansNote {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Nothing is ever written to the pipe, so `read` returns when its other end is closed. Tasks that
/// are being killed may still create files at that moment; then `rm` fails and is repeated.
const WAIT_AND_REMOVE: &str = "trap '' INT TERM HUP; read -r nothing; n=0; \
    [ -s \"$1/.group\" ] && kill -9 \"-$(cat \"$1/.group\")\"; \
    until rm -rf -- \"$1\"; do n=$((n + 1)); [ $n -lt 300 ] || exit; sleep 0.1; done";

/// Starts a janitor, which removes a directory after this process has died, for whatever reason.
fn hire_janitor(dir: &Path) -> io::Result<Tied> {
    let dir = std::path::absolute(dir)?;
    let mut shell = Command::new("sh");
    shell.args(["-c", WAIT_AND_REMOVE, "knee-janitor"]).arg(dir).current_dir("/");
    shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C must not reach it.
    shell.process_group(0);
    spawn(&mut shell, Ties::default()).map(Tied)
}

fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A directory without a lock file is just being created.
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
    fn the_janitor_removes_a_directory_when_its_pipe_ends() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("full of it's things");
        fs::create_dir_all(dir.join("1/files")).unwrap();
        let mut janitor = hire_janitor(&dir).unwrap();
        assert!(dir.exists());
        drop(janitor.0.stdin.take());
        assert!(janitor.0.wait().unwrap().success());
        assert!(!dir.exists());
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
