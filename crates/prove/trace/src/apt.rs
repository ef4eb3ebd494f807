//! Runs apt with its own configuration, lists and cache, to fetch Debian packages without
//! installing them.
//!
//! apt handles proxies, signatures, mirrors and dependencies. apt needs no privileges, because it
//! writes only below the user's cache directory. knee reads the machine's own apt configuration to
//! find the mirror. The searches for kernels and for QEMUs use different suites, but share the
//! package lists. If the mirror no longer has a suite, the suite is skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, SystemTime};
use std::{fs, io};

use knee_host::{RegularFile, filesystem, write_atomically};

use crate::cache::{cache, create, in_partial, locked};
use crate::fetched;
use crate::package::{PACKAGE_ENDING, PackageError};
use crate::tool::{MIB, ToolError, output_unless};

/// Names of Debian's suites as they may appear in a machine's apt sources.
const DEBIAN: [&str; 10] = [
    "bullseye",
    "bookworm",
    "trixie",
    "forky",
    "sid",
    "oldoldstable",
    "oldstable",
    "stable",
    "testing",
    "unstable",
];
/// The keys of all suites, from Debian's package debian-archive-keyring.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Lists older than this are fetched again.
const LISTS_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Time from the start of a download to the first message about its progress.
const FIRST_MESSAGE: Duration = Duration::from_secs(2);
/// Time between two messages about the progress of a download.
const MESSAGE_INTERVAL: Duration = Duration::from_secs(10);
/// Name of the configuration file.
const CONFIGURATION: &str = "apt.conf";
/// Directory of the lists.
const LISTS: &str = "state/lists";
/// What apt prints for a suite that the mirror no longer has.
const GONE: &str = "does not have a Release file";
/// The packages that contain apt's programs.
const APT: &str = "apt dpkg";
/// Maximum output of one of apt's programs, in bytes. The list of all packages of a suite takes a few.
const MOST_OUTPUT: u64 = 256 * MIB;

/// A package in one of Debian's suites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// `linux-image-6.1.0-18-cloud-amd64`
    pub name: String,
    /// `6.1.76-1`, without the epoch that Debian's versions may have.
    pub version: String,
    /// `bookworm`
    pub suite: String,
    /// The version as apt knows it: `1:7.2+dfsg-7`.
    pub(crate) full_version: String,
}

impl Package {
    pub(crate) fn new(name: &str, full_version: &str, suite: &str) -> Package {
        // An epoch contains only digits and ends at the first colon.
        let version = full_version.split_once(':').map_or(full_version, |(_, version)| version);
        let [name, version, suite, full_version] =
            [name, version, suite, full_version].map(str::to_owned);
        Package { name, version, suite, full_version }
    }

    /// Whether `wanted` is the package's suite, its version, or the first numbers of its version.
    pub(crate) fn is_named(&self, wanted: &str) -> bool {
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
        self.suite == wanted || self.version.strip_prefix(wanted).is_some_and(ends)
    }

    /// The numbers in the version, for comparing versions. Debian's own order is more complex, but
    /// gives the same result for the versions of kernels and QEMUs.
    pub(crate) fn order(&self) -> Vec<u64> {
        let numbers = self.version.split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|number| number.parse().ok()).collect()
    }
}

/// apt, restricted to some suites.
#[derive(Clone, Debug)]
pub(crate) struct Apt {
    dir: PathBuf,
    suites: Vec<&'static str>,
    report: fn(&str),
}

