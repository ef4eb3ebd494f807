//! Fetches Debian's QEMUs from the mirror that the machine's apt uses, without installing them.
//!
//! A fetched QEMU is a directory with files from a suite's package qemu-system-x86 and from all
//! packages that this package depends on. These packages include the C library, because this
//! machine's C library may be incompatible. The directory's name consists of the suite and the version:
//! `trixie_10.0.13+ds-0+deb13u1`. Only the files that a guest needs are kept: 90 MB of 250 MB. knee records
//! their digests as soon as it has unpacked them from verified packages, and checks the digests each time a
//! command chooses the QEMU.

use std::fs;
use std::path::{Path, PathBuf};

use knee_host::regular_file::directory;
use rustix::fs::syncfs;

use super::emulator::{Emulator, EmulatorError};
use super::manifest;
use super::root::is_needed;
use crate::apt::{Apt, Package};
use crate::cache::{cache, create, in_partial, locked, remove};
use crate::package::{PackageError, unpack};

/// The suites with a QEMU, each with the suites from which apt takes the QEMU's dependencies.
const SUITES: [(&str, &[&str]); 4] = [
    ("bookworm", &["bookworm"]),
    ("bookworm-backports", &["bookworm", "bookworm-backports"]),
    ("trixie", &["trixie"]),
    ("sid", &["sid"]),
];
const PACKAGE: &str = "qemu-system-x86";

/// The QEMUs that can be fetched, and those that have been fetched.
#[derive(Clone, Debug)]
pub struct Emulators {
    dir: PathBuf,
}

impl Emulators {
    /// The QEMUs in the user's cache directory, `$XDG_CACHE_HOME/knee/qemu`.
    ///
    /// # Errors
    /// There is no place for a cache, another user can change what is in the directory, or something in it
    /// belongs to another user.
    pub fn of_user() -> Result<Emulators, PackageError> {
        Ok(Emulators { dir: cache("qemu")? })
    }

    /// The packages that can be fetched, suite by suite. Fetches apt's lists if they are older than
    /// a day.
    pub fn list(&self) -> Result<Vec<Package>, PackageError> {
        let suites: Vec<&str> = SUITES.iter().map(|(suite, _)| *suite).collect();
        let mut packages = Apt::of_user(&suites)?.packages(PACKAGE, |name| name == PACKAGE)?;
        let place = |package: &Package| suites.iter().position(|suite| *suite == package.suite);
        packages.sort_by_key(|package| (place(package), package.order()));
        Ok(packages)
    }

    /// The fetched packages whose files have recorded digests.
    pub fn fetched(&self) -> Vec<Package> {
        let entries = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let entries = entries.filter(|entry| manifest::is_recorded(&entry.path()));
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let package = |name: String| {
            let (suite, version) = name.split_once('_')?;
            Some(Package::new(PACKAGE, version, suite))
        };
        let mut packages: Vec<Package> = names.filter_map(package).collect();
        packages.sort_by_key(|package| (package.order(), package.suite.clone()));
        packages
    }

    /// The newest fetched QEMU that `wanted` names. `wanted` is a suite, a version or the first
    /// numbers of a version.
    ///
    /// # Errors
    /// The files of this QEMU are not those that were fetched.
    pub fn find(&self, wanted: &str) -> Result<Option<Emulator>, EmulatorError> {
        let fetched = self.fetched();
        let Some(package) = newest(&fetched, wanted) else { return Ok(None) };
        let root = self.root(package);
        match manifest::is_intact(&root) {
            true => Ok(Some(Emulator::in_root(root))),
            false => Err(EmulatorError::Changed { root, wanted: wanted.to_owned() }),
        }
    }

    /// Fetches the newest QEMU that `wanted` names (a suite, a version or the first numbers of a
    /// version), unless it has been fetched before and its files are unchanged. Returns the QEMU's package
    /// and the QEMU itself.
    ///
    /// # Errors
    /// No QEMU has that name, apt fails, or the files cannot be written.
    pub fn fetch(&self, wanted: &str) -> Result<(Package, Emulator), EmulatorError> {
        let packages = self.list()?;
        let Some(package) = newest(&packages, wanted) else {
            return Err(EmulatorError::Unknown { wanted: wanted.to_owned() });
        };
        let root = self.root(package);
        let _lock = locked(&self.dir)?;
        if !manifest::is_intact(&root) {
            self.install(package, &root)?;
        }
        Ok((package.clone(), Emulator::in_root(root)))
    }

