//! Directories for the files of testcases, which are always removed.
//!
//! A run owns a directory `knee-work.XXXXXX` in the directory that the user chose, and one in
//! `/dev/shm` if a testcase requires a tmpfs. Each round gets a subdirectory, which is removed
//! after the round. If knee is killed, a janitor removes the directory: a shell that waits for the
//! end of a pipe. If both are killed, the next run removes each directory whose lock is free.

use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::fixed;
use crate::process::{Stat, Tied, Ties, spawn};
use crate::regular_file::RegularFile;
use crate::temporary::Listed;

/// Prefix of the names of all directories that knee creates.
const PREFIX: &str = "knee-work.";
/// The lock file in it.
const LOCK: &str = ".lock";
/// The file in it with the process groups of the running command, a line each: its number, and the start time
/// of its leader.
const GROUPS: &str = ".groups";
/// The start time of a process, as a field of [`Stat`].
const START_TIME: usize = 22;

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
        fixed::require(&std::path::absolute(parent)?).map_err(io::Error::other)?;
        sweep(parent);
        // A user who can open the directory can watch it (inotify(7)), which slows down its files.
        let own = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(PREFIX).permissions(own).tempdir_in(parent)?;
        let listed = Listed::new(dir.path());
        // Locked before it gets its name, so that a visible lock file is never free by mistake.
        let nameless = dir.path().join(".lock.new");
        // Another user who could open it could lock it first.
        let lock = File::options().write(true).create_new(true).mode(0o600).open(&nameless)?;
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

/// Names the process groups that the janitor kills if knee is killed while this value exists. The
/// kernel kills the children of knee, but not their children. Drop it before the leaders of the groups
/// are reaped, because their numbers may be reused afterwards.
pub struct DeadMansNote(PathBuf);

impl DeadMansNote {
    /// A note beside `round`, a directory of [`WorkDir::begin_round`]. It names no group yet.
    pub fn beside(round: &Path) -> Option<Self> {
        Some(Self(round.parent()?.join(GROUPS)))
    }

    /// Adds the group with the number of this process, if there is one, or the process creates it later.
    pub fn add(&self, process: u32) {
        let started = Stat::read(process.cast_signed()).and_then(|stat| stat.number(START_TIME));
        if let (Some(started), Ok(mut file)) =
            (started, File::options().append(true).create(true).mode(0o600).open(&self.0))
        {
            let _ = writeln!(file, "{process} {started}");
        }
    }
}

