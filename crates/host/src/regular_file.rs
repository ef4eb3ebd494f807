//! Opens files that another user may have made, or whose paths come from data.
//!
//! The opening of a FIFO waits for a writer, the opening of a device may have an effect, and a device may have
//! no end. Another file may take the place of a file between a check and its opening. knee therefore checks
//! the file itself before it opens it, and reads no more than a limit.

use std::fs::File;
use std::io::{self, BufRead, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat, getxattr, open};
use rustix::io::Errno;
use rustix::process::{Uid, geteuid};

use crate::users;

/// The most bytes that knee reads into memory at once. The largest inputs that people have are captures and
/// kernel images of 100 MB, and half a gigabyte fits into the memory of any machine that knee measures.
const MOST_BYTES: u64 = 512 << 20;
/// The longest line that knee reads. A sample of 100,000 tasks is a line of 2 MB.
const LONGEST_LINE: u64 = 64 << 20;
/// The extended attribute with the access control list of a file, see acl(5).
const ACL: &str = "system.posix_acl_access";
/// The permissions of the group and of everybody to write.
const GROUP_MAY_WRITE: u32 = 0o020;
const ALL_MAY_WRITE: u32 = 0o002;

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The system refuses.
    #[error(transparent)]
    System(#[from] io::Error),
    /// It is something else than a regular file.
    #[error("it is {0}, not a regular file")]
    Special(&'static str),
    /// It belongs to this user. Files of this user are not accepted.
    #[error("it belongs to user {0}")]
    Owner(u32),
    /// The kernel does not say to whom it belongs; see [`users::identifies`].
    #[error("its owner is unknown, because this user namespace lacks users")]
    UnknownOwner,
    /// Its group or everybody can write to it.
    #[error("other users can write to it")]
    Shared,
    /// Another program holds a lease on it (`F_SETLEASE` in fcntl(2)).
    #[error("another program holds a lease on it; end that program, or try again in a minute")]
    Leased,
    /// It has no content, or the kernel computes its content when it is read.
    #[error("it is empty, or in a file system such as /proc")]
    Empty,
    /// It has more bytes than the limit.
    #[error("it is larger than {} MiB", .0 >> 20)]
    TooLarge(u64),
}

impl FileError {
    /// The class of the error.
    pub fn kind(&self) -> io::ErrorKind {
        match self {
            Self::System(error) => error.kind(),
            Self::Special(_) | Self::Empty => io::ErrorKind::InvalidInput,
            Self::Owner(_) | Self::UnknownOwner | Self::Shared => io::ErrorKind::PermissionDenied,
            Self::Leased => io::ErrorKind::ResourceBusy,
            Self::TooLarge(_) => io::ErrorKind::FileTooLarge,
        }
    }
}

impl From<FileError> for io::Error {
    fn from(error: FileError) -> Self {
        match error {
            FileError::System(error) => error,
            error => io::Error::new(error.kind(), error),
        }
    }
}

/// A path, and the conditions under which the file there is opened. It must always be a regular file.
#[derive(Debug, Clone)]
pub struct RegularFile<'a> {
    path: &'a Path,
    follows_links: bool,
    owners: Option<&'a [u32]>,
    trust: Trust,
    most_bytes: u64,
}

/// Whose files are read. Unless they may be anybody's, nobody else may be able to write to them.
#[derive(Debug, Clone, Copy)]
enum Trust {
    Anybody,
    RootAndOwn,
    Own,
}

impl<'a> RegularFile<'a> {
    /// The file at `path`, or the one to which a link at `path` leads, with any owner.
    pub fn at(path: &'a Path) -> Self {
        Self {
            path,
            follows_links: true,
            owners: None,
            trust: Trust::Anybody,
            most_bytes: MOST_BYTES,
        }
    }

    /// Refuses a symbolic link at the path itself.
    pub fn without_links(self) -> Self {
        Self { follows_links: false, ..self }
    }

    /// Refuses files of users other than these.
    pub fn owned_by(self, owners: &'a [u32]) -> Self {
        Self { owners: Some(owners), ..self }
    }

    /// Refuses files of other users, and files to which other users can write.
    pub fn own(self) -> Self {
        Self { trust: Trust::Own, ..self }
    }

