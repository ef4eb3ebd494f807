//! knee's directories in the user's cache.
//!
//! knee runs the programs and kernels in its cache, and runs apt with a configuration from there. So knee
//! refuses a cache that another user can change. knee also refuses a cache that contains a file of another
//! user, because that user can change the file.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use knee_host::LockFile;
use knee_host::fixed::{self, NotFixed, Readers};
use knee_host::regular_file::FileError;
use knee_host::users;

use crate::package::PackageError;

/// The name of the directory for incomplete downloads. A complete file moves from there to its final path.
const PARTIAL: &str = "partial";

/// The directory `$XDG_CACHE_HOME/knee/NAME`. It may be missing if this user cannot create it.
///
/// # Errors
/// There is no place for a cache, or another user can change what is in the directory, or something in the
/// directory belongs to another user.
pub(crate) fn cache(name: &str) -> Result<PathBuf, PackageError> {
    let base = base(std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from), std::env::home_dir());
    cache_in(&base.ok_or(PackageError::NoCache)?, name)
}

/// The directory for the caches of all programs. There is no fallback to a shared directory, such as `/tmp`.
fn base(cache: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |dir: &PathBuf| dir.is_absolute();
    cache.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".cache")))
}

fn cache_in(base: &Path, name: &str) -> Result<PathBuf, PackageError> {
    let dir = base.join("knee").join(name);
    let dir = match create(&dir) {
        // No other user can create the directory either, so it cannot contain files of other users.
        Err(PackageError::Write { source, .. }) if is_read_only(&source) => return Ok(dir),
        created => created?,
    };
    refuse_foreign_entries(&dir)?;
    Ok(dir)
}

/// Refuses a directory that contains a file, a directory or a link of another user, at any depth.
fn refuse_foreign_entries(dir: &Path) -> Result<(), PackageError> {
    let mut directories = vec![dir.to_owned()];
    while let Some(directory) = directories.pop() {
        // Another knee process may be removing its downloads.
        let entries = if_present(&directory, fs::read_dir(&directory))?;
        for entry in entries.into_iter().flatten() {
            let entry = entry.map_err(PackageError::read(&directory))?;
            let path = entry.path();
            // This does not follow links.
            let Some(found) = if_present(&path, entry.metadata())? else { continue };
            let owner = found.uid();
            if !users::is_own(owner) {
                return Err(PackageError::ForeignEntry { path, owner });
            }
            if found.is_dir() {
                directories.push(path);
            }
        }
    }
    Ok(())
}

/// `None` if there is nothing at the path.
fn if_present<T>(path: &Path, found: io::Result<T>) -> Result<Option<T>, PackageError> {
    match found {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(PackageError::read(path)(error)),
    }
}