impl Apt {
    /// apt with its files in the user's cache directory.
    pub(crate) fn of_user(suites: &[&'static str]) -> Result<Apt, PackageError> {
        Ok(Apt { dir: cache("apt")?, suites: suites.to_vec(), report: |_| {} })
    }

    /// The same, but calls `report` with each message for the user.
    pub(crate) fn report_to(self, report: fn(&str)) -> Apt {
        Apt { report, ..self }
    }

    /// The packages whose names begin with `prefix` and satisfy `wanted`, in no particular order.
    /// Fetches lists that are older than a day.
    pub(crate) fn packages(
        &self,
        prefix: &str,
        wanted: impl Fn(&str) -> bool,
    ) -> Result<Vec<Package>, PackageError> {
        self.update()?;
        // apt takes seconds to answer, so the answer is cached.
        let answer = self.dir.join(format!("packages.{prefix}.{}", self.suites.join("+")));
        let updated = self.suites.iter().filter_map(|suite| modified(&self.stamp(suite))).max();
        if modified(&answer) > updated
            && let Ok(known) = RegularFile::at(&answer).read_to_string()
        {
            return Ok(packages(&known));
        }
        let names = run(self.program("apt-cache").args(["pkgnames", prefix]))?;
        let names: Vec<&str> = names.lines().filter(|name| wanted(name)).collect();
        let found = match names[..] {
            [] => String::new(),
            _ => run(self.program("apt-cache").arg("madison").args(names))?,
        };
        if !self.stale().is_empty() {
            return Ok(packages(&found));
        }
        write_atomically(&answer, found.as_bytes()).map_err(PackageError::write(&answer))?;
        Ok(packages(&found))
    }

    /// Downloads one version of a package into a directory of the cache, unless the directory already
    /// contains it. Returns the file, which has the SHA-256 that apt's signed index gives for it.
    ///
    /// apt checks a file only when the download ends, so the file of an interrupted download may have any
    /// content. A file gets its final name after it has been checked, and is checked again each time it is
    /// used.
    pub(crate) fn download(
        &self,
        name: &str,
        version: &str,
        dir: &Path,
    ) -> Result<PathBuf, PackageError> {
        let _lock = locked(dir)?;
        // apt encodes the colon of an epoch like this.
        let version_in_name = version.replace(':', "%3a");
        let file_name = format!("{name}_{version_in_name}_amd64{PACKAGE_ENDING}");
        let file = dir.join(&file_name);
        if file.exists() {
            let recorded = fetched::recorded(&file);
            let is_recorded = recorded.is_some();
            // Older versions of knee did not record digests.
            let digest =
                recorded.map_or_else(|| self.described(name, version).map(|it| it.sha256), Ok)?;
            if fetched::has_digest(&file, &digest) {
                if !is_recorded {
                    fetched::record(&file, &digest)?;
                }
                return Ok(file);
            }
            (self.report)(&format!(
                "{} does not have the SHA-256 of apt's index; fetching it again",
                file.display()
            ));
        }
        fetched::remove(&file)?;
        let Described { sha256: digest, size } = self.described(name, version)?;
        in_partial(dir, |partial| {
            let failed = |error| PackageError::NotFetched { name: file_name.clone(), error };
            let mut download = self.program("apt-get");
            download.args(["-q", "download", &format!("{name}={version}")]);
            download.current_dir(partial);
            self.watched(name, &mut download, partial, size).map_err(|error| match error {
                PackageError::Tool(error @ ToolError::Failed { .. }) => failed(error),
                other => other,
            })?;
            let new = partial.join(&file_name);
            if !fetched::has_digest(&new, &digest) {
                return Err(failed(ToolError::Failed {
                    program: "apt-get".to_owned(),
                    message: "the file does not have the SHA-256 of apt's signed index".to_owned(),
                }));
            }
            fetched::record(&file, &digest)?;
            fs::rename(&new, &file).map_err(PackageError::write(&file))
        })?;
        Ok(file)
    }

    /// What apt's signed index says about one version of a package.
    fn described(&self, name: &str, version: &str) -> Result<Described, PackageError> {
        let package = format!("{name}={version}");
        let described = run(self.program("apt-cache").args(["show", &package]))?;
        Described::parse(&described).ok_or(PackageError::NoDigest(package))
    }

    /// Runs a command that downloads `what` into `dir`, and reports from time to time how much has arrived.
    /// `size` is the size of the download in bytes, if known.
    fn watched(
        &self,
        what: &str,
        command: &mut Command,
        dir: &Path,
        size: Option<u64>,
    ) -> Result<String, PackageError> {
        let (ended, end) = mpsc::channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut interval = FIRST_MESSAGE;
                while end.recv_timeout(interval) == Err(RecvTimeoutError::Timeout) {
                    let arrived = megabytes(content_size(dir));
                    let of = size.map_or(String::new(), |size| format!(" of {}", megabytes(size)));
                    (self.report)(&format!("fetching {what}: {arrived}{of} MB"));
                    interval = MESSAGE_INTERVAL;
                }
            });
            let output = run_in(dir, command);
            drop(ended);
            output
        })
    }

    /// Downloads a package and all of its dependencies into `dir`, as if nothing were installed. `dir` must
    /// be empty or absent. Returns the package files.
    pub(crate) fn download_closure(
        &self,
        package: &Package,
        dir: &Path,
    ) -> Result<Vec<PathBuf>, PackageError> {
        self.update()?;
        let partial = dir.join("partial");
        create(&partial)?;
        let mut install = self.program("apt-get");
        install.args(["-q", "-y", "--no-install-recommends", "--download-only"]);
        install.arg("-o").arg(format!("Dir::Cache::Archives={}", dir.display()));
        install.args(["-t", &package.suite, "install"]);
        install.arg(format!("{}={}", package.name, package.full_version));
        self.watched(&format!("{} and its dependencies", package.name), &mut install, dir, None)?;
        let entries = fs::read_dir(dir).map_err(PackageError::read(dir))?;
        let files = entries.flatten().map(|entry| entry.path());
        Ok(files.filter(|path| path.extension().is_some_and(|end| end == "deb")).collect())
    }

    /// Writes the configuration, and fetches the lists of the suites unless they are recent.
    fn update(&self) -> Result<(), PackageError> {
        if self.dir.join(sources_file(&self.suites)).exists() && self.stale().is_empty() {
            return Ok(());
        }
        let _lock = locked(&self.dir)?;
        let mirror = mirror()?;
        for dir in [&format!("{LISTS}/partial"), "cache/archives/partial"] {
            let dir = self.dir.join(dir);
            create(&dir)?;
        }
        self.write(Path::new("status"), "")?;
        self.write(Path::new(CONFIGURATION), &configuration(&self.dir))?;
        self.write(&sources_file(&self.suites), &sources(&mirror, &self.suites))?;
        // Another knee process may have fetched the lists meanwhile.
        let stale = self.stale();
        if stale.is_empty() {
            return Ok(());
        }
        // Fetch only the outdated lists. If the sources named all suites, apt would fetch all lists
        // again.
        let fetched = Apt { suites: stale, ..self.clone() };
        self.write(&sources_file(&fetched.suites), &sources(&mirror, &fetched.suites))?;
        let updated = run_in(&self.dir, fetched.program("apt-get").args(["-q", "update"]));
        // If the mirror no longer has a suite, apt fails but still fetches the lists of the other
        // suites.
        if !self.has_lists() {
            return Err(updated.err().unwrap_or(PackageError::NoLists(mirror)));
        }
        // If the lists of a suite could not be fetched, the suite gets no stamp file, so that the next
        // update tries again.
        let errors = updated.err().map(|error| error.to_string()).unwrap_or_default();
        let failed =
            |suite: &str| errors.lines().any(|line| line.contains(suite) && !line.contains(GONE));
        fetched.suites.iter().filter(|suite| !failed(suite)).try_for_each(|suite| {
            let stamp = self.stamp(suite);
            fs::write(&stamp, "").map_err(PackageError::write(&stamp))
        })
    }

    /// The suites whose lists are missing or older than [`LISTS_AGE`].
    fn stale(&self) -> Vec<&'static str> {
        let is_fresh = |stamp: &Path| {
            modified(stamp).is_some_and(|then| then.elapsed().is_ok_and(|age| age < LISTS_AGE))
        };
        self.suites.iter().copied().filter(|suite| !is_fresh(&self.stamp(suite))).collect()
    }

    /// The file whose modification time says when the lists of a suite were last fetched.
    fn stamp(&self, suite: &str) -> PathBuf {
        self.dir.join(format!("updated.{suite}"))
    }

    /// Whether the lists of at least one suite exist.
    fn has_lists(&self) -> bool {
        let entries = fs::read_dir(self.dir.join(LISTS)).into_iter().flatten().flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| {
            let is = |suite: &&str| name.contains(&format!("_dists_{suite}_"));
            name.contains("_Packages") && self.suites.iter().any(is)
        })
    }

    fn write(&self, name: &Path, content: &str) -> Result<(), PackageError> {
        let path = self.dir.join(name);
        write_atomically(&path, content.as_bytes()).map_err(PackageError::write(&path))
    }

    /// The command for one of apt's programs, with this configuration and the sources of the
    /// suites.
    fn program(&self, name: &str) -> Command {
        let mut command = Command::new(name);
        command.arg("-c").arg(self.dir.join(CONFIGURATION)).arg("-o");
        let sources = self.dir.join(sources_file(&self.suites));
        command.arg(format!("Dir::Etc::SourceList={}", sources.display()));
        command
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    fs::metadata(path).and_then(|file| file.modified()).ok()
}

