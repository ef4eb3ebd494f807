//! Directories that no other user can replace.
//!
//! [`open`] and [`create`] walk a path part by part. Each part is opened relative to the one before it and without
//! following links, and the open file is checked. So what is checked is what is used, even if another user
//! changes a directory for everybody, such as `/tmp`, at the same time. The result is the real path of the directory.
//! Only this user and root can make it lead elsewhere, so it may be used like any other path.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, Stat, fstat, mkdirat, openat, readlinkat};
use rustix::io::Errno;

use crate::regular_file::{FileError, has_acl, others_can_write, require_own};
use crate::users;

/// With this bit, users who may write to a directory cannot replace the files of others there.
const STICKY: u32 = 0o1000;
/// The kernel follows no more symbolic links in a path either (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

/// A directory that cannot be used, because other users can replace a part of its path, or for another reason.
#[derive(Debug, thiserror::Error)]
#[error("{}", self.message())]
pub struct NotFixed {
    /// The directory or symbolic link.
    pub dir: PathBuf,
    /// Why.
    pub error: FileError,
}

impl NotFixed {
    fn message(&self) -> String {
        let Self { dir, error } = self;
        let dir = dir.display();
        match error {
            FileError::System(error) => format!("cannot use {dir}: {error}"),
            error @ FileError::Owner(_) => format!("{dir}: {error}; use a directory of your own"),
            error => format!(
                "other users can change {dir}: {error}; use a directory of your own, or permit only \
                 yourself to write to it: chmod go-w"
            ),
        }
    }
}

impl From<NotFixed> for io::Error {
    fn from(error: NotFixed) -> Self {
        Self::new(error.error.kind(), error)
    }
}

/// Who can read a directory that [`create`] creates. Nobody else can write to it, whatever the umask.
#[derive(Debug, Clone, Copy)]
pub enum Readers {
    /// Everybody, if the umask permits it.
    All,
    /// Only this user.
    Own,
}

/// The real path of a directory. Neither it nor any directory on the way can be replaced by another user. Other users
/// may be able to create files in it, as in `/tmp`.
///
/// # Errors
/// Another user can replace a part of the path, or there is no such directory.
pub fn open(dir: &Path) -> Result<PathBuf, NotFixed> {
    let found = Walk::along(dir, None)?;
    found.require_directory().map(|()| found.path)
}

/// Like [`open`], for a directory of this user to which nobody else can write. Creates it, and the missing ones on the
/// way to it, if necessary.
///
/// # Errors
/// Those of [`open`], the directory cannot be created, or it belongs to somebody else.
pub fn create(dir: &Path, readers: Readers) -> Result<PathBuf, NotFixed> {
    let found = Walk::along(dir, Some(readers))?;
    found.require_directory()?;
    require_own(&found.file).map_err(|error| NotFixed { dir: found.path.clone(), error })?;
    Ok(found.path)
}

/// How far the walk along a path has come.
struct Walk {
    /// An open directory, or whatever is at the end of the path.
    file: OwnedFd,
    stat: Stat,
    /// Its real path.
    path: PathBuf,
}

impl Walk {
    fn along(path: &Path, creates: Option<Readers>) -> Result<Self, NotFixed> {
        let absolute = std::path::absolute(path).map_err(refused(path))?;
        let mut here = Self::root()?;
        let mut rest: Vec<PathBuf> = parts(&absolute);
        let mut links = 0;
        while let Some(part) = rest.pop() {
            match part.components().next() {
                Some(Component::Normal(name)) => {
                    let next = here.next(name, creates)?;
                    if FileType::from_raw_mode(next.stat.st_mode) != FileType::Symlink {
                        here = next;
                        continue;
                    }
                    links += 1;
                    if links > MOST_LINKS {
                        return Err(refused(path)(Errno::LOOP.into()));
                    }
                    let target = readlinkat(&next.file, "", Vec::new());
                    let target = target.map_err(|error| refused(&next.path)(error.into()))?;
                    rest.extend(parts(Path::new(&OsString::from_vec(target.into_bytes()))));
                }
                Some(Component::RootDir) => here = Self::root()?,
                Some(Component::ParentDir) => {
                    here.path.pop();
                    here = Self::check(open_part(&here.file, OsStr::new("..")), here.path)?;
                }
                _ => {}
            }
        }
        Ok(here)
    }

    fn root() -> Result<Self, NotFixed> {
        Self::check(open_part(CWD, OsStr::new("/")), PathBuf::from("/"))
    }

    /// What has this name in the directory. A missing directory is created, if it is to be.
    fn next(&self, name: &OsStr, creates: Option<Readers>) -> Result<Self, NotFixed> {
        let path = self.path.join(name);
        let found = match (open_part(&self.file, name), creates) {
            (Err(Errno::NOENT), Some(readers)) => {
                let mode = match readers {
                    Readers::All => 0o755,
                    Readers::Own => 0o700,
                };
                match mkdirat(&self.file, name, Mode::from_raw_mode(mode)) {
                    // Whoever created it meanwhile, the check decides.
                    Ok(()) | Err(Errno::EXIST) => open_part(&self.file, name),
                    // Somebody else can create it.
                    Err(Errno::ACCESS) if self.is_shared() => {
                        return Err(NotFixed { dir: path, error: FileError::Shared });
                    }
                    Err(error) => Err(error),
                }
            }
            (found, _) => found,
        };
        Self::check(found, path)
    }