    /// Refuses files of other users than this one and root, and files to which other users can write.
    pub fn trusted(self) -> Self {
        Self { trust: Trust::RootAndOwn, ..self }
    }

    /// Refuses to read more than this many bytes.
    pub fn at_most(self, most_bytes: u64) -> Self {
        Self { most_bytes, ..self }
    }

    /// Opens the file for reading. Never waits.
    ///
    /// # Errors
    /// The file cannot be opened, or does not meet the conditions.
    pub fn open(&self) -> Result<File, FileError> {
        let links = if self.follows_links { OFlags::empty() } else { OFlags::NOFOLLOW };
        // This descriptor stands for the file, but the file is not open: no FIFO waits for a writer, and no
        // device notices.
        let found = open(self.path, OFlags::PATH | OFlags::CLOEXEC | links, Mode::empty());
        let found = found.map_err(io::Error::from)?;
        let stat = fstat(&found).map_err(io::Error::from)?;
        self.check(&found, &stat)?;
        open_found(&found, OFlags::NONBLOCK)
    }

    /// Reads the whole file.
    ///
    /// # Errors
    /// Those of [`RegularFile::open`], and the file cannot be read or is larger than the limit.
    pub fn read(&self) -> Result<Vec<u8>, FileError> {
        let file = self.open()?;
        let size = file.metadata()?.len();
        if size > self.most_bytes {
            return Err(FileError::TooLarge(self.most_bytes));
        }
        read_at_most(file, self.most_bytes, size as usize)
    }

    /// Like [`RegularFile::read`], for text.
    ///
    /// # Errors
    /// Those of [`RegularFile::read`], and the file is not UTF-8.
    pub fn read_to_string(&self) -> Result<String, FileError> {
        Ok(io::read_to_string(&*self.read()?)?)
    }

    fn check(&self, found: &OwnedFd, stat: &Stat) -> Result<(), FileError> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {}
            // The error that reading it would have.
            FileType::Directory => return Err(io::Error::from(rustix::io::Errno::ISDIR).into()),
            FileType::Symlink => return Err(FileError::Special("a symbolic link")),
            FileType::Fifo => return Err(FileError::Special("a FIFO")),
            FileType::Socket => return Err(FileError::Special("a socket")),
            _ => return Err(FileError::Special("a device")),
        }
        match self.trust {
            Trust::Anybody => {}
            Trust::RootAndOwn if !users::is_trusted(stat.st_uid) => {
                return Err(other_owner(stat.st_uid));
            }
            Trust::RootAndOwn => check_shared(stat, || has_acl(found))?,
            Trust::Own => check_own(stat, || has_acl(found))?,
        }
        match self.owners {
            Some(owners) if !owners.contains(&stat.st_uid) || !users::identifies(stat.st_uid) => {
                Err(other_owner(stat.st_uid))
            }
            _ => Ok(()),
        }
    }
}

/// The error for a file of a user whose files are not accepted.
fn other_owner(user: u32) -> FileError {
    match users::identifies(user) {
        true => FileError::Owner(user),
        false => FileError::UnknownOwner,
    }
}

/// Opens the file of a descriptor with `O_PATH`, whatever is at its path by now. With `O_NONBLOCK`, does not wait
/// for a lease: the kernel asks its holder to release it, and the holder may take the seconds in
/// `/proc/sys/fs/lease-break-time` to do so.
fn open_found(found: &OwnedFd, flags: OFlags) -> Result<File, FileError> {
    match open(path_of(found), OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty()) {
        Ok(file) => Ok(file.into()),
        Err(Errno::WOULDBLOCK) => Err(FileError::Leased),
        Err(error) => Err(io::Error::from(error).into()),
    }
}

/// Opens a directory. Never waits, whatever is at the path.
///
/// # Errors
/// There is no directory, or it cannot be opened.
pub fn directory(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(open(path, flags, Mode::empty())?.into())
}

/// Checks that an open file or directory belongs to this user, and that nobody else can write to it.
///
/// # Errors
/// It does not, or somebody else can.
pub fn require_own(file: impl AsFd) -> Result<(), FileError> {
    let stat = fstat(&file).map_err(io::Error::from)?;
    check_own(&stat, || has_acl(&file))
}

