//! Debian packages, opened without installing them.

use std::cell::Cell;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};
use std::rc::Rc;

use knee_host::process::{Ties, spawn};
use knee_host::regular_file::FileError;

use crate::tool::{MIB, ToolError, output};

/// The extension of package files.
pub(crate) const PACKAGE_ENDING: &str = ".deb";
const DPKG_DEB: &str = "dpkg-deb";
/// The package that contains dpkg-deb.
const DPKG: &str = "dpkg";
/// The most memory that dpkg-deb may map. Debian's kernel packages need less than 128 MiB, but a small package
/// can make a decompressor take gigabytes.
const MEMORY: u64 = 1024 * MIB;
/// Maximum number of threads of dpkg-deb. It is fixed, so that dpkg-deb's memory does not depend on the CPU
/// count.
const THREADS: (&str, &str) = ("DPKG_DEB_THREADS_MAX", "4");
/// Maximum size of the description of a file in a package, in bytes: its headers, long names and extended
/// attributes. The tar crate keeps the whole description in memory. A path is at most 4 KiB long.
const MOST_DESCRIPTION: u64 = 64 << 10;

/// Maximum size of an unpacked package, in bytes. Zeroes compress to a thousandth. Debian's kernels take up to 600 MiB.
const MOST_UNPACKED: u64 = 4096 * MIB;

/// Why a Debian package cannot be fetched or opened.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file or directory could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// apt or dpkg-deb is not installed, or has failed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// The cache has no place: neither `XDG_CACHE_HOME` nor the user's home directory is an absolute path.
    #[error(
        "neither XDG_CACHE_HOME nor HOME is set; set XDG_CACHE_HOME to a directory of your own"
    )]
    NoCache,
    /// Another user can change what is in the cache.
    #[error(
        "cannot use the cache in {}: {error}, and knee runs what is in its cache; set XDG_CACHE_HOME to \
         a new directory of your own",
        .dir.display()
    )]
    ForeignCache {
        /// The directory.
        dir: PathBuf,
        /// Why the directory is not the user's own. The message contains this error, so it is not also the
        /// `source`, which would repeat it.
        error: FileError,
    },
    /// Another user has put a file or a directory into the cache.
    #[error(
        "{} in the cache belongs to user {owner}, and knee runs what is in its cache; remove it, or set \
         XDG_CACHE_HOME to a new directory of your own",
        .path.display()
    )]
    ForeignEntry {
        /// The file or directory.
        path: PathBuf,
        /// The user's number.
        owner: u32,
    },
    /// A package could not be downloaded.
    #[error(
        "cannot fetch {name}: {error}; check the network and the mirror, then repeat the command, or \
         name a file that you have downloaded"
    )]
    NotFetched {
        /// The package file.
        name: String,
        /// Why.
        error: ToolError,
    },
    /// apt's index does not contain the digest of a package.
    #[error("apt's package lists have no SHA-256 of {0}; use another version")]
    NoDigest(String),
    /// A file is not the package that apt's signed index describes.
    #[error(
        "{} does not have the SHA-256 that apt's signed index gives for it; it is incomplete, or \
         somebody has changed it; remove the file, then fetch it again",
        .0.display()
    )]
    Damaged(PathBuf),
    /// The file is not a valid Debian package.
    #[error(
        "dpkg-deb cannot open {} as a Debian package, with at most {} MiB of memory; fetch it again",
        .0.display(),
        MEMORY / MIB
    )]
    Broken(PathBuf),
    /// apt has no Debian mirror on this machine.
    #[error(
        "apt has no Debian mirror on this machine; add one to /etc/apt/sources.list.d, or name a \
         file that you have downloaded"
    )]
    NoMirror,
    /// The mirror cannot be reached, or has none of the suites.
    #[error("apt could not fetch the package lists from {0}; check the network and the mirror")]
    NoLists(String),
}