/// Runs one of apt's programs, which writes below `dir`. Ends it when the file system is full: apt would not end.
fn run_in(dir: &Path, command: &mut Command) -> Result<String, PackageError> {
    let is_full = || filesystem::is_full(dir);
    run_unless(&is_full, command).map_err(|error| match is_full() {
        true => PackageError::write(dir)(io::ErrorKind::StorageFull.into()),
        false => error,
    })
}

fn run(command: &mut Command) -> Result<String, PackageError> {
    run_unless(&|| false, command)
}

fn run_unless(
    is_stuck: &(dyn Fn() -> bool + Sync),
    command: &mut Command,
) -> Result<String, PackageError> {
    // apt's messages are parsed, so they must not be translated.
    command.env("LC_ALL", "C").env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
    // This variable names a configuration file, which can make apt run other programs.
    command.env_remove("APT_CONFIG");
    let printed = output_unless(is_stuck, MOST_OUTPUT, command, APT)?;
    Ok(String::from_utf8_lossy(&printed).into_owned())
}

/// The Debian mirror that the machine's apt uses.
fn mirror() -> Result<String, PackageError> {
    let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    mirror_in(&run(&mut command)?).ok_or(PackageError::NoMirror)
}

/// The first mirror with one of Debian's main suites. The suites of updates and security fixes,
/// whose names contain dashes, are skipped.
fn mirror_in(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [uri, suite, "main"] if DEBIAN.contains(&suite) => Some(uri.to_owned()),
        _ => None,
    })
}

