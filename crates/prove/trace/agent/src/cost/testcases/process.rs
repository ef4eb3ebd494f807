//! Cheap system calls, and signals.

use std::ptr;

use rustix::io::Result;
use rustix::{process, thread};

use super::step::done;
use crate::cost::own::{Operation, Own};

extern "C" fn handle(_: libc::c_int) {}

fn install_handler(_: &mut Own) -> Result<()> {
    // SAFETY: a `sigaction` of zeroes has no flags and masks nothing. The handler does nothing, so it may run
    // anywhere and in any thread.
    done(libc::c_long::from(unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(libc::SIGUSR1, &raw const action, ptr::null_mut())
    }))
}

/// Makes the system calls of `raise` in glibc 2.34 and later. `raise` in musl also blocks signals.
fn raise(_: &mut Own) -> Result<()> {
    // SAFETY: these system calls read no memory, and the signal has a handler.
    done(unsafe {
        let thread = libc::syscall(libc::SYS_gettid);
        let process = libc::syscall(libc::SYS_getpid);
        libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGUSR1)
    })
}

pub(super) const TESTCASES: &[Operation] = &[
    Operation::plain("getppid1", "getppid()", |_| {
        let _ = process::getppid();
        Ok(())
    }),
    Operation::plain("getuid1", "getuid()", |_| {
        let _ = process::getuid();
        Ok(())
    }),
    Operation::plain("sched_yield", "sched_yield() of a task that is alone on its CPU", |_| {
        thread::sched_yield();
        Ok(())
    }),
    Operation {
        set_up: install_handler,
        ..Operation::plain("signal1", "raise(SIGUSR1), delivered to an empty handler", raise)
    },
];
