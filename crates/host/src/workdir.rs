//! Directories for the files of testcases, which are always removed.
//!
//! A run owns a directory `knee-work.XXXXXX` in the directory that the user chose, and one in
//! `/dev/shm` if a testcase requires a tmpfs. Each round gets a subdirectory, which is removed
//! after the round. If knee is killed, a keeper removes the directory after the last program that uses it has
//! ended. If the keeper is killed as well, the next run removes each directory that nobody uses.

pub(crate) mod lock;

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

pub use self::lock::remove_all;
use crate::fixed;
use crate::process::keeper::Keeper;
use crate::temporary::Listed;

/// Prefix of the names of all directories that knee creates.
const PREFIX: &str = "knee-work.";

/// A run's directory, removed when dropped.
pub struct WorkDir {
    dir: tempfile::TempDir,
    next: u64,
    _lock: File,
    _keeper: Option<Keeper>,
    /// Without a keeper, whoever ends this process early removes the directory.
    _listed: Option<Listed>,
}

impl WorkDir {
    /// Creates a directory below `parent`, after removing the directories of dead runs there.
    pub fn create(parent: &Path) -> io::Result<Self> {
        let parent = &fixed::open(parent)?;
        sweep(parent);
        // A user who can open the directory can watch it (inotify(7)), which slows down its files.
        let own = Permissions::from_mode(0o700);
        let dir = tempfile::Builder::new().prefix(PREFIX).permissions(own).tempdir_in(parent)?;
        let listed = Listed::new(dir.path());
        let lock = lock::create(dir.path())?;
        // A program other than knee has no keepers. Then there is still the sweep.
        let keeper = Keeper::of_directory(dir.path()).ok();
        let listed = keeper.is_none().then_some(listed);
        Ok(Self { dir, next: 0, _lock: lock, _keeper: keeper, _listed: listed })
    }

    /// A new empty directory for one round; pass it to [`WorkDir::end_round`] afterwards.
    pub fn begin_round(&mut self) -> io::Result<PathBuf> {
        self.next += 1;
        let dir = self.dir.path().join(self.next.to_string());
        // Of its own, because other users can traverse the directory of the run if a server of another user works
        // there, and because the umask may permit everything.
        DirBuilder::new().mode(0o700).create(&dir)?;
        Ok(dir)
    }

    /// Removes the directory of a round with all of its content.
    pub fn end_round(&self, dir: &Path) -> io::Result<()> {
        remove_all(dir)
    }
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
        let _ = lock::remove_if_unused(&entry.path());
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};
    use std::time::Duration;

    use rustix::fs::{CWD, FlockOperation, Mode, flock, mkfifoat};

    use super::lock::{LOCK, share};
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

    /// The directory of a run that has been killed, and the file of a process that uses the directory.
    fn killed(parent: &Path) -> (PathBuf, File) {
        let mut work = WorkDir::create(parent).unwrap();
        let used = share(&work.begin_round().unwrap()).unwrap();
        work.dir.disable_cleanup(true);
        // Another test may be starting a process, which inherits the file until it executes a program.
        flock(&work._lock, FlockOperation::Unlock).unwrap();
        (work.dir.path().to_owned(), used)
    }

    #[test]
    fn a_directory_is_swept_only_if_no_process_uses_it() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, used) = killed(parent.path());
        sweep(parent.path());
        assert!(dir.exists());
        flock(&used, FlockOperation::Unlock).unwrap();
        sweep(parent.path());
        assert!(!dir.exists());
        assert!(share(&dir.join("1")).is_err());
    }

    #[test]
    fn a_keeper_removes_a_directory_after_the_last_process_that_uses_it() {
        let parent = tempfile::tempdir().unwrap();
        let (dir, used) = killed(parent.path());
        std::thread::scope(|scope| {
            let keeper = scope.spawn(|| lock::remove_after_use(&dir));
            std::thread::sleep(Duration::from_millis(50));
            assert!(dir.exists());
            drop(used);
            keeper.join().unwrap();
        });
        assert!(!dir.exists());
    }

    #[test]
    fn other_users_can_neither_look_into_the_directory_nor_replace_it() {
        let parent = tempfile::tempdir().unwrap();
        let mut work = WorkDir::create(parent.path()).unwrap();
        let round = work.begin_round().unwrap();
        for dir in [&*round, round.parent().unwrap()] {
            assert_eq!(fs::metadata(dir).unwrap().mode() & 0o777, 0o700, "{}", dir.display());
        }
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