fn sources_file(suites: &[&str]) -> PathBuf {
    format!("{}.list", suites.join("+")).into()
}

/// The content of a sources file. The line of each suite requests only package lists.
fn sources(mirror: &str, suites: &[&str]) -> String {
    let signed = match Path::new(KEYRING).exists() {
        true => format!(" signed-by={KEYRING}"),
        false => String::new(),
    };
    let line = |suite: &&str| format!("deb [targets=Packages{signed}] {mirror} {suite} main\n");
    suites.iter().map(line).collect()
}

/// apt's configuration, which replaces the machine's directories and preferences, but keeps the machine's
/// proxies. The machine's update hooks are disabled, because they concern the machine's own lists. By
/// default, apt drops privileges to a user who cannot write to `dir`, removes the lists of other suites, and
/// only warns about a list that it cannot fetch. The configuration overrides these three defaults.
fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "Dir::Etc::SourceParts \"/dev/null\";\n\
         Dir::Etc::Preferences \"/dev/null\";\n\
         Dir::Etc::PreferencesParts \"/dev/null\";\n\
         Dir::State \"{dir}/state\";\n\
         Dir::State::Lists \"{dir}/{LISTS}\";\n\
         Dir::State::status \"{dir}/status\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         APT::Sandbox::User \"\";\n\
         APT::Architecture \"amd64\";\n\
         #clear APT::Architectures;\n\
         APT::Architectures {{ \"amd64\"; }};\n\
         APT::Get::List-Cleanup \"false\";\n\
         APT::Update::Error-Mode \"any\";\n\
         Acquire::Languages \"none\";\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n"
    )
}

