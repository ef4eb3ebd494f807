//! Files that are replaced as a whole: readers see the old content or the new one.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, PROC_SUPER_MAGIC, fcntl_setfl, fstatfs, open, readlinkat};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::temporary::Listed;
use crate::users;

/// The most links in a row, as in the kernel.
const MOST_LINKS: usize = 40;

/// Replaces the file at `path` by one with this content: readers see the old one or the new one.
pub fn write_atomically(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = AtomicFile::create(path)?;
    file.write_all(content)?;
    file.persist()
}

/// A file that replaces another one when it is complete. If it is dropped before
/// [`AtomicFile::persist`], nothing is replaced. A path that is not a regular file, such as a pipe or
/// `/dev/stdout`, is written to directly.
pub struct AtomicFile {
    file: BufWriter<File>,
    /// Not a `NamedTempFile`, whose errors name the temporary file. `None` if it is written directly.
    replaced: Option<Replaced>,
}

struct Replaced {
    path: PathBuf,
    temporary: tempfile::TempPath,
    _listed: Option<Listed>,
}

impl AtomicFile {
    /// Starts a file that will replace `path`, or the file that a link at `path` leads to. Keeps the
    /// permissions of an existing file of this user, except setuid, setgid and the sticky bit: with the
    /// permissions of another user's file, that user could write to the new one, or run it as this user.
    ///
    /// # Errors
    /// The file cannot be created or opened, or it is a FIFO that no program reads.
    pub fn create(path: &Path) -> io::Result<Self> {
        let (path, is_magic) = target_of(path)?;
        let there = if is_magic { path.metadata() } else { path.symlink_metadata() };
        let there = match there {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            found => Some(found?),
        };
        if let Some(there) = there.as_ref().filter(|there| !there.is_file()) {
            let file = BufWriter::new(open_special(&path, there, is_magic)?);
            return Ok(Self { file, replaced: None });
        }
        // Standard output may lead to a file, which is replaced where it is.
        let path = if is_magic { path.canonicalize()? } else { path };
        let dir = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let mut listed = None;
        let open = |path: &Path| {
            listed = Some(Listed::new(path));
            File::options().write(true).create_new(true).mode(0o644).open(path)
        };
        let (file, temporary) = tempfile::Builder::new().make_in(dir, open)?.into_parts();
        if let Some(there) = there.filter(|there| there.uid() == geteuid().as_raw()) {
            file.set_permissions(PermissionsExt::from_mode(there.mode() & 0o777))?;
        }
        Ok(Self {
            file: BufWriter::new(file),
            replaced: Some(Replaced { path, temporary, _listed: listed }),
        })
    }

    /// Checks that no link of another user is on the way to the file, before it is created later.
    ///
    /// # Errors
    /// There is such a link, or the path cannot be examined.
    pub fn check(path: &Path) -> io::Result<()> {
        target_of(path).map(drop)
    }

    /// Flushes the file to disk and puts it in place.
    pub fn persist(mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some(Replaced { path, temporary, _listed }) = self.replaced else { return Ok(()) };
        self.file.get_ref().sync_all()?;
        temporary.persist(path).map_err(|refused| refused.error)
    }
}

impl Write for AtomicFile {
    fn write(&mut self, content: &[u8]) -> io::Result<usize> {
        self.file.write(content)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Follows links as far as they belong to this user or root. Returns what they lead to, which may be missing, and
/// whether it is a link in procfs. Only the kernel can follow some of these links, because their text is not a path.
///
/// Another user could replace a link that has been checked, so this reads the text of the checked one.
fn target_of(path: &Path) -> io::Result<(PathBuf, bool)> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let here = match open(&path, flags, Mode::empty()) {
            // A slash at the end of a path is for a directory, which is an error elsewhere.
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok((path, false)),
            here => File::from(here?),
        };
        let found = here.metadata()?;
        if !found.is_symlink() {
            return Ok((path, false));
        }
        // Another user could make the link lead to any file of this user.
        require_trusted(found.uid(), "symbolic link")?;
        if fstatfs(&here)?.f_type == PROC_SUPER_MAGIC {
            return Ok((path, true));
        }
        let target = readlinkat(&here, "", Vec::new())?;
        path.pop();
        path.push(OsStr::from_bytes(target.as_bytes()));
    }
    Err(Errno::LOOP.into())
}

