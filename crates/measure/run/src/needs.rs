//! Checks before a run whether the machine provides what a testcase needs. A testcase that cannot
//! run here is reported with advice, and the others run.

use std::fmt::Display;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use knee_host::cgroup::memory_available;
use knee_host::filesystem;
use knee_host::fixed::NotFixed;
use knee_host::process::program;
use knee_host::regular_file::FileError;
use knee_results::Mode;
use rustix::process::{Resource, getrlimit};

use crate::job::{Failure, FailureKind};
use crate::testcase::Need;

/// Where Linux systems have a tmpfs.
pub const TMPFS: &str = "/dev/shm";

/// How long a connection over the loopback interface may take.
const LOOPBACK_PATIENCE: Duration = Duration::from_secs(1);

/// Size of the largest file that a task creates.
const LARGEST_FILE: u64 = 128 << 20;

/// Descriptors of the runner itself, including those that its tasks inherit.
const OPEN_FILES_OF_RUNNER: u64 = 64;

/// The conditions under which a testcase would run.
pub struct Context<'a> {
    /// The directory for its files.
    pub dir: &'a Path,
    /// Processes or threads.
    pub mode: Mode,
    /// Task count.
    pub tasks: u32,
}

/// Checks whether `need` is met; if not, returns what is missing and what to do.
pub fn check(need: Need, context: &Context<'_>) -> Result<(), Failure> {
    let tasks = u64::from(context.tasks);
    match need {
        Need::Tmpfs => {
            let dir = Path::new(TMPFS);
            ensure(
                filesystem::kind(dir).as_deref() == Some("tmpfs"),
                || format!("{TMPFS} is not a tmpfs"),
                &format!("mount one: mount -t tmpfs tmpfs {TMPFS}"),
            )?;
            tempfile::tempfile_in(dir).map(drop).map_err(|error| unusable_dir(dir, &error))
        }
        Need::DirectIo => ensure(
            takes_direct_io(context.dir).map_err(|error| unusable_dir(context.dir, &error))?,
            || format!("the file system of {} does not support O_DIRECT", context.dir.display()),
            "choose a directory on a disk with --dir",
        ),
        Need::CCompiler => ensure(
            program::find("cc").is_some(),
            || "there is no C compiler named cc".to_owned(),
            "apt-get install gcc libc6-dev",
        ),
        Need::HugePages => {
            let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            ensure(
                setting.is_ok_and(|s| !s.contains("[never]")),
                || "transparent huge pages are disabled".to_owned(),
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            )
        }
        Need::Loopback => ensure(
            // An address can be bound while the interface is down.
            TcpListener::bind("127.0.0.1:0")
                .and_then(|listener| {
                    TcpStream::connect_timeout(&listener.local_addr()?, LOOPBACK_PATIENCE)
                })
                .is_ok(),
            || "the loopback interface is down".to_owned(),
            "ip link set lo up",
        ),
        Need::Exchange128 => ensure(
            exchanges_128_bits(),
            || "this CPU has no 128-bit compare-exchange".to_owned(),
            "use a machine with such a CPU",
        ),
        Need::Threads => ensure(
            context.mode == Mode::Threads,
            || "its tasks share an object within one process, so they must be threads".to_owned(),
            "measure it as threads (-m threads)",
        ),
        Need::Memory(each) => {
            let available = memory_available().unwrap_or(u64::MAX);
            ensure(
                each * tasks <= available,
                || {
                    let mib = |bytes: u64| bytes >> 20;
                    let needed = mib(each * tasks);
                    format!(
                        "it needs {needed} MiB of memory, but only {} MiB are available",
                        mib(available)
                    )
                },
                "use fewer tasks (-t)",
            )
        }
        Need::OpenFiles(each) => {
            let files = match context.mode {
                Mode::Processes => each,
                Mode::Threads => each * tasks,
            } + OPEN_FILES_OF_RUNNER;
            let limit = getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX);
            ensure(
                files <= limit,
                || format!("it needs {files} open files in a process, but the limit is {limit}"),
                "raise the limit: ulimit -Hn 1048576 (as root), or use fewer tasks (-t)",
            )
        }
    }
}

fn exchanges_128_bits() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("cmpxchg16b");
    // All other 64-bit architectures that knee supports have it.
    #[cfg(not(target_arch = "x86_64"))]
    return cfg!(target_pointer_width = "64");
}