    /// Fetches and unpacks a package with its dependencies. The QEMU appears at `root` only when it is
    /// complete.
    fn install(&self, package: &Package, root: &Path) -> Result<(), PackageError> {
        in_partial(&self.dir, |partial| {
            let unpacked = download(package, partial)?;
            manifest::record(&unpacked)?;
            // After a power failure, the QEMU must not consist of empty files.
            let _ = directory(&unpacked).map(syncfs);
            remove(root)?;
            fs::rename(unpacked, root).map_err(PackageError::write(root))
        })
    }

    fn root(&self, package: &Package) -> PathBuf {
        self.dir.join(format!("{}_{}", package.suite, package.version))
    }
}

/// Downloads a package with its dependencies and unpacks them, all below `dir`. Returns the
/// directory with the unpacked files.
fn download(package: &Package, dir: &Path) -> Result<PathBuf, PackageError> {
    let suites = SUITES.iter().find(|(suite, _)| *suite == package.suite);
    let apt = Apt::of_user(suites.map_or(&[], |(_, suites)| suites))?;
    let root = create(&dir.join("root"))?;
    for file in apt.download_closure(package, &dir.join("archives"))? {
        unpack(&file, &root, is_needed)?;
    }
    Ok(root)
}

fn newest<'p>(packages: &'p [Package], wanted: &str) -> Option<&'p Package> {
    let exact = packages.iter().find(|package| package.version == wanted);
    let fit = packages.iter().filter(|package| package.is_named(wanted));
    exact.or_else(|| fit.max_by_key(|package| package.order()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Creates a directory with a QEMU for each name. Each QEMU is a file, a link to it, and the list of
    /// digests.
    fn fetched(names: &[&str]) -> (tempfile::TempDir, Emulators) {
        let dir = tempfile::tempdir().unwrap();
        for name in names {
            let root = dir.path().join(name);
            fs::create_dir_all(root.join("usr/bin")).unwrap();
            fs::write(root.join("usr/bin/qemu-system-x86_64"), *name).unwrap();
            symlink("qemu-system-x86_64", root.join("usr/bin/qemu")).unwrap();
            manifest::record(&root).unwrap();
        }
        let emulators = Emulators { dir: dir.path().to_owned() };
        (dir, emulators)
    }

    #[test]
    fn the_newest_fetched_qemu_is_found_by_suite_or_version() {
        let names = ["bookworm_7.2+dfsg-7", "trixie_10.0.2+ds-2", "trixie_10.0.13+ds-0", "partial"];
        let (_dir, emulators) = fetched(&names);
        let found = |wanted: &str| {
            let command = emulators.find(wanted).unwrap()?.command();
            Some(command.get_program().to_string_lossy().into_owned())
        };
        assert!(found("trixie").unwrap().contains("/trixie_10.0.13+ds-0/"));
        assert!(found("10.0.2").unwrap().contains("/trixie_10.0.2+ds-2/"));
        assert!(found("7").unwrap().contains("/bookworm_7.2+dfsg-7/"));
        assert_eq!((found("sid"), found("partial")), (None, None));
    }

    #[test]
    fn a_qemu_whose_files_have_changed_is_not_used() {
        let (dir, emulators) = fetched(&["trixie_10.0"]);
        let root = dir.path().join("trixie_10.0");
        let program = root.join("usr/bin/qemu-system-x86_64");
        let link = root.join("usr/bin/qemu");
        assert!(emulators.find("trixie").unwrap().is_some());
        let refused = || emulators.find("trixie").unwrap_err().to_string();
        let message = format!(
            "cannot use the QEMU in {}: its files are not those that were fetched; run knee qemu fetch \
             trixie",
            root.display()
        );
        fs::write(&program, "other").unwrap();
        assert_eq!(refused(), message);
        fs::write(&program, "trixie_10.0").unwrap();
        fs::write(root.join("new"), "").unwrap();
        assert_eq!(refused(), message);
        fs::remove_file(root.join("new")).unwrap();
        fs::remove_file(&link).unwrap();
        symlink("/bin/sh", &link).unwrap();
        assert_eq!(refused(), message);
        fs::remove_file(&link).unwrap();
        symlink("qemu-system-x86_64", &link).unwrap();
        assert!(emulators.find("trixie").unwrap().is_some());
        // Older versions of knee recorded no digests, so their QEMUs are fetched again.
        fs::remove_file(root.join("SHA256SUMS")).unwrap();
        assert_eq!((emulators.find("trixie").unwrap(), emulators.fetched().len()), (None, 0));
    }
}