impl PackageError {
    /// Adds the path to a read error.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> PackageError + '_ {
        |source| PackageError::Read { path: path.to_owned(), source }
    }

    /// Adds the path to a write error.
    pub(crate) fn write(path: &Path) -> impl FnOnce(io::Error) -> PackageError + '_ {
        |source| PackageError::Write { path: path.to_owned(), source }
    }
}

/// A file of known size. Reading fails if the file ends early, as in a truncated package.
struct Whole<R> {
    file: R,
    left: u64,
}

impl<R: Read> Read for Whole<R> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(to)?;
        if count == 0 && self.left > 0 && !to.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left = self.left.saturating_sub(count as u64);
        Ok(count)
    }
}

/// Calls `take` for each regular file of a package, with a path such as `./boot/vmlinuz-6.1`, until
/// `take` returns `Break`.
pub(crate) fn files(
    package: &Path,
    mut take: impl FnMut(&Path, &mut dyn Read) -> io::Result<ControlFlow<()>>,
) -> Result<(), PackageError> {
    let taken = entries(package, |file| {
        if !file.header().entry_type().is_file() {
            return Ok(ControlFlow::Continue(()));
        }
        let path = file.path()?.into_owned();
        let mut file = Whole { left: file.size(), file };
        take(&path, &mut file)
    });
    taken.map_err(|error| match error {
        Failure::Package(error) => error,
        Failure::Read(source) => PackageError::Read { path: package.to_owned(), source },
    })
}

/// Unpacks a package's files, links and directories into the directory `root`, but only those for
/// which `wanted` returns true. `wanted` gets relative paths, such as `usr/bin/true`.
pub(crate) fn unpack(
    package: &Path,
    root: &Path,
    wanted: impl Fn(&Path) -> bool,
) -> Result<(), PackageError> {
    let unpacked = entries(package, |file| {
        let path = file.path()?;
        if wanted(path.strip_prefix(".").unwrap_or(&path)) {
            file.unpack_in(root)?;
        }
        Ok(ControlFlow::Continue(()))
    });
    unpacked.map_err(|error| match error {
        Failure::Package(error) => error,
        Failure::Read(source) => PackageError::Write { path: root.to_owned(), source },
    })
}

/// A field of a package's description, such as `Depends`.
pub(crate) fn field(package: &Path, name: &str) -> Result<String, PackageError> {
    let mut opener = Command::new(DPKG_DEB);
    let value = output(opener.arg("--field").arg(package).arg(name), DPKG)?;
    Ok(String::from_utf8_lossy(&value).into_owned())
}

/// Why the entries of a package could not be processed.
enum Failure {
    Package(PackageError),
    /// Reading or processing an entry failed.
    Read(io::Error),
}

type Entry<'a> = tar::Entry<'a, Metered>;

/// The tar file of a package. Reading fails after `left` bytes.
struct Metered {
    tar: ChildStdout,
    left: Rc<Cell<u64>>,
    /// Bytes of the tar file that are not read yet, up to the maximum.
    in_all: u64,
}

impl Read for Metered {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        if self.left.get() == 0 {
            let kib = MOST_DESCRIPTION >> 10;
            let error = format!(
                "the description of a file in it is longer than {kib} KiB, the maximum that knee reads"
            );
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, error));
        }
        let count = self.tar.read(to)?;
        self.in_all = self.in_all.checked_sub(count as u64).ok_or_else(|| {
            let gib = MOST_UNPACKED >> 30;
            let error = format!("it unpacks to more than {gib} GiB, the maximum that knee reads");
            io::Error::new(io::ErrorKind::FileTooLarge, error)
        })?;
        self.left.set(self.left.get().saturating_sub(count as u64));
        Ok(count)
    }
}