/// Refuses a file that belongs to neither this user nor root.
fn require_trusted(owner: u32, kind: &str) -> io::Result<()> {
    match owner {
        owner if users::is_trusted(owner) => Ok(()),
        owner => Err(io::Error::other(format!(
            "it is a {kind} of user {owner}; name a file in a directory of your own"
        ))),
    }
}

/// Opens what is not a regular file for writing. Follows a link only of the kernel.
fn open_special(path: &Path, there: &Metadata, is_magic: bool) -> io::Result<File> {
    // Without O_NONBLOCK, the opening of a FIFO would wait until a program reads it, perhaps forever.
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let flags = if is_magic { flags } else { flags | OFlags::NOFOLLOW };
    let opened = open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => replaced(),
        Errno::NXIO if there.file_type().is_fifo() => match require_trusted(there.uid(), "FIFO") {
            Ok(()) => io::Error::other("no program reads this FIFO; start its reader first"),
            Err(error) => error,
        },
        error => error.into(),
    })?;
    let file = File::from(opened);
    // Another user may have put something else at the path meanwhile.
    let found = file.metadata()?;
    if (found.dev(), found.ino()) != (there.dev(), there.ino()) {
        return Err(replaced());
    }
    if found.file_type().is_fifo() && !is_pipe(&file)? {
        require_trusted(found.uid(), "FIFO")?;
    }
    // A write waits while the reader is slow.
    fcntl_setfl(&file, OFlags::empty())?;
    Ok(file)
}

fn replaced() -> io::Error {
    io::Error::other("another program has replaced it; try again")
}

