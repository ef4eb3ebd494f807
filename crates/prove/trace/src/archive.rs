//! Kernels of Debian, from the mirror that the machine's own apt uses, without installing them.

use std::fs;
use std::path::PathBuf;

use crate::apt::{Apt, Package, cache};
use crate::kernel::{Kernel, KernelError};
use crate::package::field;

/// Suites with Linux 5.10, 6.1, 6.12 and the newest.
const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];
const PREFIX: &str = "linux-image-";

/// Images for virtual machines are a quarter of the size, and boot faster.
fn is_cloud(package: &Package) -> bool {
    package.name.contains("-cloud-")
}

/// Whether `wanted` may be a user's name for a package: its name, with or without the prefix, its
/// suite, or the first numbers of its version.
fn is(package: &Package, wanted: &str) -> bool {
    let name = &package.name;
    name == wanted || name.strip_prefix(PREFIX) == Some(wanted) || package.is(wanted)
}

/// Kernels that can be fetched, and those that have been.
#[derive(Clone, Debug)]
pub struct Archive {
    dir: PathBuf,
    apt: Apt,
}

impl Archive {
    /// The archive in the user's cache directory, `$XDG_CACHE_HOME/knee/kernels`.
    pub fn of_user() -> Archive {
        Archive { dir: cache("kernels"), apt: Apt::of_user(&SUITES) }
    }

    /// Packages with kernels, newest last, suite by suite. Fetches apt's lists if those that are
    /// there are older than a day.
    pub fn list(&self) -> Result<Vec<Package>, KernelError> {
        let mut packages = self.apt.packages(PREFIX, has_kernel)?;
        let suite = |package: &Package| SUITES.iter().position(|suite| *suite == package.suite);
        packages.sort_by_key(|package| (suite(package), package.order(), package.name.clone()));
        Ok(packages)
    }

    /// The package that a name means, fetched unless it is there: the newest of those that fit, and
    /// an image for virtual machines rather than another. Returns its file, for [`Kernel::open`].
    pub fn fetch(&self, wanted: &str) -> Result<PathBuf, KernelError> {
        self.find(wanted).map(|(file, _)| file)
    }

    /// The kernel in that package.
    pub fn open(&self, wanted: &str) -> Result<Kernel, KernelError> {
        self.find(wanted).map(|(_, kernel)| kernel)
    }

    fn find(&self, wanted: &str) -> Result<(PathBuf, Kernel), KernelError> {
        let packages = self.list()?;
        let fit = packages.iter().filter(|package| is(package, wanted));
        let Some(package) = fit.max_by_key(|package| (is_cloud(package), package.order())) else {
            let known = packages.iter().map(|package| package.name.trim_start_matches(PREFIX));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(KernelError::Unknown { wanted: wanted.to_owned(), known });
        };
        let file = self.apt.download(&package.name, &package.full_version, &self.dir)?;
        if let Ok(kernel) = Kernel::open(&file) {
            return Ok((file, kernel));
        }
        // The newest kernels are split: the image is in a package that this one depends on, and modules in
        // another, which has to be beside it.
        let wants = field(&file, "Depends")?;
        let mut image = None;
        for (name, version) in parts(&wants, &package.full_version) {
            let part = self.apt.download(&name, &version, &self.dir)?;
            if image.is_none() {
                image = Kernel::open(&part).ok().map(|kernel| (part, kernel));
            }
        }
        image.ok_or(KernelError::NoImageInside(file))
    }

    /// The newest kernel for virtual machines that has been fetched and whose version begins with these
    /// numbers, `6.1`: its file, for [`Kernel::open`].
    pub fn newest_fetched(&self, version: &str) -> Option<PathBuf> {
        newest(self.fetched(), version)
    }

    /// Files of packages that have been fetched, by name; not all of them have an image inside.
    pub fn fetched(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let packages = entries.map(|entry| entry.path());
        let mut packages: Vec<PathBuf> =
            packages.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect();
        packages.sort();
        packages
    }
}

/// The newest kernel for virtual machines among files of packages, as apt names them, whose version
/// begins with these numbers.
fn newest(files: Vec<PathBuf>, version: &str) -> Option<PathBuf> {
    let fit = files.into_iter().filter_map(|file| {
        let mut parts = file.file_name()?.to_str()?.split('_');
        let package = Package::new(parts.next()?, parts.next()?, "");
        let fits = has_kernel(&package.name) && is_cloud(&package) && is(&package, version);
        fits.then(|| (package.order(), file))
    });
    fit.max().map(|(_, file)| file)
}

fn has_kernel(name: &str) -> bool {
    let release = name.strip_prefix(PREFIX).unwrap_or_default();
    // Those without a number are names for the newest.
    release.starts_with(|first: char| first.is_ascii_digit()) && release.ends_with("-amd64")
}

/// Packages of Linux among the dependencies of a package, with the versions that it depends on.
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
    fn the_newest_kernel_for_virtual_machines_of_a_version_is_found_among_the_fetched() {
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
    fn a_kernel_is_meant_by_name_suite_or_version() {
        let package = Package::new("linux-image-6.1.0-18-cloud-amd64", "6.1.76-1", "bookworm");
        for name in ["linux-image-6.1.0-18-cloud-amd64", "6.1.0-18-cloud-amd64", "bookworm", "6.1"]
        {
            assert!(is(&package, name), "{name}");
        }
        for name in ["6.12", "6", "trixie", "6.1.7"] {
            assert_eq!(is(&package, name), name == "6", "{name}");
        }
    }

    #[test]
    fn parts_of_a_split_kernel_come_with_their_versions() {
        let depends = "kmod, linux-base (>= 4.12), linux-binary-7.2-amd64 (= 7.2.3-1)";
        let expected = [("linux-base", ">"), ("linux-binary-7.2-amd64", "7.2.3-1")];
        let found = parts(depends, ">");
        assert!(found.iter().map(|(name, version)| (&name[..], &version[..])).eq(expected));
    }
}
