//! The kernel that a guest runs: from a file, from a package, or the host's running kernel.
//!
//! A kernel image is a file in the bzImage format, which boot loaders expect (Documentation/arch/x86/boot.rst
//! of Linux). Debian ships kernel images in packages. dpkg-deb opens a package without installing it.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use knee_host::RegularFile;
use knee_host::regular_file::FileError;
use knee_host::suggest::question;

use crate::fetched;
use crate::package::{PackageError, files};
use crate::tool::{MIB, ToolError, read_at_most};

/// Offset and value of the boot protocol's signature.
const SIGNATURE: (usize, &[u8]) = (0x202, b"HdrS");
/// Offset of the pointer to the version text. The pointer is relative to [`VERSION_BASE`].
const VERSION_POINTER: usize = 0x20e;
const VERSION_BASE: usize = 0x200;
/// Maximum length of a release, in bytes: that of uname(2).
const MAX_RELEASE: usize = 64;
const PACKAGE_MAGIC: &[u8] = b"!<arch>\n";
/// Maximum size of the image in a package. The images of distributions are at most 20 MiB, but a small
/// package could decompress to gigabytes of zeroes.
const MAX_IMAGE: u64 = 256 * MIB;

/// Why a kernel cannot be fetched or opened.
#[derive(Debug, thiserror::Error)]
pub enum KernelError {
    /// A file could not be read.
    #[error("cannot read {path}: {source}", path = path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is neither a kernel image nor a Debian package.
    #[error(
        "{} is not an x86 kernel image (vmlinuz, bzImage) or a Debian package",
        .0.display()
    )]
    NoImage(PathBuf),
    /// The release in the image is not a valid kernel release.
    #[error(
        "{}: the release in this kernel image is longer than {MAX_RELEASE} characters, or contains other \
         characters than letters, digits and .+-_~; use another image",
        .0.display()
    )]
    Release(PathBuf),
    /// The file is not a build of knee's own kernel.
    #[error(
        "{path} {why}; build knee's kernel with cargo build --release -p knee-kernel --target \
         x86_64-unknown-none, and pass Linux with --kernel",
        path = path.display()
    )]
    NotKnee {
        /// The file.
        path: PathBuf,
        /// What is wrong with the file.
        why: &'static str,
    },
    /// The package contains no kernel image.
    #[error("{} contains no kernel image; use linux-image-…, not its debug symbols or \
        headers", .0.display())]
    NoImageInside(PathBuf),
    /// A module needs another module, which is missing.
    #[error("module {by} needs module {name}, which is not in {places}")]
    NoModule {
        /// The missing module.
        name: String,
        /// The module that needs the missing module.
        by: String,
        /// The places that were searched.
        places: String,
    },
    /// The file systems need more modules than knee loads.
    #[error("its file systems need more than {0} modules")]
    TooManyModules(usize),
    /// A file is named like a module, but is not a module.
    #[error("{} is not a kernel module", .0.display())]
    BrokenModule(PathBuf),
    /// The running kernel's image is missing or unreadable in all places where distributions put it.
    #[error(
        "cannot read the image of the running kernel {0}; name an image, or fetch one with knee \
         kernel fetch"
    )]
    NotHere(String),
    /// A package could not be fetched or opened.
    #[error(transparent)]
    Package(#[from] PackageError),
    /// A module could not be decompressed.
    #[error(transparent)]
    Tool(#[from] ToolError),
    /// No package has the requested name.
    #[error(
        "no kernel is named {wanted}{}; name a release ({releases}), a version such as 6.12, or a \
         kernel that knee kernel list shows",
        question(.nearest)
    )]
    Unknown {
        /// The requested name.
        wanted: String,
        /// Similar names.
        nearest: Vec<String>,
        /// The releases, separated by commas.
        releases: String,
    },
}

impl KernelError {
    /// Adds the path to a read error.
    pub(crate) fn read(path: &Path) -> impl FnOnce(FileError) -> KernelError + '_ {
        |error| KernelError::Read { path: path.to_owned(), source: error.into() }
    }
}

/// A kernel's image.
#[derive(Clone, PartialEq, Eq)]
pub struct Kernel {
    image: Vec<u8>,
    release: String,
    package: Option<PathBuf>,
}

impl Kernel {
    /// The kernel in a file: an image, or a Debian package that contains one. If a file beside the package
    /// records its SHA-256, as [`Archive`](crate::Archive) writes it, the package must match this SHA-256.
    pub fn open(path: &Path) -> Result<Kernel, KernelError> {
        let content = RegularFile::at(path).read().map_err(KernelError::read(path))?;
        if !content.starts_with(PACKAGE_MAGIC) {
            return Kernel::new(path, content, None);
        }
        fetched::require_recorded(path, &content)?;
        Kernel::in_checked(path)
    }

    /// The kernel in a package whose SHA-256 has been checked.
    pub(crate) fn in_checked(package: &Path) -> Result<Kernel, KernelError> {
        Kernel::new(package, unpack(package)?, Some(package.to_owned()))
    }

    fn new(path: &Path, image: Vec<u8>, package: Option<PathBuf>) -> Result<Kernel, KernelError> {
        let release = release(&image).ok_or_else(|| KernelError::NoImage(path.to_owned()))?;
        match is_release(&release) {
            true => Ok(Kernel { image, release, package }),
            false => Err(KernelError::Release(path.to_owned())),
        }
    }

    /// The running kernel, if its image is readable.
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

