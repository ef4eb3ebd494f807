//! `knee kernel fetch`: what is in the cache is what apt's signed index describes. A script stands in for apt,
//! so that the tests need no network and can interrupt a download at any byte.

mod support;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::PathBuf;
use std::process::Command;

use knee_host::process::Tied;
use knee_trace::Kernel;
use support::{Finished, Scratch, finish, skip, start, start_telling, wait_until};

const NAME: &str = "linux-image-6.1.0-50-cloud-amd64";
const VERSION: &str = "6.1.176-1";

const APT_GET: &str = r#"#!/bin/sh
file=linux-image-6.1.0-50-cloud-amd64_6.1.176-1_amd64.deb
case "$*" in
*indextargets*) echo "http://mirror.example/debian/ bookworm main" ;;
*" update") : > "$XDG_CACHE_HOME/knee/apt/state/lists/mirror_dists_bookworm_main_Packages" ;;
*" download "*)
    echo download >> "$FAKE/log"
    case $(cat "$FAKE/mode") in
    whole) cp "$FAKE/package" $file ;;
    killed) head -c 1000 "$FAKE/package" > $file; kill -9 $PPID ;;
    changed) echo changed > $file ;;
    refused) echo "E: no network" >&2; exit 100 ;;
    slow)
        head -c 3000000 /dev/zero > $file
        until [ -e "$FAKE/seen" ]; do sleep 0.1; done
        cp "$FAKE/package" $file ;;
    endless) head -c 1000 "$FAKE/package" > $file; echo $$ > "$FAKE/pid"; exec sleep 3600 ;;
    esac ;;
esac
"#;

const APT_CACHE: &str = r#"#!/bin/sh
name=linux-image-6.1.0-50-cloud-amd64
case "$*" in
*" pkgnames "*) echo $name ;;
*" madison "*) echo "$name | 6.1.176-1 | http://mirror.example/debian bookworm/main amd64 Packages" ;;
*" show $name=6.1.176-1") echo "Size: 4000000" && echo "SHA256: $(sha256sum "$FAKE/package" | cut -d ' ' -f 1)" ;;
esac
"#;

/// A mirror with one kernel, and a cache for it.
struct Mirror {
    scratch: Scratch,
    package: Vec<u8>,
}

impl Mirror {
    /// `None`, with a printed reason, where packages cannot be built.
    fn new() -> Option<Mirror> {
        let scratch = Scratch::new();
        let path = |name: &str| scratch.path().join(name);
        fs::create_dir_all(path("tree/DEBIAN")).unwrap();
        fs::create_dir_all(path("tree/boot")).unwrap();
        fs::create_dir(path("bin")).unwrap();
        let control = format!(
            "Package: {NAME}\nVersion: {VERSION}\nArchitecture: amd64\nMaintainer: Nobody <n@example>\n\
             Description: a kernel\n"
        );
        fs::write(path("tree/DEBIAN/control"), control).unwrap();
        fs::write(path("tree/boot/vmlinuz-6.1.0-50-cloud-amd64"), image()).unwrap();
        let mut build = Command::new("dpkg-deb");
        build.args(["--root-owner-group", "--build"]).args([path("tree"), path("package")]);
        if let Err(error) = build.output() {
            skip("dpkg", format_args!("dpkg-deb cannot be run: {error}"));
            return None;
        }
        for (name, script) in [("apt-get", APT_GET), ("apt-cache", APT_CACHE)] {
            let file = path("bin").join(name);
            fs::write(&file, script).unwrap();
            fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
        }
        let package = fs::read(path("package")).unwrap();
        Some(Mirror { scratch, package })
    }

    /// `knee kernel fetch` with apt in one of its modes.
    fn command(&self, mode: &str) -> Command {
        fs::write(self.scratch.path().join("mode"), mode).unwrap();
        let own = self.scratch.path().join("bin");
        let path = std::env::var_os("PATH").unwrap();
        let path = std::env::join_paths([own].into_iter().chain(std::env::split_paths(&path)));
        let mut knee = self.scratch.knee(&["kernel", "fetch", "bookworm"]);
        knee.env("PATH", path.unwrap()).env("FAKE", self.scratch.path());
        knee.env("XDG_CACHE_HOME", self.scratch.path().join("cache"));
        knee
    }

    fn fetch(&self, mode: &str) -> Finished {
        finish(&mut self.command(mode))
    }

    fn file(&self) -> PathBuf {
        let name = format!("{NAME}_{VERSION}_amd64.deb");
        self.scratch.path().join("cache/knee/kernels").join(name)
    }

    fn downloads(&self) -> usize {
        let log = fs::read_to_string(self.scratch.path().join("log"));
        log.unwrap_or_default().lines().count()
    }

    /// That the cache contains the whole kernel and its digest, and nothing else.
    #[track_caller]
    fn assert_whole(&self, fetched: &Finished) {
        fetched.assert_code(0);
        let file = self.file();
        assert_eq!(fetched.stdout, format!("{}\n", file.display()));
        assert!(fs::read(&file).unwrap() == self.package, "the package is not whole");
        let mut sums = Command::new("sha256sum");
        sums.arg("-c").arg(file.with_extension("deb.sha256")).current_dir(file.parent().unwrap());
        finish(&mut sums).assert_code(0);
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 2);
    }
}