/// Calls `take` for each entry of a tar file until `take` returns `Break`.
fn each(
    tar: ChildStdout,
    mut take: impl FnMut(&mut Entry<'_>) -> io::Result<ControlFlow<()>>,
) -> io::Result<ControlFlow<()>> {
    let left = Rc::new(Cell::new(0));
    let mut archive = tar::Archive::new(Metered { tar, left: left.clone(), in_all: MOST_UNPACKED });
    let mut entries = archive.entries()?;
    loop {
        left.set(MOST_DESCRIPTION);
        let Some(entry) = entries.next() else { return Ok(ControlFlow::Continue(())) };
        let mut entry = entry?;
        // deb(5) does not permit sparse files, and a hole can be endless.
        if entry.header().entry_type().is_gnu_sparse() {
            return Err(io::Error::other("it contains a sparse file, which packages cannot have"));
        }
        left.set(u64::MAX);
        if take(&mut entry)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        // Skip what `take` has not read, so that it does not count as part of the next description.
        io::copy(&mut entry, &mut io::sink())?;
    }
}

/// Calls `take` for each entry of a package until `take` returns `Break`.
fn entries(
    package: &Path,
    take: impl FnMut(&mut Entry<'_>) -> io::Result<ControlFlow<()>>,
) -> Result<(), Failure> {
    let mut opener = Command::new(DPKG_DEB);
    opener.arg("--fsys-tarfile").arg(package).env(THREADS.0, THREADS.1);
    opener.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let ties = Ties { memory: Some(MEMORY), ..Ties::bound() };
    let mut child = spawn(&mut opener, ties).map_err(|error| {
        Failure::Package(PackageError::Tool(ToolError::not_run(&opener, DPKG, &error)))
    })?;
    let taken = child.stdout.take().map_or(Ok(ControlFlow::Continue(())), |tar| each(tar, take));
    // The pipe is closed, so dpkg-deb has ended or is about to end.
    let opened = child.wait().is_ok_and(|status| status.success());
    let broken = || Failure::Package(PackageError::Broken(package.to_owned()));
    match taken {
        Ok(ControlFlow::Break(())) => Ok(()),
        Ok(ControlFlow::Continue(())) if opened => Ok(()),
        Ok(_) => Err(broken()),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Err(broken()),
        Err(source) => Err(Failure::Read(source)),
    }
}

#[cfg(test)]
mod tests {
    use knee_host::skip::skip;

    use super::*;

    /// A tar file of two empty blocks, compressed by xz with a dictionary of 1.5 GiB.
    const HUGE_DICTIONARY: [u8; 76] = [
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x04, 0xe6, 0xd6, 0xb4, 0x46, 0x02, 0x00, 0x21,
        0x01, 0x25, 0x00, 0x00, 0x00, 0x3b, 0x78, 0x7b, 0x41, 0xe0, 0x03, 0xff, 0x00, 0x0b, 0x5d,
        0x00, 0x00, 0x6f, 0xfd, 0xff, 0xff, 0xa3, 0xb7, 0x7f, 0x46, 0x32, 0x00, 0x00, 0x00, 0x0c,
        0x27, 0x69, 0x20, 0x97, 0x63, 0x78, 0xc3, 0x00, 0x01, 0x27, 0x80, 0x08, 0x00, 0x00, 0x00,
        0x2e, 0x79, 0xae, 0xad, 0xb1, 0xc4, 0x67, 0xfb, 0x02, 0x00, 0x00, 0x00, 0x00, 0x04, 0x59,
        0x5a,
    ];

    /// A header of a tar file and the content that follows it.
    fn entry(kind: tar::EntryType, content: &[u8]) -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_path("file").unwrap();
        header.set_entry_type(kind);
        header.set_size(content.len() as u64);
        header.set_cksum();
        let mut entry = [header.as_bytes(), content].concat();
        entry.resize(entry.len().next_multiple_of(512), 0);
        entry
    }

    /// A tar file with a sparse file of 512 bytes that has no holes.
    fn sparse() -> Vec<u8> {
        let mut header = tar::Header::new_gnu();
        header.set_path("file").unwrap();
        header.set_entry_type(tar::EntryType::GNUSparse);
        header.set_size(512);
        let gnu = header.as_gnu_mut().expect("it is a header of GNU tar");
        gnu.sparse[0].offset.copy_from_slice(b"00000000000\0");
        gnu.sparse[0].numbytes.copy_from_slice(b"00000001000\0");
        gnu.realsize.copy_from_slice(b"00000001000\0");
        header.set_cksum();
        [header.as_bytes(), &[1; 512][..], &[0; 1024]].concat()
    }

    /// The paths of the files in a package whose data member has this name and content. `None` if dpkg-deb is
    /// not installed.
    fn paths(name: &str, content: &[u8]) -> Option<Result<Vec<PathBuf>, String>> {
        if knee_host::process::program::find(DPKG_DEB).is_none() {
            skip("dpkg-deb", "dpkg-deb is not installed");
            return None;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("package.deb");
        let mut package = b"!<arch>\n".to_vec();
        let members =
            [("debian-binary", &b"2.0\n"[..]), ("control.tar", &[0; 1024]), (name, content)];
        for (name, content) in members {
            let (zero, size) = (0, content.len());
            package.extend(
                format!("{name:<16}{zero:<12}{zero:<6}{zero:<6}{zero:<8}{size:<10}`\n").bytes(),
            );
            package.extend(content);
        }
        std::fs::write(&path, package).unwrap();
        let mut paths = Vec::new();
        let read = files(&path, |path, _| {
            paths.push(path.to_owned());
            Ok(ControlFlow::Continue(()))
        });
        Some(read.map(|()| paths).map_err(|error| error.to_string()))
    }

    #[test]
    fn a_name_of_a_package_may_be_long_but_not_endless() {
        use tar::EntryType;
        let named = |bytes: usize| {
            let [long, file] = [
                entry(EntryType::GNULongName, &vec![b'a'; bytes]),
                // This content is longer than a description may be, and the test does not read it.
                entry(EntryType::Regular, &vec![0; 2 * MOST_DESCRIPTION as usize]),
            ];
            [long, file, entry(EntryType::Regular, b""), vec![0; 1024]].concat()
        };
        let Some(found) = paths("data.tar", &named(4000)) else { return };
        assert_eq!(found.unwrap(), [PathBuf::from("a".repeat(4000)), PathBuf::from("file")]);
        let error = paths("data.tar", &named(1 << 20)).unwrap().unwrap_err();
        let end =
            "the description of a file in it is longer than 64 KiB, the maximum that knee reads";
        assert!(error.ends_with(end), "{error}");
    }

    #[test]
    fn the_unpacked_size_of_a_package_is_limited() {
        let mut program = Command::new("echo").arg("12345").stdout(Stdio::piped()).spawn().unwrap();
        let tar = program.stdout.take().unwrap();
        program.wait().unwrap();
        let mut metered = Metered { tar, left: Rc::new(Cell::new(u64::MAX)), in_all: 3 };
        let mut bytes = [0; 3];
        assert_eq!(metered.read(&mut bytes).unwrap(), 3);
        let error = metered.read(&mut bytes).unwrap_err().to_string();
        assert!(error.starts_with("it unpacks to more than 4 GiB"), "{error}");
    }

    #[test]
    fn extended_headers_and_sparse_files_of_a_package_are_limited() {
        let extended = |kind| [entry(kind, &vec![b'a'; 1 << 20]), vec![0; 1024]].concat();
        let Some(found) = paths("data.tar", &extended(tar::EntryType::XHeader)) else { return };
        assert!(found.unwrap_err().contains("longer than 64 KiB"));
        assert!(paths("data.tar", &sparse()).unwrap().unwrap_err().contains("a sparse file"));
    }

    #[test]
    fn a_package_that_needs_gigabytes_to_decompress_is_refused() {
        let Some(found) = paths("data.tar.xz", &HUGE_DICTIONARY) else { return };
        let error = found.unwrap_err();
        let end = "as a Debian package, with at most 1024 MiB of memory; fetch it again";
        assert!(error.ends_with(end), "{error}");
    }
}
