//! What a forked child has to do that an ordinary process has not.

use rustix::process::{Signal, set_parent_process_death_signal};

/// Exit status of a task that left its reason in its slot (EX_SOFTWARE of sysexits.h).
const EXIT_TASK: i32 = 70;

/// Asks the kernel to kill the calling process when its parent thread dies.
pub(crate) fn die_with_parent() {
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Ends the calling task with the status that says "my slot tells why".
pub(crate) fn exit_task() -> ! {
    // SAFETY: _exit runs no handlers and does not return; open files are the kernel's to close.
    unsafe { libc::_exit(EXIT_TASK) }
}
