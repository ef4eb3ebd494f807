//! Fetches Debian's kernels from the mirror that the machine's apt uses, without installing them.

use std::fs;
use std::path::{Path, PathBuf};

use knee_host::suggest::nearest;

use crate::apt::{Apt, Package};
use crate::cache::cache;
use crate::fetched;
use crate::kernel::{Kernel, KernelError};
use crate::package::{PackageError, field};

/// Suites with Linux 5.10, 6.1, 6.12 and the newest release.
const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];
const PREFIX: &str = "linux-image-";

/// Whether the image is made for virtual machines. Such an image is a quarter of the size of other
/// images, and boots faster.
fn is_cloud(package: &Package) -> bool {
    package.name.contains("-cloud-")
}

/// Whether `wanted` names a package. `wanted` may be the package's name with or without the prefix,
/// its suite, or the first numbers of its version.
fn is_named(package: &Package, wanted: &str) -> bool {
    let name = &package.name;
    name == wanted || name.strip_prefix(PREFIX) == Some(wanted) || package.is_named(wanted)
}

/// The kernels that can be fetched, and those that have been fetched.
#[derive(Clone, Debug)]
pub struct Archive {
    dir: PathBuf,
    apt: Apt,
}

impl Archive {
    /// The archive in the user's cache directory, `$XDG_CACHE_HOME/knee/kernels`.
    ///
    /// # Errors
    /// The user has no cache directory, or another user can change what is in the directory, or something in
    /// the directory belongs to another user.
    pub fn of_user() -> Result<Archive, PackageError> {
        Ok(Archive { dir: cache("kernels")?, apt: Apt::of_user(&SUITES)? })
    }

    /// The same archive, but it calls `report` with each message for the user.
    pub fn report_to(self, report: fn(&str)) -> Archive {
        Archive { apt: self.apt.report_to(report), ..self }
    }

    /// The directory of the fetched packages.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The kernel packages, suite by suite; within a suite, the newest is last. Fetches apt's lists if
    /// they are older than a day.
    pub fn list(&self) -> Result<Vec<Package>, KernelError> {
        let mut packages = self.apt.packages(PREFIX, has_kernel)?;
        let suite = |package: &Package| SUITES.iter().position(|suite| *suite == package.suite);
        packages.sort_by_key(|package| (suite(package), package.order(), package.name.clone()));
        Ok(packages)
    }

    /// Fetches the package that `wanted` names, unless it has already been fetched. If `wanted` names several
    /// packages, prefers images for virtual machines, then the newest. Returns the package file that contains
    /// the image, for [`Kernel::open`].
    pub fn fetch(&self, wanted: &str) -> Result<PathBuf, KernelError> {
        self.find(wanted).map(|(file, _)| file)
    }

    /// Like [`Archive::fetch`], but returns the kernel.
    pub fn open(&self, wanted: &str) -> Result<Kernel, KernelError> {
        self.find(wanted).map(|(_, kernel)| kernel)
    }

    fn find(&self, wanted: &str) -> Result<(PathBuf, Kernel), KernelError> {
        let packages = self.list()?;
        let fit = packages.iter().filter(|package| is_named(package, wanted));
        let Some(package) = fit.max_by_key(|package| (is_cloud(package), package.order())) else {
            let names = packages.iter().map(|package| package.name.trim_start_matches(PREFIX));
            return Err(KernelError::Unknown {
                wanted: wanted.to_owned(),
                nearest: nearest(wanted, SUITES.into_iter().chain(names)),
                releases: SUITES.join(", "),
            });
        };
        let file = self.apt.download(&package.name, &package.full_version, &self.dir)?;
        match Kernel::in_checked(&file) {
            Ok(kernel) => return Ok((file, kernel)),
            Err(KernelError::NoImageInside(_)) => {}
            Err(error) => return Err(error),
        }
        // The newest kernels are split: this package depends on one package with the image and on
        // another package with the modules. Both packages must be in the same directory.
        let wants = field(&file, "Depends")?;
        let mut image = None;
        for (name, version) in parts(&wants, &package.full_version) {
            let part = self.apt.download(&name, &version, &self.dir)?;
            if image.is_none() {
                image = Kernel::in_checked(&part).ok().map(|kernel| (part, kernel));
            }
        }
        image.ok_or(KernelError::NoImageInside(file))
    }

