//! Whether the machine offers what a testcase needs, asked before it is run: a testcase that
//! cannot work here is reported with what to do, and the others run.

use std::fs::{self, OpenOptions};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::process::{Resource, getrlimit};

use crate::job::{Failure, FailureKind};
use crate::machine::cgroup::memory_available;
use crate::machine::{filesystem, program};
use crate::testcase::{Mode, Need};

/// Where Linux systems have a tmpfs.
pub const TMPFS: &str = "/dev/shm";

/// Descriptors of the runner itself, and those that its tasks inherit.
const OPEN_FILES_OF_RUNNER: u64 = 64;

/// The situation in which a testcase would run.
pub struct Context<'a> {
    /// Where its files would be.
    pub dir: &'a Path,
    /// Processes or threads.
    pub mode: Mode,
    /// How many tasks.
    pub tasks: u32,
}

/// Whether `need` is met; if not, what is missing and what to do.
pub fn check(need: Need, context: &Context<'_>) -> Result<(), Failure> {
    let tasks = u64::from(context.tasks);
    match need {
        Need::Tmpfs => ensure(
            filesystem::kind(Path::new(TMPFS)).as_deref() == Some("tmpfs"),
            || format!("there is no tmpfs at {TMPFS}"),
            &format!("mount one: mount -t tmpfs tmpfs {TMPFS}"),
        ),
        Need::DirectIo => ensure(
            takes_direct_io(context.dir),
            || format!("the file system of {} takes no O_DIRECT", context.dir.display()),
            "choose a directory on a disk with --dir",
        ),
        Need::CCompiler => ensure(
            program::find("cc").is_some(),
            || "there is no C compiler called cc".to_owned(),
            "apt-get install gcc libc6-dev",
        ),
        Need::HugePages => {
            let setting = fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled");
            ensure(
                setting.is_ok_and(|s| !s.contains("[never]")),
                || "transparent huge pages are switched off".to_owned(),
                "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
            )
        }
        Need::Loopback => ensure(
            TcpListener::bind("127.0.0.1:0").is_ok(),
            || "the loopback interface is down".to_owned(),
            "ip link set lo up",
        ),
        Need::Memory(each) => {
            let available = memory_available().unwrap_or(u64::MAX);
            ensure(
                each * tasks <= available,
                || {
                    let mib = |bytes: u64| bytes >> 20;
                    let needed = mib(each * tasks);
                    format!("it needs {needed} MiB of memory, {} are available", mib(available))
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
                || format!("it needs {files} open files in a process, {limit} are allowed"),
                "raise the limit: ulimit -Hn 1048576 (as root), or use fewer tasks (-t)",
            )
        }
    }
}

fn ensure(met: bool, reason: impl FnOnce() -> String, remedy: &str) -> Result<(), Failure> {
    if met { Ok(()) } else { Err(Failure::new(FailureKind::CannotRun, reason(), remedy)) }
}

fn takes_direct_io(dir: &Path) -> bool {
    let Ok(file) = tempfile::NamedTempFile::new_in(dir) else { return false };
    OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(file.path()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_machine_has_is_reported_with_numbers() {
        let context = Context { dir: Path::new("/"), mode: Mode::Threads, tasks: 1 << 20 };
        let failure = check(Need::Memory(1 << 40), &context).unwrap_err();
        assert!(failure.reason.contains("MiB"), "{failure:?}");
        let failure = check(Need::OpenFiles(1 << 20), &context).unwrap_err();
        assert!(failure.reason.contains("open files"), "{failure:?}");
        assert_eq!(failure.kind, FailureKind::CannotRun);
    }
}
