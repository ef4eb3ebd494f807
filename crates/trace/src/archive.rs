//! Kernels of Debian, from the mirror that the machine's own apt uses, without installing them.
//!
//! apt does the work (proxies, signatures, mirrors), with a configuration, lists and cache of its
//! own below the user's cache directory: the machine's own are read to learn the mirror and are not
//! touched, so no privilege is needed. Which suites there are is known here; whether the mirror
//! still has the oldest of them is not, and one that it lacks is left out.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use knee_measure::record::write_atomically;

use crate::kernel::{Kernel, KernelError};

/// Suites with Linux 5.10, 6.1, 6.12 and the newest.
const SUITES: [&str; 4] = ["bullseye", "bookworm", "trixie", "sid"];
/// Names of Debian's suites that may stand in a machine's sources.
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
/// Where Debian's package debian-archive-keyring has the keys of all suites.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";
/// Lists that are older are fetched anew.
const LISTS_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// Written when apt's lists have been fetched.
const UPDATED: &str = "updated";
/// What `apt-cache madison` says of those lists, which takes seconds to ask for.
const ANSWER: &str = "madison";
const PREFIX: &str = "linux-image-";

/// A package with a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Package {
    /// `linux-image-6.1.0-18-cloud-amd64`
    pub name: String,
    /// `6.1.76-1`
    pub version: String,
    /// `bookworm`
    pub suite: String,
}

impl Package {
    /// Images for virtual machines are a quarter of the size, and boot faster.
    fn is_cloud(&self) -> bool {
        self.name.contains("-cloud-")
    }

    /// Whether a user who says `wanted` may mean it: its name, with or without the prefix, its
    /// suite, or the first numbers of its version.
    fn is(&self, wanted: &str) -> bool {
        let starts = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_digit());
        self.name == wanted
            || self.name.strip_prefix(PREFIX) == Some(wanted)
            || self.suite == wanted
            || self.version.strip_prefix(wanted).is_some_and(starts)
    }

    /// Numbers of the version, to tell which of two is newer. Debian's order is more intricate, and
    /// for versions of its kernels the same.
    fn order(&self) -> Vec<u64> {
        let numbers = self.version.split(|c: char| !c.is_ascii_digit());
        numbers.filter_map(|number| number.parse().ok()).collect()
    }
}

/// Kernels that can be fetched, and those that have been.
#[derive(Clone, Debug)]
pub struct Archive {
    dir: PathBuf,
}

impl Archive {
    /// The archive in the user's cache directory, `$XDG_CACHE_HOME/knee/kernels`.
    pub fn of_user() -> Archive {
        let cache = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
        let home = || std::env::home_dir().map(|home| home.join(".cache"));
        let cache = cache.filter(|dir| dir.is_absolute()).or_else(home);
        Archive::at(&cache.unwrap_or_else(std::env::temp_dir).join("knee/kernels"))
    }

    /// The archive in a directory, which is made when it is needed.
    pub fn at(dir: &Path) -> Archive {
        Archive { dir: dir.to_owned() }
    }

    /// Packages with kernels, newest last, suite by suite. Fetches apt's lists if those that are
    /// there are older than a day.
    pub fn list(&self) -> Result<Vec<Package>, KernelError> {
        self.prepare()?;
        let mut packages = packages(&self.madison()?);
        let suite = |package: &Package| SUITES.iter().position(|suite| *suite == package.suite);
        packages.sort_by_key(|package| (suite(package), package.order(), package.name.clone()));
        Ok(packages)
    }

