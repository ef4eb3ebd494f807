//! Temporary files of this process, so that a process that ends without running destructors leaves
//! none behind.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The temporary files and directories of this process.
static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Lists a path as temporary until this value is dropped. Its owner removes the file itself; the
/// list serves only [`remove_all`].
#[derive(Debug)]
pub struct Listed(PathBuf);

impl Listed {
    /// Lists `path`. Call this before the file exists, so that no file is ever missing in the list.
    pub fn new(path: &Path) -> Self {
        paths().insert(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        paths().remove(&self.0);
    }
}

/// Removes the listed files and directories. Afterwards, a thread that lists another one waits
/// forever, so end the process at once.
pub fn remove_all() {
    let paths = paths();
    for path in paths.iter() {
        // A path may have become a file of its final name, or may not exist yet.
        let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    }
    // Keeps the lock.
    std::mem::forget(paths);
}

fn paths() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PATHS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_listed_until_its_owner_has_removed_it() {
        let path = Path::new("/does/not/exist/temporary");
        let listed = Listed::new(path);
        assert!(paths().contains(path));
        drop(listed);
        assert!(!paths().contains(path));
    }
}