    /// Makes sure that no other user can replace what is open, or what is in it.
    fn check(file: rustix::io::Result<OwnedFd>, path: PathBuf) -> Result<Self, NotFixed> {
        let opened = file.and_then(|file| fstat(&file).map(|stat| (file, stat)));
        let (file, stat) = opened.map_err(|error| refused(&path)(error.into()))?;
        let here = Self { file, stat, path };
        let error = match here.stat.st_uid {
            owner if !users::is_trusted(owner) => FileError::Owner(owner),
            _ if here.is_shared() && here.stat.st_mode & STICKY == 0 => FileError::Shared,
            _ => return Ok(here),
        };
        Err(NotFixed { dir: here.path, error })
    }

    /// Whether other users can create files in it. The permissions of a symbolic link mean nothing.
    fn is_shared(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) != FileType::Symlink
            && others_can_write(self.stat.st_mode, self.stat.st_gid, || has_acl(&self.file))
    }

    fn require_directory(&self) -> Result<(), NotFixed> {
        match FileType::from_raw_mode(self.stat.st_mode) {
            FileType::Directory => Ok(()),
            _ => Err(refused(&self.path)(Errno::NOTDIR.into())),
        }
    }
}

/// Opens what has this name in a directory, and not what a link there leads to. It is not open for reading, so no FIFO
/// waits, and no device notices.
fn open_part(directory: impl AsFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    openat(directory, name, flags, Mode::empty())
}

fn refused(dir: &Path) -> impl FnOnce(io::Error) -> NotFixed {
    let dir = dir.to_owned();
    |error| NotFixed { dir, error: error.into() }
}

/// The parts of a path, the last one first. The first part of an absolute path is `/`.
fn parts(path: &Path) -> Vec<PathBuf> {
    path.components().rev().map(|part| PathBuf::from(part.as_os_str())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt, lchown, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::process::geteuid;

    use super::*;
    use crate::skip::skip;

    fn set(dir: &Path, mode: u32) {
        fs::set_permissions(dir, Permissions::from_mode(mode)).unwrap();
    }

    fn refusal(result: Result<PathBuf, NotFixed>) -> String {
        result.unwrap_err().to_string()
    }

    #[test]
    fn the_real_path_of_a_directory_contains_no_links() {
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("a/b")).unwrap();
        symlink("a", top.join("relative")).unwrap();
        symlink(top.join("relative/b"), top.join("absolute")).unwrap();
        symlink("loop", top.join("loop")).unwrap();
        for path in ["a/b", "relative/b/", "absolute", "a/../relative/./b"] {
            assert_eq!(open(&top.join(path)).unwrap(), top.join("a/b"), "{path}");
        }
        assert!(refusal(open(&top.join("loop"))).contains("symbolic links"));
        fs::write(top.join("file"), "").unwrap();
        assert!(refusal(open(&top.join("file"))).contains("Not a directory"));
        assert!(refusal(create(&top.join("file/below"), Readers::All)).contains("Not a directory"));
    }

    #[test]
    fn a_missing_directory_is_created_only_if_it_is_to_be() {
        let dir = tempfile::tempdir().unwrap();
        let missing = dir.path().join("a/b");
        let error = io::Error::from(open(&missing).unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().starts_with("cannot use "), "{error}");
        for (readers, denied) in [(Readers::Own, 0o077), (Readers::All, 0o022)] {
            let made = create(&missing, readers).unwrap();
            for dir in [&made, made.parent().unwrap()] {
                assert_eq!(fs::metadata(dir).unwrap().mode() & denied, 0, "{readers:?}");
            }
            fs::remove_dir_all(dir.path().join("a")).unwrap();
        }
    }

    #[test]
    fn a_directory_that_others_can_replace_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [shared, own] = ["shared", "shared/own"].map(|name| dir.path().join(name));
        fs::create_dir_all(&own).unwrap();
        set(&shared, 0o757);
        assert!(refusal(open(&own)).contains("other users can write to it; use a directory"));
        set(&shared, 0o1757);
        assert!(open(&own).is_ok() && open(&shared).is_ok());
        assert!(create(&own, Readers::All).is_ok());
        assert!(refusal(create(&shared, Readers::All)).contains("other users can write to it"));
        if !geteuid().is_root() {
            return skip("root", "only root can give a directory to another user");
        }
        let link = shared.join("link");
        symlink(&own, &link).unwrap();
        assert!(open(&link).is_ok());
        for foreign in [&link, &own] {
            lchown(foreign, Some(65534), None).unwrap();
            assert!(refusal(open(foreign)).contains("it belongs to user 65534"));
            assert!(refusal(create(&foreign.join("new"), Readers::All)).contains("65534"));
        }
        assert_eq!(fs::read_dir(&own).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_appears_during_the_creation_leads_nowhere() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a link to another user");
        }
        let dir = tempfile::tempdir().unwrap();
        let top = dir.path().canonicalize().unwrap();
        let [target, link, next] = ["target", "link", "next"].map(|name| top.join(name));
        fs::create_dir(&target).unwrap();
        let is_done = AtomicBool::new(false);
        let mut all = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_done.load(Ordering::Relaxed) {
                    // A link of another user from its first moment.
                    symlink(&target, &next).unwrap();
                    lchown(&next, Some(65534), None).unwrap();
                    let _ = fs::rename(&next, &link);
                    let _ = fs::remove_file(&link).or_else(|_| fs::remove_file(&next));
                }
            });
            for _ in 0..500 {
                all.push(create(&link.join("jobs"), Readers::All));
                let _ = fs::remove_dir_all(&link);
            }
            is_done.store(true, Ordering::Relaxed);
        });
        // A panic beside the other thread would wait for it forever.
        for made in all.into_iter().flatten() {
            assert_eq!(made, link.join("jobs"));
        }
        assert_eq!(fs::read_dir(&target).unwrap().count(), 0);
    }
}
