//! Forking children that cannot outlive their parent.

use rustix::process::{Pid, Signal, getpid, getppid, set_parent_process_death_signal};

use crate::call::{TaskError, check};

/// Exit status of a task that left its reason in its slot (EX_SOFTWARE of sysexits.h).
const EXIT_TASK: i32 = 70;

/// Forks a child that the kernel kills when the calling thread dies; `None` in the child.
///
/// # Safety
/// The calling process has one thread, or the child does nothing but what a signal handler may.
pub(crate) unsafe fn fork_bound() -> Result<Option<Pid>, TaskError> {
    let parent = getpid();
    // SAFETY: the caller's promise is that of fork.
    let pid = check(unsafe { libc::fork() }, "create a process")?;
    if pid == 0 {
        let _ = set_parent_process_death_signal(Some(Signal::KILL));
        // The parent may have died before it was being watched.
        if getppid() != Some(parent) {
            exit_task();
        }
    }
    Ok(Pid::from_raw(pid))
}

/// Ends the calling task with the status that says "my slot tells why".
pub(crate) fn exit_task() -> ! {
    // SAFETY: _exit runs no handlers and does not return; open files are the kernel's to close.
    unsafe { libc::_exit(EXIT_TASK) }
}