    /// Finds the newest fetched kernel for virtual machines. The kernel's version must begin with the
    /// numbers in `version`, such as `6.1`. Returns the kernel's package file, for [`Kernel::open`].
    pub fn newest_fetched(&self, version: &str) -> Option<PathBuf> {
        newest(self.fetched(), version)
    }

    /// The fetched package files whose digests are known, sorted by name. Some of these packages contain
    /// no image.
    pub fn fetched(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let packages = entries.map(|entry| entry.path());
        let mut packages: Vec<PathBuf> =
            packages.filter(|path| fetched::recorded(path).is_some()).collect();
        packages.sort();
        packages
    }
}

/// Finds the newest kernel for virtual machines among these package files. The kernel's version must
/// begin with the numbers in `version`. The files must have the names that apt gives them.
fn newest(files: Vec<PathBuf>, version: &str) -> Option<PathBuf> {
    let fit = files.into_iter().filter_map(|file| {
        let mut parts = file.file_name()?.to_str()?.split('_');
        let package = Package::new(parts.next()?, parts.next()?, "");
        let fits = has_kernel(&package.name) && is_cloud(&package) && is_named(&package, version);
        fits.then(|| (package.order(), file))
    });
    fit.max().map(|(_, file)| file)
}

fn has_kernel(name: &str) -> bool {
    let release = name.strip_prefix(PREFIX).unwrap_or_default();
    // Packages whose names contain no version number are metapackages for the newest kernel.
    release.starts_with(|first: char| first.is_ascii_digit()) && release.ends_with("-amd64")
}

/// The `linux-*` packages in a package's list of dependencies, each with the exact version that the
/// list requires, or with `version` if the list requires no exact version.
fn parts(depends: &str, version: &str) -> Vec<(String, String)> {
    let part = |wanted: &str| {
        let name = wanted.split_whitespace().next().filter(|name| name.starts_with("linux-"))?;
        let exactly = wanted.split_once("(= ").map(|(_, rest)| rest.trim_end_matches([')', ' ']));
        Some((name.to_owned(), exactly.unwrap_or(version).to_owned()))
    };
    depends.split(',').filter_map(|wanted| part(wanted.trim())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_fetched_cloud_kernel_of_a_version_is_found() {
        let newest = "linux-image-6.1.0-50-cloud-amd64_6.1.176-1_amd64.deb";
        let files = [
            "linux-base-6.1.0-52-cloud-amd64_6.1.178-1_amd64.deb",
            "linux-image-6.1.0-18-cloud-amd64_6.1.76-1_amd64.deb",
            newest,
            "linux-image-6.1.0-51-amd64_6.1.177-1_amd64.deb",
            "linux-image-6.12.107+deb13-cloud-amd64_6.12.107-1_amd64.deb",
        ];
        let found = |version: &str| super::newest(files.map(PathBuf::from).into(), version);
        assert_eq!(found("6.1"), Some(PathBuf::from(newest)));
        assert_eq!(found("5.10"), None);
    }

    #[test]
    fn a_kernel_is_selected_by_name_suite_or_version() {
        let package = Package::new("linux-image-6.1.0-18-cloud-amd64", "6.1.76-1", "bookworm");
        for name in ["linux-image-6.1.0-18-cloud-amd64", "6.1.0-18-cloud-amd64", "bookworm", "6.1"]
        {
            assert!(is_named(&package, name), "{name}");
        }
        for name in ["6.12", "6", "trixie", "6.1.7"] {
            assert_eq!(is_named(&package, name), name == "6", "{name}");
        }
    }

    #[test]
    fn the_parts_of_a_split_kernel_have_their_required_versions() {
        let depends = "kmod, linux-base (>= 4.12), linux-binary-7.2-amd64 (= 7.2.3-1)";
        let expected = [("linux-base", ">"), ("linux-binary-7.2-amd64", "7.2.3-1")];
        let found = parts(depends, ">");
        assert!(found.iter().map(|(name, version)| (&name[..], &version[..])).eq(expected));
    }
}