    /// What apt's lists say of packages with kernels.
    fn madison(&self) -> Result<String, KernelError> {
        let answer = self.dir.join(ANSWER);
        let written = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).ok();
        // None is older than any.
        if written(&answer) > written(&self.dir.join(UPDATED))
            && let Ok(known) = fs::read_to_string(&answer)
        {
            return Ok(known);
        }
        let names = self.apt("apt-cache", &["pkgnames", PREFIX])?;
        let names: Vec<&str> = names.lines().filter(|name| has_kernel(name)).collect();
        let said = match names[..] {
            [] => String::new(),
            _ => self.apt("apt-cache", &[&["madison"], &names[..]].concat())?,
        };
        write_atomically(&answer, said.as_bytes())
            .map_err(|source| KernelError::Write { path: answer, source })?;
        Ok(said)
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
        let fit = packages.iter().filter(|package| package.is(wanted));
        let Some(package) = fit.max_by_key(|package| (package.is_cloud(), package.order())) else {
            let known = packages.iter().map(|package| package.name.trim_start_matches(PREFIX));
            let known = known.collect::<Vec<_>>().join(", ");
            return Err(KernelError::Unknown { wanted: wanted.to_owned(), known });
        };
        let file = self.download(&package.name, &package.version)?;
        if let Ok(kernel) = Kernel::open(&file) {
            return Ok((file, kernel));
        }
        // The newest kernels are split: the image is in a package that this one wants, and modules in
        // another, which has to be beside it.
        let file_name = file.display().to_string();
        let wants = self.apt("dpkg-deb", &["--field", &file_name, "Depends"])?;
        let mut image = None;
        for (name, version) in parts(&wants, &package.version) {
            let part = self.download(&name, &version)?;
            if image.is_none() {
                image = Kernel::open(&part).ok().map(|kernel| (part, kernel));
            }
        }
        image.ok_or(KernelError::NoImageInside(file))
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

    fn download(&self, name: &str, version: &str) -> Result<PathBuf, KernelError> {
        // apt writes the colon of an epoch in this way.
        let file_name = format!("{name}_{}_amd64.deb", version.replace(':', "%3a"));
        let file = self.dir.join(file_name);
        if !file.exists() {
            self.apt("apt-get", &["-q", "download", &format!("{name}={version}")])?;
        }
        Ok(file)
    }

    /// Writes apt's configuration and fetches its lists, unless that was done lately.
    fn prepare(&self) -> Result<(), KernelError> {
        let stamp = self.dir.join(UPDATED);
        let age = fs::metadata(&stamp).and_then(|stamp| stamp.modified());
        if age.is_ok_and(|then| then.elapsed().is_ok_and(|age| age < LISTS_AGE)) {
            return Ok(());
        }
        let mirror = mirror()?;
        for dir in ["state/lists/partial", "cache/archives/partial"] {
            let dir = self.dir.join(dir);
            fs::create_dir_all(&dir).map_err(|source| KernelError::Write { path: dir, source })?;
        }
        let signed = match Path::new(KEYRING).exists() {
            true => format!("[signed-by={KEYRING}] "),
            false => String::new(),
        };
        let sources =
            SUITES.iter().map(|suite| format!("deb {signed}{mirror} {suite} main\n")).collect();
        self.write("sources.list", sources)?;
        self.write("status", String::new())?;
        self.write("apt.conf", configuration(&self.dir))?;
        // A suite that the mirror has no more is an error to apt; the others are there nevertheless.
        let updated = self.apt("apt-get", &["-q", "update"]);
        let names = self.apt("apt-cache", &["pkgnames", PREFIX])?;
        match updated {
            Err(error) if names.is_empty() => Err(error),
            _ => self.write(UPDATED, String::new()),
        }
    }

    fn write(&self, name: &str, content: String) -> Result<(), KernelError> {
        let path = self.dir.join(name);
        fs::write(&path, content).map_err(|source| KernelError::Write { path, source })
    }

    /// Runs a program of apt in the archive's directory, with its configuration.
    fn apt(&self, program: &'static str, arguments: &[&str]) -> Result<String, KernelError> {
        let mut command = Command::new(program);
        if program != "dpkg-deb" {
            command.arg("-c").arg(self.dir.join("apt.conf"));
        }
        run(command.args(arguments).current_dir(&self.dir), program)
    }
}