impl Drop for DeadMansNote {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Nothing is ever written to the pipe, so `read` returns when its other end is closed.
///
/// If a process has the number of the group, but another start time than the leader, then the group has ended
/// and its number belongs to somebody else. If no process has this number, the group may still have members,
/// and the number is theirs. Field 22 of `/proc/PID/stat` is the 20th after the name of the program.
///
/// Tasks that are being killed may still create files at that moment; then `rm` fails and is repeated.
const WAIT_AND_REMOVE: &str = "trap '' INT TERM HUP; read -r nothing; n=0; dir=$1; \
    if [ -e \"$dir/.groups\" ]; then while read -r group started; do \
        case $group in ''|0|1|*[!0-9]*) continue ;; esac; \
        now=$(cat \"/proc/$group/stat\"); set -- ${now##*) }; \
        if [ $# -eq 0 ] || [ \"${20}\" = \"$started\" ]; then kill -9 \"-$group\"; fi; \
    done < \"$dir/.groups\"; fi; \
    until rm -rf -- \"$dir\"; do n=$((n + 1)); [ $n -lt 300 ] || exit; sleep 0.1; done";

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

/// Removes the directories of this user's dead runs. Everybody may write to `/tmp` and `/dev/shm`, so what is
/// there may be anything.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    let own = geteuid().as_raw();
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // This metadata is that of the entry itself, and not of a directory to which it links.
        if !entry.metadata().is_ok_and(|entry| entry.is_dir() && entry.uid() == own) {
            continue;
        }
        // A directory without a lock file is just being created.
        let path = entry.path().join(LOCK);
        let lock = RegularFile::at(&path).without_links().owned_by(&[own]).open();
        let Ok(lock) = lock else { continue };
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
    use std::os::unix::fs::{chown, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;
    use crate::skip::skip;

    /// The directory of a dead run, with a lock that `make` makes.
    fn dead(parent: &Path, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
        let dir = parent.join(format!("{PREFIX}{name}"));
        fs::create_dir(&dir).unwrap();
        make(&dir.join(LOCK));
        dir
    }

    #[test]
    fn a_lock_that_is_not_a_regular_file_is_neither_opened_nor_removed() {
        let parent = tempfile::tempdir().unwrap();
        let fifo = dead(parent.path(), "fifo", |lock| {
            mkfifoat(CWD, lock, Mode::RUSR | Mode::WUSR).unwrap();
        });
        // With a writer, a sweep that opened the FIFO would not wait, and would remove it.
        let writer = File::options().read(true).write(true).open(fifo.join(LOCK)).unwrap();
        let file = parent.path().join("file");
        fs::write(&file, "").unwrap();
        let link = dead(parent.path(), "link", |lock| symlink(&file, lock).unwrap());
        let linked = parent.path().join(format!("{PREFIX}linked"));
        let elsewhere = dead(parent.path(), "", |_| {});
        fs::write(elsewhere.join(LOCK), "").unwrap();
        let outside = parent.path().join("outside");
        fs::rename(&elsewhere, &outside).unwrap();
        symlink(&outside, &linked).unwrap();

        drop(WorkDir::create(parent.path()).unwrap());

        assert!(fifo.exists() && link.exists() && linked.is_symlink());
        assert!(outside.join(LOCK).exists());
        drop(writer);
    }

    #[test]
    fn a_dead_run_of_another_user_is_not_swept() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        let parent = tempfile::tempdir().unwrap();
        let of_other = |lock: &Path| {
            fs::write(lock, "").unwrap();
            chown(lock.parent().unwrap(), Some(65534), None).unwrap();
        };
        let foreign = dead(parent.path(), "foreign", of_other);
        let mixed = dead(parent.path(), "mixed", |lock| {
            fs::write(lock, "").unwrap();
            chown(lock, Some(65534), None).unwrap();
        });
        drop(WorkDir::create(parent.path()).unwrap());
        assert!(foreign.exists() && mixed.exists());
    }

    #[test]
    fn process_groups_are_killed_only_if_their_leaders_are_those_that_were_noted() {
        for is_noted in [true, false] {
            let parent = tempfile::tempdir().unwrap();
            let dir = parent.path().join("work");
            let round = dir.join("1");
            fs::create_dir_all(&round).unwrap();
            let note = DeadMansNote::beside(&round).unwrap();
            let start = |_| {
                let mut command = Command::new("sleep");
                command.arg("3600").process_group(0);
                let leader = Tied(spawn(&mut command, Ties::default()).unwrap());
                note.add(leader.0.id());
                leader
            };
            let leaders = [0, 1].map(start);
            if !is_noted {
                let lines = leaders.iter().map(|leader| format!("{} 1\n", leader.0.id()));
                fs::write(&note.0, lines.collect::<String>()).unwrap();
            }
            let mut janitor = hire_janitor(&dir).unwrap();
            drop(janitor.0.stdin.take());
            assert!(janitor.0.wait().unwrap().success());
            assert!(!dir.exists());
            for mut leader in leaders {
                if is_noted {
                    assert!(!leader.0.wait().unwrap().success());
                } else {
                    assert!(leader.0.try_wait().unwrap().is_none());
                }
            }
        }
    }

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
    fn other_users_can_neither_look_into_the_directory_nor_replace_it() {
        let parent = tempfile::tempdir().unwrap();
        let mut work = WorkDir::create(parent.path()).unwrap();
        let mode = fs::metadata(work.begin_round().unwrap().parent().unwrap()).unwrap().mode();
        assert_eq!(mode & 0o777, 0o700);
        drop(work);
        fs::set_permissions(parent.path(), Permissions::from_mode(0o777)).unwrap();
        let refused = WorkDir::create(parent.path()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("other users can write to it; use a directory"), "{refused}");
        fs::set_permissions(parent.path(), Permissions::from_mode(0o1777)).unwrap();
        assert!(WorkDir::create(parent.path()).is_ok());
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
