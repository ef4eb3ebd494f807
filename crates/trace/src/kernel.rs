//! Kernels to run in a guest: a file, a package, or the one that runs.
//!
//! An image is what boot loaders take, Linux's bzImage (Documentation/arch/x86/boot.rst). Debian
//! has it in packages, which dpkg-deb opens without installing them.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Offset and value of the boot protocol's signature.
const SIGNATURE: (usize, &[u8]) = (0x202, b"HdrS");
/// Where the header says where the version's text is, less [`VERSION_BASE`].
const VERSION_POINTER: usize = 0x20e;
const VERSION_BASE: usize = 0x200;
const PACKAGE_MAGIC: &[u8] = b"!<arch>\n";
/// Where an image is inside a package: Debian until 13, and since /boot is left to tools.
const INSIDE: [&str; 3] =
    ["./boot/vmlinuz-*", "./usr/lib/modules/*/vmlinuz", "./lib/modules/*/vmlinuz"];

/// Why there is no kernel.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file could not be written.
    #[error("cannot write {path}: {source}", path = path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file is something else.
    #[error(
        "{} is neither an x86 kernel image (vmlinuz, bzImage) nor a Debian package",
        .0.display()
    )]
    NoImage(PathBuf),
    /// A package of something else.
    #[error("{} has no kernel image in it: take linux-image-… and not its debug symbols or headers", .0.display())]
    NoImageInside(PathBuf),
    /// The running kernel's image is not where distributions put it.
    #[error(
        "the image of the running kernel {0} is not readable here: name one, or fetch one with knee kernel fetch"
    )]
    NotHere(String),
    /// A program is missing.
    #[error("{program} is not installed: apt-get install {package}")]
    NoProgram {
        /// The program.
        program: &'static str,
        /// What has it.
        package: &'static str,
    },
    /// A program failed.
    #[error("{program} failed: {said}")]
    Failed {
        /// The program.
        program: &'static str,
        /// The last it said.
        said: String,
    },
    /// No package has that name.
    #[error("no kernel is called {wanted}: there are {known}")]
    Unknown {
        /// What was asked for.
        wanted: String,
        /// What there is.
        known: String,
    },
    /// The machine has no sources of Debian packages.
    #[error(
        "apt knows no mirror of Debian here: fetch a linux-image package yourself and name its file"
    )]
    NoMirror,
}

/// A kernel's image.
#[derive(Clone, PartialEq, Eq)]
pub struct Kernel {
    image: Vec<u8>,
    release: String,
}

impl Kernel {
    /// The kernel in a file: an image, or a Debian package that has one.
    pub fn open(path: &Path) -> Result<Kernel, KernelError> {
        let content =
            fs::read(path).map_err(|source| KernelError::Read { path: path.to_owned(), source })?;
        let image = match content.starts_with(PACKAGE_MAGIC) {
            true => unpack(path)?,
            false => content,
        };
        let release = release(&image).ok_or_else(|| KernelError::NoImage(path.to_owned()))?;
        Ok(Kernel { image, release })
    }

    /// The running kernel, where its image is readable.
    pub fn running() -> Result<Kernel, KernelError> {
        let name = rustix::system::uname();
        let release = name.release().to_string_lossy().into_owned();
        let places = [
            format!("/boot/vmlinuz-{release}"),
            format!("/lib/modules/{release}/vmlinuz"),
            format!("/usr/lib/modules/{release}/vmlinuz"),
        ];
        let place = places.iter().find_map(|place| Kernel::open(Path::new(place)).ok());
        place.ok_or(KernelError::NotHere(release))
    }

    /// What a boot loader loads.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// As `uname -r` says in it: `6.1.0-18-cloud-amd64`.
    pub fn release(&self) -> &str {
        &self.release
    }
}

/// The first word of the version's text in an image.
fn release(image: &[u8]) -> Option<String> {
    let (at, signature) = SIGNATURE;
    if !image.get(at..)?.starts_with(signature) {
        return None;
    }
    let pointer = image.get(VERSION_POINTER..VERSION_POINTER + 2)?;
    let at = VERSION_BASE + usize::from(u16::from_le_bytes(pointer.try_into().ok()?));
    let word = image.get(at..)?.split(|&byte| byte == 0 || byte == b' ').next()?;
    String::from_utf8(word.to_vec()).ok().filter(|word| !word.is_empty())
}

/// The image in a package.
fn unpack(package: &Path) -> Result<Vec<u8>, KernelError> {
    let mut opener = Command::new("dpkg-deb");
    opener.arg("--fsys-tarfile").arg(package).stdin(Stdio::null());
    let mut opener = opener
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|_| KernelError::NoProgram { program: "dpkg-deb", package: "dpkg" })?;
    let archive = opener.stdout.take().map_or_else(Stdio::null, Stdio::from);
    let mut picker = Command::new("tar");
    picker.args(["-x", "--to-stdout", "--wildcards"]).args(INSIDE).stdin(archive);
    let picked = picker.output();
    let opened = opener.wait().is_ok_and(|status| status.success());
    let picked = picked.map_err(|_| KernelError::NoProgram { program: "tar", package: "tar" })?;
    // Its status says nothing: each pattern that fits no file of this package is an error.
    match opened && !picked.stdout.is_empty() {
        true => Ok(picked.stdout),
        false => Err(KernelError::NoImageInside(package.to_owned())),
    }
}