    /// A kernel without an image.
    #[cfg(test)]
    pub(crate) fn of_release(release: &str, package: Option<PathBuf>) -> Kernel {
        Kernel { image: Vec::new(), release: release.to_owned(), package }
    }

    /// The content of the kernel image.
    pub fn image(&self) -> &[u8] {
        &self.image
    }

    /// The release, as `uname -r` prints it: `6.1.0-18-cloud-amd64`.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The package that the image is from, if any.
    pub(crate) fn package(&self) -> Option<&Path> {
        self.package.as_deref()
    }
}

/// The release of the kernel in an image: the first word of the version text. `None` if this is not
/// an image.
fn release(image: &[u8]) -> Option<String> {
    let (at, signature) = SIGNATURE;
    if !image.get(at..)?.starts_with(signature) {
        return None;
    }
    let pointer = image.get(VERSION_POINTER..VERSION_POINTER + 2)?;
    let at = VERSION_BASE + usize::from(u16::from_le_bytes(pointer.try_into().ok()?));
    let text = image.get(at..)?;
    // One byte more than the maximum, so that `is_release` notices a longer release.
    let text = &text[..text.len().min(MAX_RELEASE + 1)];
    let word = text.split(|&byte| byte == 0 || byte == b' ').next()?;
    String::from_utf8(word.to_vec()).ok().filter(|word| !word.is_empty())
}

/// Whether a text can be the release of a kernel. knee prints the release, and it is the name of a directory below
/// `/lib/modules`.
fn is_release(text: &str) -> bool {
    let is_permitted = |c: char| c.is_ascii_alphanumeric() || ".+-_~".contains(c);
    text.len() <= MAX_RELEASE && text.chars().all(is_permitted) && !text.chars().all(|c| c == '.')
}

/// The image in a package.
fn unpack(package: &Path) -> Result<Vec<u8>, KernelError> {
    let mut image = Vec::new();
    files(package, |path, file| {
        if !is_image(path) {
            return Ok(ControlFlow::Continue(()));
        }
        image = read_at_most("its kernel image", file, MAX_IMAGE)?;
        Ok(ControlFlow::Break(()))
    })?;
    match image.is_empty() {
        true => Err(KernelError::NoImageInside(package.to_owned())),
        false => Ok(image),
    }
}

/// Whether a file of a package is a kernel image: `./boot/vmlinuz-RELEASE` up to Debian 13, and
/// `./usr/lib/modules/RELEASE/vmlinuz` in later releases.
fn is_image(path: &Path) -> bool {
    let mut parts = path.iter().rev().filter_map(|part| part.to_str());
    match [(); 3].map(|()| parts.next()) {
        [Some("vmlinuz"), _, Some("modules")] => true,
        [Some(name), Some("boot"), _] => name.starts_with("vmlinuz-"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_whose_image_is_too_large_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("tree");
        for directory in ["DEBIAN", "boot"] {
            std::fs::create_dir_all(tree.join(directory)).unwrap();
        }
        let control =
            "Package: p\nVersion: 1\nArchitecture: all\nMaintainer: a <a@a>\nDescription: d\n";
        std::fs::write(tree.join("DEBIAN/control"), control).unwrap();
        let image = std::fs::File::create(tree.join("boot/vmlinuz-6.1")).unwrap();
        image.set_len(MAX_IMAGE + 1).unwrap();
        let package = dir.path().join("package.deb");
        let mut build = std::process::Command::new("dpkg-deb");
        build.args(["-Zgzip", "-z1", "--build"]).arg(&tree).arg(&package);
        let Ok(built) = build.output() else {
            return knee_host::skip::skip("dpkg-deb", "dpkg-deb is not installed");
        };
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        let error = Kernel::open(&package).map(drop).unwrap_err().to_string();
        let end = "its kernel image is longer than 256 MiB, the maximum that knee reads";
        assert!(error.ends_with(end), "{error}");
    }

    #[test]
    fn an_image_whose_release_is_long_or_a_path_or_contains_lines_is_refused() {
        let open = |release: &str| {
            let mut image = vec![0; VERSION_BASE + 0x100];
            let (at, signature) = SIGNATURE;
            image[at..at + signature.len()].copy_from_slice(signature);
            image[VERSION_POINTER..VERSION_POINTER + 2].copy_from_slice(&0x100_u16.to_le_bytes());
            image.extend(release.bytes().chain(*b" (a@b) #1\0"));
            Kernel::new(Path::new("vmlinuz"), image, None).map(|kernel| kernel.release)
        };
        let [longest, long] = [64, 65].map(|length| "6".repeat(length));
        for release in ["6.1.0-50-cloud-amd64", "6.12.107+deb13~bpo", "7.2_rc1", &longest] {
            assert_eq!(open(release).unwrap(), release);
        }
        for release in
            ["6.1\nall\ttests", "/home/mallory/mods", "..", ".", "6.1\u{1b}[2J", "6.1é", &long]
        {
            let error = open(release).unwrap_err().to_string();
            assert!(error.starts_with("vmlinuz: the release in this kernel image"), "{error}");
        }
        assert!(matches!(open(""), Err(KernelError::NoImage(_))));
    }

    #[test]
    fn images_are_found_where_debian_installs_them() {
        for image in ["./boot/vmlinuz-6.1.0-50-amd64", "./usr/lib/modules/7.2/vmlinuz"] {
            assert!(is_image(Path::new(image)), "{image}");
        }
        for other in ["./boot/config-6.1", "./usr/share/doc/vmlinuz-6.1", "./vmlinuz", "."] {
            assert!(!is_image(Path::new(other)), "{other}");
        }
    }
}