/// What `apt-cache show` says about a package file.
#[derive(Debug, PartialEq, Eq)]
struct Described {
    sha256: String,
    /// In bytes.
    size: Option<u64>,
}

impl Described {
    fn parse(description: &str) -> Option<Described> {
        let field = |name| description.lines().find_map(|line| line.strip_prefix(name));
        let size = field("Size:").and_then(|size| size.trim().parse().ok());
        Some(Described { sha256: field("SHA256:")?.trim().to_owned(), size })
    }
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / 1e6)
}

/// The total size in bytes of the files in a directory and its subdirectories.
fn content_size(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let size = |entry: fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => content_size(&entry.path()),
        Ok(metadata) => metadata.len(),
        Err(_) => 0,
    };
    entries.map(size).sum()
}

/// Parses the output of `apt-cache madison`: `name | version | uri suite/component amd64 Packages`.
fn packages(madison: &str) -> Vec<Package> {
    let package = |line: &str| {
        let [name, version, source] = line.split('|').collect::<Vec<_>>()[..] else { return None };
        let suite = source.split_whitespace().nth(1)?.split('/').next()?;
        Some(Package::new(name.trim(), version.trim(), suite))
    };
    madison.lines().filter_map(package).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_mirror_with_a_main_suite_of_debian_is_used() {
        let targets = "https://repo.example/node/ nodistro main\n\
                       http://mirror.example/debian-security/ bookworm-security main\n\
                       http://mirror.example/debian/ bookworm main\n";
        assert_eq!(mirror_in(targets).as_deref(), Some("http://mirror.example/debian/"));
        assert_eq!(mirror_in("http://mirror.example/ubuntu/ jammy main\n"), None);
    }

    #[test]
    fn a_package_is_named_by_its_suite_or_the_first_numbers_of_its_version() {
        let line = " qemu-system-x86 | 1:10.0.13+ds-0 | http://x trixie/main amd64 Packages";
        let [package] = &packages(line)[..] else { panic!("one package") };
        assert_eq!((&package.version[..], &package.suite[..]), ("10.0.13+ds-0", "trixie"));
        assert_eq!(package.full_version, "1:10.0.13+ds-0");
        for name in ["trixie", "10", "10.0", "10.0.13", "10.0.13+ds-0"] {
            assert!(package.is_named(name), "{name}");
        }
        for name in ["1", "10.0.1", "sid", "0.13"] {
            assert!(!package.is_named(name), "{name}");
        }
    }

    #[test]
    fn the_digest_and_the_size_of_a_package_are_read_from_its_description() {
        let description = "Package: p\nInstalled-Size: 7\nSize: 12\nMD5sum: 0f\nSHA256: 1a2b\n\
                           Description: SHA256 tools\n";
        let described = Described { sha256: "1a2b".to_owned(), size: Some(12) };
        assert_eq!(Described::parse(description), Some(described));
        assert_eq!(Described::parse("Package: p\nMD5sum: 0f\n"), None);
    }

    #[test]
    fn versions_are_compared_number_by_number() {
        let order = |version| Package::new("p", version, "sid").order();
        assert!(order("1:7.2+dfsg-7") < order("1:10.0.2+ds-2~bpo12+1"));
        assert!(order("1:10.0.2+ds-2~bpo12+1") < order("1:10.0.13+ds-0"));
    }
}
