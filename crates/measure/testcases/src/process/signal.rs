//! Delivering a signal to oneself and returning from its handler.

use knee_run::{Family, Outcome, Task, Testcase, check};
use libc::{SIGUSR1, c_int};

pub(super) const TESTCASES: &[Testcase] = &[Testcase {
    name: "signal1",
    description: "raise(SIGUSR1), delivered to an empty handler",
    ..Testcase::new(Family::Process, raise)
}];

extern "C" fn handle(_: c_int) {}

fn raise(task: &Task<'_>) -> Outcome {
    // SAFETY: all zero is a valid `sigaction`: no flags, nothing masked.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handle as extern "C" fn(c_int) as libc::sighandler_t;
    // SAFETY: the handler does nothing, so it may run at any place and in any thread.
    check(unsafe { libc::sigaction(SIGUSR1, &action, std::ptr::null_mut()) }, "sigaction")?;
    task.repeat(|| {
        // SAFETY: the signal has a handler, the one above.
        check(unsafe { libc::raise(SIGUSR1) }, "raise").map(drop)
    })
}