fn ensure(met: bool, reason: impl FnOnce() -> String, remedy: &str) -> Result<(), Failure> {
    if met { Ok(()) } else { Err(Failure::new(FailureKind::CannotRun, reason(), remedy)) }
}

fn takes_direct_io(dir: &Path) -> io::Result<bool> {
    let file = tempfile::NamedTempFile::new_in(dir)?;
    Ok(OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file.path()).is_ok())
}

/// The failure of a testcase that cannot create its files in `dir`.
///
/// The reason contains only the kind of an error of the system, because the text may contain the random name of
/// a file, and knee groups failures by their reason. knee's own errors contain no such name, and say what to do.
pub(crate) fn unusable_dir(dir: &Path, error: &io::Error) -> Failure {
    let on_tmpfs = dir == Path::new(TMPFS);
    let failed = |reason: &dyn Display, remedy: String| {
        let reason = format!("cannot create files in {}: {reason}", dir.display());
        Failure::new(FailureKind::CannotRun, reason, remedy)
    };
    // Another user could replace the directory.
    let is_unsafe = error.get_ref().is_some_and(|own| {
        own.downcast_ref::<NotFixed>().is_some_and(|own| !matches!(own.error, FileError::System(_)))
    });
    if is_unsafe || error.kind() == io::ErrorKind::Other {
        let remedy =
            if on_tmpfs { "chmod 1777 /dev/shm" } else { "choose another directory with --dir" };
        return failed(error, remedy.to_owned());
    }
    let remedy = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "free space there",
        io::ErrorKind::ReadOnlyFilesystem if on_tmpfs => "mount -o remount,rw /dev/shm",
        io::ErrorKind::ReadOnlyFilesystem => "remount it writable",
        _ if on_tmpfs => "chmod 1777 /dev/shm",
        _ => "make the directory writable",
    };
    let elsewhere = if on_tmpfs { "" } else { ", or choose another with --dir" };
    failed(&error.kind(), format!("{remedy}{elsewhere}"))
}

/// The failure of one of `tasks` tasks, or of a server, in the work directory `dir` of a round. A full file system kills
/// a task that writes to mapped memory, cuts off writes, and ends servers. If there is too little room for the files
/// of all tasks, the reason says so. The file of the dead task no longer takes any. The limit of file sizes (`ulimit -f`)
/// also kills.
pub(crate) fn blaming_full_disk(failure: Failure, dir: &Path, tasks: u32) -> Failure {
    let is_cut = ["short ", "SIGBUS"].iter().any(|sign| failure.reason.contains(sign));
    if failure.kind != FailureKind::Died {
        return failure;
    }
    if failure.reason.contains("SIGXFSZ") {
        let reason = format!("{}: a file would be larger than the limit", failure.reason);
        return Failure::new(
            FailureKind::CannotRun,
            reason,
            "raise the limit: ulimit -f unlimited",
        );
    }
    let is_full = filesystem::is_full(dir);
    if !is_cut && !is_full {
        return failure;
    }
    match filesystem::bytes_free(dir) {
        Some(free) if is_full || free < LARGEST_FILE * u64::from(tasks) => {
            // The directory that the user chose contains that of knee, which contains that of the round.
            let chosen = dir.ancestors().nth(2).unwrap_or(dir);
            let cause = unusable_dir(chosen, &io::ErrorKind::StorageFull.into());
            let reason = format!(
                "{}: the file system of {} is full (at most {} MiB)",
                failure.reason,
                chosen.display(),
                free >> 20
            );
            Failure { reason, ..cause }
        }
        _ => failure,
    }
}

#[cfg(test)]
mod tests {
    use knee_host::skip::skip;

    use super::*;

    #[test]
    fn a_directory_without_write_permission_is_reported_as_such() {
        let context = Context { dir: Path::new("/proc"), mode: Mode::Threads, tasks: 1 };
        let failure = check(Need::DirectIo, &context).unwrap_err();
        assert!(failure.reason.contains("cannot create files in /proc"), "{failure:?}");
        assert!(failure.remedy.contains("--dir"), "{failure:?}");
    }

