//! Debian packages, opened without installing them.

use std::io::{self, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Command, Stdio};

use knee_host::process::{Ties, spawn};
use knee_host::regular_file::FileError;

use crate::tool::{ToolError, output};

/// How the names of package files end.
pub(crate) const PACKAGE_ENDING: &str = ".deb";
const DPKG_DEB: &str = "dpkg-deb";
/// The package that contains dpkg-deb.
const DPKG: &str = "dpkg";

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
    /// There is no place for the cache.
    #[error(
        "neither XDG_CACHE_HOME nor HOME is set; set XDG_CACHE_HOME to a directory of your own"
    )]
    NoCache,
    /// Another user can change what is in the cache.
    #[error(
        "cannot use the cache in {}: {error}, and knee runs what is in its cache; set XDG_CACHE_HOME to \
         a directory of your own, or make this one your own with chown and chmod go-w",
        .dir.display()
    )]
    ForeignCache {
        /// The directory.
        dir: PathBuf,
        /// Why it is not the user's own. It is part of the message, and not a `source`, which would
        /// repeat it.
        error: FileError,
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
    #[error("dpkg-deb cannot open {} as a Debian package; fetch it again", .0.display())]
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

type Entry<'a> = tar::Entry<'a, ChildStdout>;

/// Calls `take` for each entry of a package until `take` returns `Break`.
fn entries(
    package: &Path,
    mut take: impl FnMut(&mut Entry<'_>) -> io::Result<ControlFlow<()>>,
) -> Result<(), Failure> {
    let mut opener = Command::new(DPKG_DEB);
    opener.arg("--fsys-tarfile").arg(package);
    opener.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = spawn(&mut opener, Ties::bound()).map_err(|error| {
        Failure::Package(PackageError::Tool(ToolError::not_run(&opener, DPKG, &error)))
    })?;
    let taken: io::Result<_> = child.stdout.take().map_or(Ok(ControlFlow::Continue(())), |files| {
        for entry in tar::Archive::new(files).entries()? {
            if take(&mut entry?)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    });
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