fn check_own(stat: &Stat, has_acl: impl FnOnce() -> bool) -> Result<(), FileError> {
    if !users::is_own(stat.st_uid) {
        return Err(other_owner(stat.st_uid));
    }
    check_shared(stat, has_acl)
}

fn check_shared(stat: &Stat, has_acl: impl FnOnce() -> bool) -> Result<(), FileError> {
    match others_can_write(stat.st_mode, stat.st_gid, has_acl) {
        false => Ok(()),
        true => Err(FileError::Shared),
    }
}

/// Whether others than the owner can write to a file with this mode and group. The group whose number is that of
/// this user counts as this user: with a umask of 002, the default of several distributions, this private group may
/// write to every file that the user creates. Root has no private group. If the file has an access control list,
/// the bits of the group are its mask, and may be for anybody.
pub fn others_can_write(mode: u32, group: u32, has_acl: impl FnOnce() -> bool) -> bool {
    can_others_write(mode, group, geteuid(), has_acl)
}

fn can_others_write(mode: u32, group: u32, user: Uid, has_acl: impl FnOnce() -> bool) -> bool {
    let is_private = || !user.is_root() && group == user.as_raw() && !has_acl();
    mode & ALL_MAY_WRITE != 0 || (mode & GROUP_MAY_WRITE != 0 && !is_private())
}

/// Whether an open file has an access control list. A file system without such lists has none.
pub fn has_acl(file: impl AsFd) -> bool {
    // fgetxattr(2) does not work for a descriptor that was opened with O_PATH.
    let found = getxattr(path_of(file), ACL, &mut [0_u8; 0]);
    !matches!(found, Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// A path to an open file or directory, whatever is at its own path by now.
pub fn path_of(file: impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()).into()
}

/// Opens a file that the user named on the command line. This may also be a FIFO, as in `<(…)` of a shell, or
/// a device. Waits for the writer of a FIFO, so call it before Ctrl-C is blocked.
///
/// # Errors
/// The file cannot be opened.
pub fn open_named(path: &Path) -> Result<File, FileError> {
    let found = open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty());
    let found = found.map_err(io::Error::from)?;
    let stat = fstat(&found).map_err(io::Error::from)?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => open_found(&found, OFlags::NONBLOCK),
        _ => open_found(&found, OFlags::empty()),
    }
}

/// Reads a file that [`open_named`] opens.
///
/// # Errors
/// The file cannot be opened or read, or is too large.
pub fn read_named(path: &Path) -> Result<Vec<u8>, FileError> {
    read_whole(open_named(path)?)
}

/// Reads everything from an input that may have no end, such as standard input.
///
/// # Errors
/// The input cannot be read, or is too large.
pub fn read_whole(from: impl Read) -> Result<Vec<u8>, FileError> {
    read_at_most(from, MOST_BYTES, 0)
}

fn read_at_most(from: impl Read, most: u64, expected: usize) -> Result<Vec<u8>, FileError> {
    let mut content = Vec::with_capacity(expected);
    from.take(most + 1).read_to_end(&mut content)?;
    match content.len() as u64 > most {
        true => Err(FileError::TooLarge(most)),
        false => Ok(content),
    }
}

