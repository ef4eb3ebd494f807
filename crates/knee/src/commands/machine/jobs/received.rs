//! What a host sends back. It is unpacked into a directory of its own, and moved to the other results only if it
//! contains nothing but files and directories. A later archive could write to other files through a link.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use knee_host::workdir::remove_all;
use tempfile::TempDir;

/// How the name of a directory with received files begins.
const PREFIX: &str = ".received-";

/// Received files that are not checked yet. They are deleted when this value is dropped.
pub(super) struct Received(TempDir);

impl Drop for Received {
    fn drop(&mut self) {
        // `TempDir` opens a file for each level of directories, and the host chooses how many there are.
        let _ = remove_all(self.path());
    }
}

impl Received {
    /// An empty directory in `directory`.
    pub(super) fn create(directory: &Path) -> io::Result<Self> {
        // With a loose umask, tar creates files that everybody could replace between their check and their use.
        let own = Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix(PREFIX).permissions(own).tempdir_in(directory).map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Moves what is at these relative paths to the same paths in `directory`, in this order. The first is a directory,
    /// and the others are files.
    ///
    /// # Errors
    /// There is something else or, in the directory, a link, a device, a FIFO or a socket, so nothing was moved; or a
    /// file cannot be moved.
    pub(super) fn accept(self, paths: &[PathBuf], directory: &Path) -> anyhow::Result<()> {
        for (nr, path) in paths.iter().enumerate() {
            let received = self.path().join(path);
            check(&received, path)?;
            let is_directory = received.is_dir();
            let kind = if is_directory { "a directory" } else { "not a directory" };
            ensure!(is_directory == (nr == 0), "{} is {kind}", path.display());
        }
        for path in paths {
            let to = directory.join(path);
            take(&self.path().join(path), &to)
                .with_context(|| format!("cannot write {}", to.display()))?;
        }
        Ok(())
    }
}

/// Deletes what a killed process had received in `directory`, as far as that is possible: a host chooses the permissions
/// of what it sends, and must not be able to end the jobs of others.
pub(super) fn delete_unchecked(directory: &Path) {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    for entry in entries {
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()) {
            let _ = remove_all(&entry.path());
        }
    }
}

/// The permissions that a host can give to what it sends. Nobody else can write to it.
const PERMITTED: u32 = 0o755;

/// Makes sure that there are only files and directories, without special permissions. Other users cannot reach them
/// yet, so what is at a path stays there.
fn check(path: &Path, name: &Path) -> anyhow::Result<()> {
    let cannot = || format!("cannot read the received {}", name.display());
    let metadata = fs::symlink_metadata(path).with_context(cannot)?;
    let permit = |mode: u32| fs::set_permissions(path, Permissions::from_mode(mode));
    let mode = metadata.permissions().mode() & PERMITTED;
    if metadata.is_dir() {
        permit(mode | 0o700).with_context(cannot)?;
        for entry in fs::read_dir(path).with_context(cannot)? {
            let entry = entry.with_context(cannot)?.file_name();
            check(&path.join(&entry), &name.join(&entry))?;
        }
        return Ok(());
    }
    if !metadata.is_file() {
        bail!(
            "{} is neither a file nor a directory, so knee keeps none of the results",
            name.display()
        );
    }
    // Set-user-ID would give others the rights of this user.
    permit(mode).with_context(cannot)
}

/// Moves a file, or the content of a directory. Replaces files that exist.
fn take(from: &Path, to: &Path) -> io::Result<()> {
    if !fs::symlink_metadata(from)?.is_dir() {
        return fs::rename(from, to);
    }
    match fs::create_dir(to) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_directory(to) => {}
        created => created?,
    }
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        take(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

fn is_directory(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    /// A directory with an older result, and received results.
    fn received() -> (TempDir, Received) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("results/both")).unwrap();
        fs::write(directory.path().join("results/both/old"), "old").unwrap();
        fs::write(directory.path().join("results/both/new"), "old").unwrap();
        let received = Received::create(directory.path()).unwrap();
        fs::create_dir_all(received.path().join("results/both/below")).unwrap();
        fs::write(received.path().join("results/both/new"), "new").unwrap();
        fs::write(received.path().join("results/both/below/file"), "below").unwrap();
        (directory, received)
    }

    fn results() -> [PathBuf; 1] {
        ["results".into()]
    }

    #[test]
    fn received_results_join_those_of_other_jobs() {
        let (directory, received) = received();
        let own = received.path().join("results/both/new");
        fs::set_permissions(own, Permissions::from_mode(0o4777)).unwrap();
        let mode = fs::metadata(received.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700, "other users can reach unchecked files");
        received.accept(&results(), directory.path()).unwrap();
        let both = directory.path().join("results/both");
        let read = |name: &str| fs::read_to_string(both.join(name)).unwrap();
        assert_eq!(["old", "new", "below/file"].map(read), ["old", "new", "below"]);
        let mode = fs::metadata(both.join("new")).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o755);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn nothing_is_kept_of_results_with_a_link_or_a_fifo() {
        let link = |path: &Path| symlink("/", path).unwrap();
        let fifo = |path: &Path| mkfifoat(CWD, path, Mode::RUSR | Mode::WUSR).unwrap();
        for make in [&link as &dyn Fn(&Path), &fifo] {
            let (directory, received) = received();
            make(&received.path().join("results/both/below/special"));
            let refused = received.accept(&results(), directory.path()).unwrap_err().to_string();
            assert!(refused.starts_with("results/both/below/special is neither"), "{refused}");
            let new = fs::read_to_string(directory.path().join("results/both/new")).unwrap();
            assert_eq!(new, "old");
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_status_that_is_a_directory_is_refused() {
        let (directory, received) = received();
        let paths = ["results", "status"].map(PathBuf::from);
        fs::create_dir(received.path().join("status")).unwrap();
        let refused = received.accept(&paths, directory.path()).unwrap_err().to_string();
        assert_eq!(refused, "status is a directory");
    }

    #[test]
    fn what_a_killed_process_had_received_is_deleted() {
        let (directory, received) = received();
        std::mem::forget(received);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        delete_unchecked(directory.path());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