/// Whether a FIFO is a pipe, which has no name in a file system. Only a link of the kernel leads to a pipe, such as
/// `/dev/stdout`. The pipe behind the standard output of `sudo knee` belongs to the user of the shell.
fn is_pipe(fifo: &File) -> io::Result<bool> {
    const PIPEFS_MAGIC: u64 = 0x5049_5045;
    Ok(fstatfs(fifo)?.f_type as u64 & 0xffff_ffff == PIPEFS_MAGIC)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, mkfifoat};

    use super::*;
    use crate::skip::skip;

    #[test]
    fn a_link_still_leads_to_the_file_which_keeps_its_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let [file, link] = ["file", "link"].map(|name| dir.path().join(name));
        fs::write(&file, "old").unwrap();
        fs::set_permissions(&file, PermissionsExt::from_mode(0o640)).unwrap();
        symlink("file", &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(link.is_symlink());
        assert_eq!(fs::read(&file).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    }

    #[test]
    fn a_link_or_fifo_of_another_user_is_refused() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        let dir = tempfile::tempdir().unwrap();
        let [file, link, fifo] = ["file", "link", "fifo"].map(|name| dir.path().join(name));
        fs::write(&file, "old").unwrap();
        symlink("file", &link).unwrap();
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        for (path, kind) in [(&link, "symbolic link"), (&fifo, "FIFO")] {
            std::os::unix::fs::lchown(path, Some(65534), None).unwrap();
            let refused = write_atomically(path, b"new").unwrap_err().to_string();
            assert!(refused.starts_with(&format!("it is a {kind} of user 65534")), "{refused}");
        }
        assert_eq!(fs::read(&file).unwrap(), b"old");
    }

    #[test]
    fn a_special_file_that_another_user_replaces_by_a_link_is_not_written_to() {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, link] = ["fifo", "link"].map(|name| dir.path().join(name));
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        symlink("/dev/null", &link).unwrap();
        let there = fs::symlink_metadata(&fifo).unwrap();
        for replacement in [&link, Path::new("/dev/null")] {
            let refused = open_special(replacement, &there, false).unwrap_err().to_string();
            assert_eq!(refused, "another program has replaced it; try again");
        }
        assert!(write_atomically(&link, b"own links are followed").is_ok());
    }

    #[test]
    fn links_are_followed_one_by_one_and_each_of_them_must_be_trusted() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        fs::create_dir(path("sub")).unwrap();
        symlink("sub/second", path("first")).unwrap();
        symlink("../file", path("sub/second")).unwrap();
        write_atomically(&path("first"), b"new").unwrap();
        assert_eq!(fs::read(path("file")).unwrap(), b"new");
        assert!(path("first").is_symlink() && path("sub/second").is_symlink());
        symlink("loop", path("loop")).unwrap();
        let error = write_atomically(&path("loop"), b"").unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::LOOP.raw_os_error()));
        if !geteuid().is_root() {
            return skip("root", "only root can give a link to another user");
        }
        std::os::unix::fs::lchown(path("sub/second"), Some(65534), None).unwrap();
        let refused = write_atomically(&path("first"), b"other").unwrap_err().to_string();
        assert!(refused.starts_with("it is a symbolic link of user 65534"), "{refused}");
        assert_eq!(fs::read(path("file")).unwrap(), b"new");
    }

    #[test]
    fn a_link_of_the_kernel_to_a_file_leads_to_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let open = File::create(&file).unwrap();
        write_atomically(&crate::regular_file::path_of(&open), b"new").unwrap();
        assert_eq!(fs::read(&file).unwrap(), b"new");
    }

    #[test]
    fn a_pipe_may_belong_to_another_user() {
        if !geteuid().is_root() {
            return skip("root", "only root can give a pipe to another user");
        }
        let (mut reader, writer) = io::pipe().unwrap();
        std::os::unix::fs::fchown(&writer, Some(65534), None).unwrap();
        let path = crate::regular_file::path_of(&writer);
        write_atomically(&path, b"new").unwrap();
        drop(writer);
        let mut read = Vec::new();
        reader.read_to_end(&mut read).unwrap();
        assert_eq!(read, b"new");
    }

    #[test]
    fn a_file_of_another_user_gives_no_permissions_to_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let replaced = |mode| {
            fs::set_permissions(&file, PermissionsExt::from_mode(mode)).unwrap();
            write_atomically(&file, b"new").unwrap();
            fs::metadata(&file).unwrap().mode() & 0o7777
        };
        fs::write(&file, "old").unwrap();
        assert_eq!(replaced(0o6755), 0o755);
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
        assert_eq!(replaced(0o6777) & 0o7133, 0);
        assert_eq!(fs::metadata(&file).unwrap().uid(), 0);
    }

    #[test]
    fn an_error_does_not_name_the_temporary_file() {
        let dir = tempfile::tempdir().unwrap();
        let error = |path: &Path| write_atomically(path, b"").unwrap_err().to_string();
        assert_eq!(error(&dir.path().join("none/file")), "No such file or directory (os error 2)");
        let file = dir.path().join("file");
        write_atomically(&file, b"").unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o133, 0);
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_special_file_is_written_to_and_stays_special() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        let refused = write_atomically(&fifo, b"").unwrap_err().to_string();
        assert_eq!(refused, "no program reads this FIFO; start its reader first");
        let flags = OFlags::RDONLY | OFlags::NONBLOCK;
        let reader = File::from(open(&fifo, flags, Mode::empty()).unwrap());
        // More than a FIFO holds, so that the writer waits for the reader.
        let written = vec![7; 1 << 20];
        let (path, content) = (fifo.clone(), written.clone());
        let writer = std::thread::spawn(move || write_atomically(&path, &content).unwrap());
        let mut read = Vec::new();
        while read.len() < written.len() {
            match (&reader).take(1 << 16).read_to_end(&mut read) {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => panic!("{error}"),
                _ => std::thread::yield_now(),
            }
        }
        writer.join().unwrap();
        assert_eq!(read, written);
        assert!(!fs::metadata(&fifo).unwrap().is_file());
        assert!(write_atomically(dir.path(), b"").is_err());
    }
}