fn is_read_only(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Creates a directory that only this user can read, unless it exists, and returns its real path. No other
/// user can replace the directory or what is in it.
pub(crate) fn create(dir: &Path) -> Result<PathBuf, PackageError> {
    fixed::create(dir, Readers::Own).map_err(|NotFixed { dir, error }| match error {
        FileError::System(error) => PackageError::write(&dir)(error),
        error => PackageError::ForeignCache { dir, error },
    })
}

/// Creates a directory of the cache unless it exists, and locks it until the returned lock is dropped. Waits
/// while another process holds the lock.
pub(crate) fn locked(dir: &Path) -> Result<LockFile, PackageError> {
    LockFile::wait(&create(dir)?).map_err(PackageError::write(dir))
}

/// Creates an empty directory in `dir`, calls `fetch` with it, and removes it afterwards. The caller must
/// hold the lock of `dir`.
pub(crate) fn in_partial<T>(
    dir: &Path,
    fetch: impl FnOnce(&Path) -> Result<T, PackageError>,
) -> Result<T, PackageError> {
    let partial = dir.join(PARTIAL);
    // A knee process that was killed may have left this directory behind.
    remove(&partial)?;
    let fetched = fetch(&create(&partial)?);
    let removed = remove(&partial);
    fetched.and_then(|fetched| removed.map(|()| fetched))
}

/// Removes a directory and its content, if it exists.
pub(crate) fn remove(dir: &Path) -> Result<(), PackageError> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(PackageError::write(dir)(error))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
    use std::time::Duration;

    use knee_host::skip::skip;
    use rustix::fs::{FlockOperation, flock};

    use rustix::process::geteuid;

    use super::*;

    fn set(dir: &Path, mode: u32) {
        fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(result: Result<PathBuf, PackageError>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn without_a_home_there_is_no_cache() {
        let path = |path: &str| Some(PathBuf::from(path));
        assert_eq!(base(path("/caches"), path("/home/u")), path("/caches"));
        assert_eq!(base(path("relative"), path("/home/u")), path("/home/u/.cache"));
        assert_eq!(base(None, path("/home/u")), path("/home/u/.cache"));
        for none in [None, path("")] {
            assert_eq!(base(none.clone(), none), None);
        }
    }

    #[test]
    fn a_cache_that_others_can_change_is_refused() {
        let base = tempfile::tempdir().unwrap();
        let dir = cache_in(base.path(), "apt").unwrap();
        drop(locked(&dir).unwrap());
        assert_eq!(fs::metadata(&dir).unwrap().mode() & 0o777, 0o700);
        assert_eq!(cache_in(base.path(), "apt").unwrap(), dir);
        for changed in [&dir, dir.parent().unwrap(), base.path()] {
            set(changed, 0o702);
            let refused = refusal(cache_in(base.path(), "apt"));
            let expected =
                format!("cannot use the cache in {}: other users can write", changed.display());
            assert!(refused.starts_with(&expected), "{refused}");
            set(changed, 0o700);
        }
        set(&dir, 0o777);
        assert!(matches!(locked(&dir), Err(PackageError::ForeignCache { .. })));
    }

    #[test]
    fn a_cache_may_be_in_a_directory_for_everybody_in_which_names_are_protected() {
        let base = tempfile::tempdir().unwrap();
        set(base.path(), 0o1777);
        assert!(cache_in(base.path(), "apt").is_ok());
        set(base.path(), 0o777);
        assert!(cache_in(&base.path().join("missing"), "apt").is_err());
    }

    #[test]
    fn a_link_of_another_user_in_a_directory_for_everybody_leads_to_no_cache() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a link to another user");
        }
        let [base, own] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        set(base.path(), 0o1777);
        let link = base.path().join("knee");
        symlink(own.path(), &link).unwrap();
        assert!(cache_in(base.path(), "apt").is_ok());
        std::os::unix::fs::lchown(&link, Some(65534), None).unwrap();
        let refused = refusal(cache_in(base.path(), "apt"));
        assert!(refused.contains("it belongs to user 65534"), "{refused}");
        assert!(locked(&link.join("other")).is_err());
        assert!(!own.path().join("other").exists());
    }

    #[test]
    fn a_cache_below_a_directory_that_others_can_change_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let [shared, own] = ["shared", "own"].map(|name| top.path().join(name));
        let base = shared.join("home/cache");
        fs::create_dir_all(&base).unwrap();
        fs::create_dir(&own).unwrap();
        symlink(&base, own.join("absolute")).unwrap();
        symlink("../shared/home", own.join("relative")).unwrap();
        symlink(&own, shared.join("link")).unwrap();
        let paths = [
            base.clone(),
            own.join("absolute"),
            own.join("relative/cache"),
            own.join("../shared/home/cache"),
            shared.join("link"),
        ];
        set(&shared, 0o757);
        for path in &paths {
            let refused = refusal(cache_in(path, "apt"));
            let expected = format!("cannot use the cache in {}: other users", shared.display());
            assert!(refused.starts_with(&expected), "{}: {refused}", path.display());
        }
        set(&shared, 0o755);
        for path in &paths {
            assert!(cache_in(path, "apt").is_ok(), "{}", path.display());
        }
        symlink("loop", own.join("loop")).unwrap();
        assert!(refusal(cache_in(&own.join("loop"), "apt")).contains("symbolic links"));
        if !geteuid().is_root() {
            return skip("root", "only root can give a directory to another user");
        }
        chown(&shared, Some(65534), None).unwrap();
        let refused = refusal(cache_in(&base, "apt"));
        assert!(refused.contains("it belongs to user 65534"), "{refused}");
        chown(&shared, Some(0), None).unwrap();
        // In a world-writable directory, the owner of a symbolic link can replace the link.
        lchown(own.join("absolute"), Some(65534), None).unwrap();
        let refused = refusal(cache_in(&own.join("absolute"), "apt"));
        assert!(refused.contains("it belongs to user 65534"), "{refused}");
    }

    #[test]
    fn a_cache_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a directory to another user");
        }
        let base = tempfile::tempdir().unwrap();
        let dir = cache_in(base.path(), "apt").unwrap();
        drop(locked(&dir).unwrap());
        for changed in [&dir, dir.parent().unwrap(), base.path()] {
            chown(changed, Some(65534), None).unwrap();
            let refused = refusal(cache_in(base.path(), "apt"));
            assert!(refused.contains("it belongs to user 65534"), "{refused}");
            // The content of the directory also belongs to that user, so a new owner would not make the
            // directory safe.
            assert!(refused.ends_with("; set XDG_CACHE_HOME to a new directory of your own"));
            chown(changed, Some(0), None).unwrap();
        }
    }

    #[test]
    fn a_cache_with_a_file_of_another_user_is_refused_at_any_depth() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        let base = tempfile::tempdir().unwrap();
        let dir = cache_in(base.path(), "qemu").unwrap();
        let (root, file) = (dir.join("trixie_99.0"), dir.join("trixie_99.0/usr/lib/linker"));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "").unwrap();
        let link = dir.join("link");
        symlink("/nowhere", &link).unwrap();
        assert!(cache_in(base.path(), "qemu").is_ok());
        for changed in [&root, &file, &link] {
            lchown(changed, Some(65534), None).unwrap();
            let refused = refusal(cache_in(base.path(), "qemu"));
            let expected = format!("{} in the cache belongs to user 65534", changed.display());
            assert!(refused.starts_with(&expected), "{refused}");
            lchown(changed, Some(0), None).unwrap();
        }
    }

    #[test]
    fn a_user_who_may_read_a_cache_cannot_keep_it_locked() {
        let base = tempfile::tempdir().unwrap();
        let dir = cache_in(base.path(), "apt").unwrap();
        drop(locked(&dir).unwrap());
        let of_reader = fs::File::open(&dir).unwrap();
        flock(&of_reader, FlockOperation::NonBlockingLockExclusive).unwrap();
        // Call `locked` on another thread: if the reader's lock made the call wait, it would never return.
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(locked(&dir).map(drop).is_ok()));
        assert!(receiver.recv_timeout(Duration::from_secs(60)).unwrap());
        drop(of_reader);
    }

    #[test]
    fn a_partial_download_of_a_killed_knee_is_not_used() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(PARTIAL)).unwrap();
        fs::write(dir.path().join(PARTIAL).join("half"), "").unwrap();
        let is_empty = |dir: &Path| Ok(fs::read_dir(dir).unwrap().count() == 0);
        assert!(in_partial(dir.path(), is_empty).unwrap());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