/// The smallest file that counts as a kernel image, followed by bytes that do not compress.
fn image() -> Vec<u8> {
    let mut image = vec![0; 0x400];
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x20e..0x210].copy_from_slice(&0x100_u16.to_le_bytes());
    image[0x300..0x31a].copy_from_slice(b"6.1.0-50-cloud-amd64 (x) \0");
    let mut random = oorandom::Rand32::new(1);
    image.extend((0..10_000).map(|_| random.rand_u32() as u8));
    image
}

#[test]
fn a_download_during_which_knee_is_killed_is_not_used() {
    let Some(mirror) = Mirror::new() else { return };
    assert_eq!(mirror.fetch("killed").code, None);
    assert!(!mirror.file().exists());
    mirror.assert_whole(&mirror.fetch("whole"));
    mirror.assert_whole(&mirror.fetch("refused"));
    assert_eq!(mirror.downloads(), 2);
}

#[test]
fn a_damaged_file_is_fetched_again() {
    let Some(mirror) = Mirror::new() else { return };
    mirror.assert_whole(&mirror.fetch("whole"));
    let cut = &mirror.package[..mirror.package.len() * 9 / 10];
    fs::write(mirror.file(), cut).unwrap();
    let error = Kernel::open(&mirror.file()).map(drop).unwrap_err().to_string();
    assert!(error.contains("does not have the SHA-256"), "{error}");
    let fetched = mirror.fetch("whole");
    fetched.assert_stderr_has("amd64.deb does not have the SHA-256 of apt's index; fetching it");
    mirror.assert_whole(&fetched);
    assert_eq!(Kernel::open(&mirror.file()).unwrap().release(), "6.1.0-50-cloud-amd64");
    assert_eq!(mirror.downloads(), 2);
}

#[test]
fn a_file_of_an_older_knee_is_checked_against_the_index() {
    let Some(mirror) = Mirror::new() else { return };
    fs::create_dir_all(mirror.file().parent().unwrap()).unwrap();
    fs::write(mirror.file(), &mirror.package).unwrap();
    mirror.assert_whole(&mirror.fetch("refused"));
    assert_eq!(mirror.downloads(), 0);

    fs::remove_file(mirror.file().with_extension("deb.sha256")).unwrap();
    fs::write(mirror.file(), &mirror.package[..2000]).unwrap();
    mirror.assert_whole(&mirror.fetch("whole"));
    assert_eq!(mirror.downloads(), 1);
}

#[test]
fn a_package_that_the_index_does_not_describe_is_refused() {
    let Some(mirror) = Mirror::new() else { return };
    for (mode, reason) in [
        ("changed", "does not have the SHA-256 of apt's signed index"),
        ("refused", "E: no network"),
    ] {
        let fetched = mirror.fetch(mode);
        fetched.assert_code(3).assert_stderr_has(&format!("cannot fetch {NAME}_{VERSION}_amd64"));
        fetched.assert_stderr_has(reason).assert_stderr_has("then repeat the command");
        assert_eq!(fs::read_dir(mirror.file().parent().unwrap()).unwrap().count(), 0);
    }
}

#[test]
fn two_knees_fetch_a_kernel_once() {
    let Some(mirror) = Mirror::new() else { return };
    let mut children = [(); 2].map(|()| start(&mut mirror.command("whole")));
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    assert_eq!(mirror.downloads(), 1);
    mirror.assert_whole(&mirror.fetch("refused"));
}

#[test]
fn apt_ends_with_knee() {
    let Some(mirror) = Mirror::new() else { return };
    let mut knee = Tied(start(&mut mirror.command("endless")));
    let pid = || fs::read_to_string(mirror.scratch.path().join("pid")).unwrap_or_default();
    wait_until("apt-get downloads", || pid().ends_with('\n'));
    knee.0.kill().unwrap();
    knee.0.wait().unwrap();
    // A process that has ended has no command line, whether it has been reaped or not.
    let command = || fs::read(format!("/proc/{}/cmdline", pid().trim())).unwrap_or_default();
    wait_until("apt-get has ended", || command().is_empty());
}

#[test]
fn a_cache_that_another_user_can_change_is_refused() {
    let Some(mirror) = Mirror::new() else { return };
    mirror.assert_whole(&mirror.fetch("whole"));
    let apt = mirror.scratch.path().join("cache/knee/apt");
    fs::set_permissions(&apt, Permissions::from_mode(0o777)).unwrap();
    let refused = mirror.fetch("whole");
    refused.assert_code(3).assert_stderr_has("knee/apt: other users can write to it");
    refused.assert_stderr_has("set XDG_CACHE_HOME to a new directory of your own");
    fs::set_permissions(&apt, Permissions::from_mode(0o700)).unwrap();
    if !rustix::process::geteuid().is_root() {
        return skip("root", "only root can give a directory to another user");
    }
    chown(&apt, Some(65534), None).unwrap();
    mirror.fetch("whole").assert_code(3).assert_stderr_has("it belongs to user 65534");
}

#[test]
fn a_download_that_takes_longer_reports_its_progress() {
    let Some(mirror) = Mirror::new() else { return };
    let stderr = mirror.scratch.path().join("stderr");
    let told = fs::File::create(&stderr).unwrap();
    let mut knee = Tied(start_telling(&mut mirror.command("slow"), told.into()));
    let progress = format!("knee: fetching {NAME}: 3.0 of 4.0 MB\n");
    wait_until("knee reports its progress", || {
        fs::read_to_string(&stderr).unwrap().contains(&progress)
    });
    fs::write(mirror.scratch.path().join("seen"), "").unwrap();
    wait_until("knee has fetched the kernel", || knee.0.try_wait().unwrap().is_some());
    assert!(mirror.file().exists());
}
