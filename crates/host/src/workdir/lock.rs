//! The lock of a run's directory. knee and the keepers of its programs share it while they use the directory;
//! the process that removes the directory of a dead run holds it alone.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use rustix::process::geteuid;

use crate::regular_file::RegularFile;

/// The lock file in the directory.
pub(super) const LOCK: &str = ".lock";
/// Tasks of a testcase do not share the lock, and may still create files while their runner kills them. Then the
/// directory is not empty when it should be removed.
const ATTEMPTS: u32 = 300;
const PAUSE: Duration = Duration::from_millis(100);

/// Makes and shares the lock of a new directory.
pub(super) fn create(dir: &Path) -> io::Result<File> {
    // Locked before it gets its name, so that a visible lock file is never free by mistake.
    let nameless = dir.join(".lock.new");
    // Another user who could open it could lock it first.
    let lock = File::options().write(true).create_new(true).mode(0o600).open(&nameless)?;
    flock(&lock, FlockOperation::NonBlockingLockShared)?;
    fs::rename(&nameless, dir.join(LOCK))?;
    Ok(lock)
}

/// Shares the lock of the run that `round` belongs to. If knee is killed, the directory of the run remains
/// until this file is closed.
///
/// # Errors
/// The directory is being removed, or does not belong to a run.
pub(crate) fn share(round: &Path) -> io::Result<File> {
    let dir = round.parent().ok_or(io::ErrorKind::NotFound)?;
    let lock = File::open(dir.join(LOCK))?;
    flock(&lock, FlockOperation::NonBlockingLockShared)?;
    Ok(lock)
}

/// Waits until nobody uses a directory of this user, and removes it.
pub(crate) fn remove_after_use(dir: &Path) {
    let Ok(_lock) = lock(dir, FlockOperation::LockExclusive) else { return };
    for _ in 0..ATTEMPTS {
        match remove_all(dir) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
                std::thread::sleep(PAUSE);
            }
            // No other error goes away.
            _ => return,
        }
    }
}

/// Removes a directory of this user that nobody uses.
pub(super) fn remove_if_unused(dir: &Path) -> io::Result<()> {
    let _lock = lock(dir, FlockOperation::NonBlockingLockExclusive)?;
    remove_all(dir)
}

/// Holds the lock of a directory of this user alone.
fn lock(dir: &Path, exclusively: FlockOperation) -> io::Result<File> {
    // A directory without a lock file is just being created.
    let path = dir.join(LOCK);
    let own = geteuid().as_raw();
    let lock = RegularFile::at(&path).without_links().owned_by(&[own]).open()?;
    flock(&lock, exclusively)?;
    Ok(lock)
}

/// Removes a directory with its content, if it exists. It may contain more levels of directories than this process may
/// open files.
///
/// # Errors
/// Something in it cannot be removed.
pub fn remove_all(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // It opens a file for each level, and a program can make any number of levels. rm does not.
        Err(error) if error.raw_os_error() == Some(libc::EMFILE) => {
            let mut rm = Command::new("rm");
            rm.args(["-rf", "--"]).arg(dir).stdin(Stdio::null()).stderr(Stdio::null());
            if rm.status()?.success() { Ok(()) } else { Err(error) }
        }
        other => other,
    }
}