fn run(command: &mut Command, program: &'static str) -> Result<String, KernelError> {
    // Its messages are parsed.
    let output = command.env("LC_ALL", "C").stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => KernelError::NoProgram { program, package: "apt dpkg" },
        _ => KernelError::Failed { program, said: error.to_string() },
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(KernelError::Failed { program, said })
}

/// Where the machine gets Debian from.
fn mirror() -> Result<String, KernelError> {
    let format = "$(REPO_URI) $(RELEASE) $(COMPONENT)";
    let mut command = Command::new("apt-get");
    command.args(["indextargets", "--format", format, "Created-By: Packages"]);
    mirror_in(&run(&mut command, "apt-get")?).ok_or(KernelError::NoMirror)
}

/// The first that has a suite of Debian; updates and security have names with dashes.
fn mirror_in(targets: &str) -> Option<String> {
    targets.lines().find_map(|line| match line.split_whitespace().collect::<Vec<_>>()[..] {
        [uri, suite, "main"] if DEBIAN.contains(&suite) => Some(uri.to_owned()),
        _ => None,
    })
}

/// Takes the place of the machine's directories and keeps its proxies. What the machine does after
/// an update (`Post-Invoke`) is about its own lists and is not done. apt drops privileges to a user
/// who cannot write here, unless told not to.
fn configuration(dir: &Path) -> String {
    let dir = dir.display();
    format!(
        "Dir::Etc::SourceList \"{dir}/sources.list\";\n\
         Dir::Etc::SourceParts \"/dev/null\";\n\
         Dir::State \"{dir}/state\";\n\
         Dir::State::Lists \"{dir}/state/lists\";\n\
         Dir::State::status \"{dir}/status\";\n\
         Dir::Cache \"{dir}/cache\";\n\
         APT::Sandbox::User \"\";\n\
         APT::Architecture \"amd64\";\n\
         #clear APT::Architectures;\n\
         APT::Architectures {{ \"amd64\"; }};\n\
         Acquire::Languages \"none\";\n\
         #clear APT::Update::Pre-Invoke;\n\
         #clear APT::Update::Post-Invoke;\n\
         #clear APT::Update::Post-Invoke-Success;\n"
    )
}

fn has_kernel(name: &str) -> bool {
    let release = name.strip_prefix(PREFIX).unwrap_or_default();
    // Those without a number are names for the newest.
    release.starts_with(|first: char| first.is_ascii_digit()) && release.ends_with("-amd64")
}

/// Reads `apt-cache madison`: `name | version | uri suite/component amd64 Packages`.
fn packages(madison: &str) -> Vec<Package> {
    let package = |line: &str| {
        let [name, version, source] = line.split('|').collect::<Vec<_>>()[..] else { return None };
        let suite = source.split_whitespace().nth(1)?.split('/').next()?;
        let owned = |word: &str| word.trim().to_owned();
        Some(Package { name: owned(name), version: owned(version), suite: owned(suite) })
    };
    madison.lines().filter_map(package).collect()
}

/// Packages of Linux among those that a package wants, with the versions that it wants.
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
    fn the_mirror_is_the_machines_own() {
        let targets = "https://repo.example/node/ nodistro main\n\
                       http://mirror.example/debian-security/ bookworm-security main\n\
                       http://mirror.example/debian/ bookworm main\n";
        assert_eq!(mirror_in(targets).as_deref(), Some("http://mirror.example/debian/"));
        assert_eq!(mirror_in("http://mirror.example/ubuntu/ jammy main\n"), None);
    }

    #[test]
    fn a_kernel_is_meant_by_name_suite_or_version() {
        let line = " linux-image-6.1.0-18-cloud-amd64 |   6.1.76-1 | http://x bookworm/main amd64 Packages";
        let [package] = &packages(line)[..] else { panic!("one package") };
        for name in ["linux-image-6.1.0-18-cloud-amd64", "6.1.0-18-cloud-amd64", "bookworm", "6.1"]
        {
            assert!(package.is(name), "{name}");
        }
        for name in ["6.12", "6", "trixie", "6.1.7"] {
            assert_eq!(package.is(name), name == "6", "{name}");
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