/// Appends the next line to `line`, with its newline, and returns the number of bytes; 0 at the end.
///
/// # Errors
/// The input cannot be read, or the line is too long to be text.
pub fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> io::Result<usize> {
    let count = from.by_ref().take(LONGEST_LINE).read_until(b'\n', line)?;
    if count as u64 == LONGEST_LINE && line.last() != Some(&b'\n') {
        let error = format!("it has a line of more than {} MiB", LONGEST_LINE >> 20);
        return Err(io::Error::new(io::ErrorKind::InvalidData, error));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use rustix::fs::{CWD, mkfifoat};

    use super::*;
    use crate::skip::skip;

    /// A directory with a regular file of 4 bytes in it.
    fn with_file() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "text").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o644)).unwrap();
        (dir, file)
    }

    fn reason(result: Result<impl Sized, FileError>) -> String {
        result.map(drop).unwrap_err().to_string()
    }

    #[test]
    fn a_regular_file_is_read_and_nothing_else() {
        let (dir, file) = with_file();
        assert_eq!(RegularFile::at(&file).read().unwrap(), b"text");
        assert_eq!(RegularFile::at(&file).read_to_string().unwrap(), "text");
        // Without the check, this would wait for a writer.
        let fifo = dir.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(reason(RegularFile::at(&fifo).open()), "it is a FIFO, not a regular file");
        let zero = RegularFile::at(Path::new("/dev/zero")).read();
        assert_eq!(reason(zero), "it is a device, not a regular file");
        let error = io::Error::from(RegularFile::at(dir.path()).open().unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::IsADirectory);
        let error = io::Error::from(RegularFile::at(&dir.path().join("no")).open().unwrap_err());
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_link_is_followed_unless_it_must_not_be() {
        let (dir, file) = with_file();
        let link = dir.path().join("link");
        symlink(&file, &link).unwrap();
        assert_eq!(RegularFile::at(&link).read().unwrap(), b"text");
        let refused = reason(RegularFile::at(&link).without_links().open());
        assert_eq!(refused, "it is a symbolic link, not a regular file");
    }

    #[test]
    fn a_file_to_which_others_can_write_is_neither_own_nor_trusted() {
        let (_dir, file) = with_file();
        assert!(RegularFile::at(&file).own().open().is_ok());
        assert!(RegularFile::at(&file).trusted().open().is_ok());
        fs::set_permissions(&file, Permissions::from_mode(0o646)).unwrap();
        assert_eq!(reason(RegularFile::at(&file).own().open()), "other users can write to it");
        assert_eq!(reason(RegularFile::at(&file).trusted().open()), "other users can write to it");
    }

    #[test]
    fn the_private_group_of_a_user_may_write_but_not_that_of_root() {
        let can_write = |mode, group, user, has_acl| {
            can_others_write(mode, group, Uid::from_raw(user), || has_acl)
        };
        assert!(!can_write(0o644, 5, 1000, true));
        assert!(!can_write(0o664, 1000, 1000, false));
        assert!(can_write(0o664, 1000, 1000, true));
        assert!(can_write(0o664, 5, 1000, false));
        assert!(can_write(0o666, 1000, 1000, false));
        assert!(can_write(0o664, 0, 0, false));
    }

    #[test]
    fn a_file_of_another_user_is_refused() {
        let (dir, file) = with_file();
        let own = [geteuid().as_raw()];
        assert!(RegularFile::at(&file).owned_by(&own).open().is_ok());
        if !geteuid().is_root() {
            return skip("root", "only root can give a file to another user");
        }
        chown(&file, Some(65534), None).unwrap();
        let refused = "it belongs to user 65534";
        assert_eq!(reason(RegularFile::at(&file).owned_by(&own).open()), refused);
        assert_eq!(reason(RegularFile::at(&file).own().open()), refused);
        assert_eq!(reason(RegularFile::at(&file).trusted().open()), refused);
        assert!(RegularFile::at(&file).owned_by(&[65534]).open().is_ok());
        chown(dir.path(), Some(65534), None).unwrap();
        assert_eq!(reason(require_own(directory(dir.path()).unwrap())), refused);
    }

    #[test]
    fn no_more_is_read_than_the_limit() {
        let (_dir, file) = with_file();
        assert_eq!(RegularFile::at(&file).at_most(4).read().unwrap(), b"text");
        assert!(matches!(RegularFile::at(&file).at_most(3).read(), Err(FileError::TooLarge(3))));
        let endless = read_at_most(io::repeat(0), 1 << 20, 0);
        assert_eq!(reason(endless), "it is larger than 1 MiB");
        let mut endless = io::BufReader::new(io::repeat(0));
        let error = read_line(&mut endless, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "it has a line of more than 64 MiB");
    }

    #[test]
    fn lines_end_with_their_newline() {
        let (mut text, mut line) = (&b"one\ntwo"[..], Vec::new());
        assert_eq!(read_line(&mut text, &mut line).unwrap(), 4);
        assert_eq!(read_line(&mut text, &mut line).unwrap(), 3);
        assert_eq!(line, b"one\ntwo");
        assert_eq!(read_line(&mut text, &mut line).unwrap(), 0);
    }

    #[test]
    fn only_a_directory_is_opened_as_one() {
        let (dir, file) = with_file();
        assert!(directory(dir.path()).is_ok());
        assert_eq!(directory(&file).unwrap_err().kind(), io::ErrorKind::NotADirectory);
    }
}