    #[test]
    fn the_error_for_a_full_or_read_only_directory_says_how_to_fix_it() {
        let remedy = |dir: &str, kind: io::ErrorKind| {
            let failure = unusable_dir(Path::new(dir), &kind.into());
            assert_eq!(failure.kind, FailureKind::CannotRun);
            failure.remedy
        };
        assert_eq!(
            remedy(TMPFS, io::ErrorKind::ReadOnlyFilesystem),
            "mount -o remount,rw /dev/shm"
        );
        assert_eq!(
            remedy("/scratch", io::ErrorKind::StorageFull),
            "free space there, or choose another with --dir"
        );
    }

    #[test]
    fn a_task_that_the_limit_of_file_sizes_kills_is_explained() {
        let reason = "task 0 was killed by SIGXFSZ".to_owned();
        let died = Failure { kind: FailureKind::Died, reason, remedy: String::new() };
        let failure = blaming_full_disk(died, Path::new("/"), 1);
        assert_eq!(failure.kind, FailureKind::CannotRun);
        assert!(failure.remedy.contains("ulimit -f"), "{failure:?}");
    }

    #[test]
    fn an_error_of_knee_itself_keeps_its_reason() {
        let error = io::Error::other("other users can change /scratch");
        let failure = unusable_dir(Path::new("/scratch/d"), &error);
        assert_eq!(
            failure.reason,
            "cannot create files in /scratch/d: other users can change /scratch"
        );
        assert_eq!(failure.remedy, "choose another directory with --dir");
        let shared = NotFixed { dir: "/scratch".into(), error: FileError::Shared };
        let failure = unusable_dir(Path::new("/scratch/d"), &shared.into());
        assert!(failure.reason.contains("other users can change /scratch: "), "{failure:?}");
    }

    #[test]
    fn only_a_task_that_a_full_disk_can_kill_is_blamed_on_one() {
        let died = |reason: &str| Failure::new(FailureKind::Died, reason, "look");
        for reason in ["task 0 was killed by SIGSEGV", "task 0 was killed by SIGBUS"] {
            // There is room in the root directory.
            assert_eq!(blaming_full_disk(died(reason), Path::new("/"), 1), died(reason));
        }
        // Nothing fits into /proc.
        let full = |reason: &str| blaming_full_disk(died(reason), Path::new("/proc/1/fd"), 1);
        let failure = full("task 0 was killed by SIGBUS");
        assert_eq!(failure.kind, FailureKind::CannotRun);
        assert!(failure.reason.contains("SIGBUS: the file system of /proc is full"), "{failure:?}");
        assert!(full("task 0: short pwrite: 1 of 2 bytes").reason.contains("is full"));
        assert_eq!(full("task 0 was killed by SIGSEGV"), died("task 0 was killed by SIGSEGV"));
    }

    /// A new network namespace has a loopback interface, which is down.
    #[test]
    fn a_loopback_interface_that_is_down_is_reported() {
        let context = Context { dir: Path::new("/"), mode: Mode::Threads, tasks: 1 };
        let found = std::thread::scope(|scope| {
            let in_namespace = || {
                // SAFETY: only the network of this thread changes, and it ends with the closure.
                let is_new = unsafe { libc::unshare(libc::CLONE_NEWNET) } == 0;
                is_new.then(|| check(Need::Loopback, &context))
            };
            scope.spawn(in_namespace).join().unwrap()
        });
        match found {
            None => skip("root", "only root can create a network namespace"),
            Some(found) => assert_eq!(found.unwrap_err().remedy, "ip link set lo up"),
        }
    }

    #[test]
    fn processes_that_would_share_nothing_are_refused() {
        let check = |mode| check(Need::Threads, &Context { dir: Path::new("/"), mode, tasks: 2 });
        assert_eq!(check(Mode::Threads), Ok(()));
        let failure = check(Mode::Processes).unwrap_err();
        assert_eq!(failure.kind, FailureKind::CannotRun);
        assert!(failure.remedy.contains("-m threads"), "{failure:?}");
    }

    #[test]
    fn an_unmet_requirement_is_reported_with_numbers() {
        let context = Context { dir: Path::new("/"), mode: Mode::Threads, tasks: 1 << 20 };
        let failure = check(Need::Memory(1 << 40), &context).unwrap_err();
        assert!(failure.reason.contains("MiB"), "{failure:?}");
        let failure = check(Need::OpenFiles(1 << 20), &context).unwrap_err();
        assert!(failure.reason.contains("open files"), "{failure:?}");
        assert_eq!(failure.kind, FailureKind::CannotRun);
    }
}
