//! Processes: forking and starting them, waiting for them, and finding programs.

mod fork;
mod output;
pub mod program;
mod start;
pub mod suspended;

pub use fork::{exit_now, fork_bound};
pub use output::{last_line, read_available, read_tail};
pub use start::{Ties, exec, output, spawn, status};

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpgid};

use crate::clock::timespec;

/// Waits until `fd` is readable; `false` if that takes longer than `patience`.
pub fn wait_readable(fd: impl AsFd, patience: Duration) -> bool {
    let deadline = Instant::now() + patience;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&timespec(left))) {
            Err(Errno::INTR) => {}
            result => return result.is_ok_and(|ready| ready > 0),
        }
    }
}

/// How the process behind a pidfd has ended. Waits for its end, and does not reap it.
pub fn ended_with(exit: &OwnedFd) -> io::Result<ExitStatus> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::PidFd(exit.as_fd()), look)?;
    let status = status.ok_or_else(|| io::Error::other("it has not ended"))?;
    let code = status.exit_status().map(|code| code << 8);
    Ok(ExitStatus::from_raw(code.or(status.terminating_signal()).unwrap_or(0)))
}

/// Reaps the killed processes of `group` that became children of this process, a subreaper, when
/// their parent died.
pub fn reap_group(group: Pid) {
    while waitpgid(group, WaitOptions::empty()).is_ok_and(|w| w.is_some()) {}
}
