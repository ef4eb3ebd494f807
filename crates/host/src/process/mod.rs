//! Processes: forking and starting them, waiting for them, and finding programs.

mod cpu_clock;
mod descendants;
mod fork;
pub mod keeper;
mod output;
pub mod program;
mod running;
mod start;
mod stat;

pub use cpu_clock::CpuClock;
pub use descendants::{end_descendants, family, with_descendants};
pub use fork::{exit_now, fork_bound};
pub use output::{last_line, read_available, read_tail};
pub use running::running_programs;
pub use start::{Tied, Ties, output, spawn, status};
pub use stat::{Stat, numbers, processes};

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, WaitOptions, waitid, waitpgid};

use crate::clock::timespec;

/// Waits until one of `fds` can be read or is closed by its other end, at most `until`. Returns
/// which of them are; none if the time is over.
///
/// # Errors
/// The kernel cannot watch them.
pub fn readable<const N: usize>(
    fds: [Option<BorrowedFd<'_>>; N],
    until: Option<Instant>,
) -> io::Result<[bool; N]> {
    let ready = any_readable(&fds, until)?;
    Ok(std::array::from_fn(|nr| ready[nr]))
}

/// Like [`readable`], for a number of descriptors that is known only at run time.
///
/// # Errors
/// The kernel cannot watch them.
pub fn any_readable(
    fds: &[Option<BorrowedFd<'_>>],
    until: Option<Instant>,
) -> io::Result<Vec<bool>> {
    let mut polled: Vec<PollFd<'_>> =
        (fds.iter().flatten()).map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now())));
        match poll(&mut polled, left.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => break,
        }
    }
    let mut ready = polled.iter().map(|fd| !fd.revents().is_empty());
    Ok(fds.iter().map(|fd| fd.is_some() && ready.next() == Some(true)).collect())
}

/// Waits until a descriptor can be read or is closed by its other end, at most for `patience`.
/// Returns whether it is.
pub fn wait_readable(fd: impl AsFd, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    readable([Some(fd.as_fd())], Some(until)).is_ok_and(|[is_ready]| is_ready)
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
