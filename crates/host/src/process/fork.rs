//! Forking children that cannot outlive their parent.

use std::io;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

/// Exit status of a child whose parent was gone before the child began.
const EXIT_ORPHAN: i32 = 1;

/// Has the kernel kill the calling process when the thread of `parent` that forked it ends. Makes
/// system calls only, as a child between fork and exec must.
///
/// # Errors
/// `CHILD` if `parent` is gone already.
pub(super) fn die_with(parent: Pid) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    // The parent may have died before the signal was set.
    if getppid() == Some(parent) { Ok(()) } else { Err(Errno::CHILD.into()) }
}

/// Forks a child that the kernel kills when the calling thread dies; `None` in the child.
///
/// # Errors
/// Those of `fork(2)`.
///
/// # Safety
/// The calling process has one thread, or the child does nothing but what a signal handler may.
pub unsafe fn fork_bound() -> io::Result<Option<Pid>> {
    let parent = getpid();
    // SAFETY: the caller's promise is that of fork.
    let pid = unsafe { libc::fork() };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    if pid == 0 && die_with(parent).is_err() {
        exit_now(EXIT_ORPHAN);
    }
    Ok(Pid::from_raw(pid))
}

/// Ends the calling process without running exit handlers, which belong to its parent.
pub fn exit_now(status: i32) -> ! {
    // SAFETY: _exit runs no handlers and does not return; open files are the kernel's to close.
    unsafe { libc::_exit(status) }
}
