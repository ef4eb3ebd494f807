//! Starts knee under limits, and measures what it used.

use std::fs::{self, File};
use std::io::{self, Read};
use std::mem;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::Context;
use knee_host::process::{Ties, spawn, wait_readable};
use rustix::process::{
    Pid, PidfdFlags, Resource, Rlimit, Signal, getrlimit, kill_process_group, pidfd_open, prlimit,
    setrlimit,
};

/// Seconds of CPU time after which the kernel ends knee.
pub(crate) const MOST_CPU: u64 = 5;
/// Time after which a run counts as hung. It is generous, because other work slows knee down.
const MOST_TIME: Duration = Duration::from_secs(60);
/// Address space: [`MOST_MEMORY`](crate::fault::MOST_MEMORY), and room for the program itself.
const MOST_ADDRESSES: u64 = 3 << 29;
/// Size of a file that knee writes, so that endless output does not fill the memory.
const MOST_OUTPUT: u64 = 256 << 20;
/// How much of the error output to keep.
const MOST_ERRORS: u64 = 64 << 10;

/// How a run of knee ended, and what it used.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    pub(crate) status: ExitStatus,
    /// Whether it had not ended after [`MOST_TIME`].
    pub(crate) is_hung: bool,
    /// User and system time, with those of its children.
    pub(crate) cpu: Duration,
    /// Largest resident set in bytes. It is at least that of this program, whose memory the child shares
    /// until it executes knee.
    pub(crate) memory: u64,
    /// The start of what it wrote to standard error.
    pub(crate) errors: String,
}

/// Limits this process, and all processes that it starts later. A limit that a child sets itself before it
/// executes knee would require a copy of this process, which takes as long as a run.
pub(crate) fn limit_children() -> io::Result<()> {
    limit(None, Resource::As, MOST_ADDRESSES)?;
    limit(None, Resource::Fsize, MOST_OUTPUT)?;
    limit(None, Resource::Core, 0)
}

/// Sets the soft limit.
fn limit(process: Option<Pid>, resource: Resource, limit: u64) -> io::Result<()> {
    let limit = Rlimit { current: Some(limit), ..getrlimit(resource) };
    match process {
        None => setrlimit(resource, limit)?,
        process => {
            prlimit(process, resource, limit)?;
        }
    }
    Ok(())
}

/// Runs a program to its end, with its error output in the file `errors`. `most_cpu` is its limit in seconds
/// of CPU time.
pub(crate) fn run(command: &mut Command, errors: &Path, most_cpu: u64) -> anyhow::Result<Ended> {
    command.stderr(File::create(errors).with_context(|| errors.display().to_string())?);
    // Ctrl-C reaches only this program.
    let child = spawn(command.process_group(0), Ties::default())
        .with_context(|| format!("cannot start {}", command.get_program().display()))?;
    let pid = Pid::from_child(&child);
    // The program may have ended already, but its number stays taken until it is reaped.
    limit(Some(pid), Resource::Cpu, most_cpu)?;
    let is_hung = !wait_readable(pidfd_open(pid, PidfdFlags::empty())?, MOST_TIME);
    if is_hung {
        kill_process_group(pid, Signal::KILL)?;
    }
    let (status, usage) = reap(pid)?;
    let time = |time: libc::timeval| Duration::new(time.tv_sec as u64, 1000 * time.tv_usec as u32);
    Ok(Ended {
        status,
        is_hung,
        cpu: time(usage.ru_utime) + time(usage.ru_stime),
        memory: 1024 * usage.ru_maxrss as u64,
        errors: start(errors)?,
    })
}

/// Waits for the end of a child. `std` does not return what the child used.
fn reap(pid: Pid) -> io::Result<(ExitStatus, libc::rusage)> {
    let pid = pid.as_raw_nonzero().get();
    let mut status = 0;
    // SAFETY: `rusage` is plain data, so zeroes are valid.
    let mut usage: libc::rusage = unsafe { mem::zeroed() };
    // SAFETY: both pointers are valid for the duration of the call.
    if unsafe { libc::wait4(pid, &mut status, 0, &mut usage) } != pid {
        return Err(io::Error::last_os_error());
    }
    Ok((ExitStatus::from_raw(status), usage))
}

/// The start of a file, as text.
fn start(file: &Path) -> io::Result<String> {
    if fs::metadata(file)?.len() == 0 {
        return Ok(String::new());
    }
    let mut start = Vec::new();
    File::open(file)?.take(MOST_ERRORS).read_to_end(&mut start)?;
    Ok(String::from_utf8_lossy(&start).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, most_cpu: u64) -> Ended {
        let dir = tempfile::tempdir().unwrap();
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).current_dir(dir.path());
        run(&mut command, &dir.path().join("errors"), most_cpu).unwrap()
    }

    #[test]
    fn a_run_reports_status_errors_and_usage() {
        let ended = shell("echo wrong >&2; exit 3", MOST_CPU);
        assert_eq!((ended.status.code(), ended.errors.as_str()), (Some(3), "wrong\n"));
        assert!(!ended.is_hung && ended.memory > 0, "{ended:?}");
        assert_eq!(shell("kill -ABRT $$", MOST_CPU).status.signal(), Some(libc::SIGABRT));
    }

    #[test]
    fn the_kernel_ends_a_program_that_uses_too_much_cpu_time() {
        let ended = shell("while :; do :; done", 1);
        assert_eq!(ended.status.signal(), Some(libc::SIGXCPU), "{ended:?}");
    }
}
