//! Linux's futex(2): words of memory that threads sleep on.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use libc::{c_int, c_long, timespec};

fn call(word: &AtomicU32, operation: c_int, value: u32, timeout: *const timespec) -> c_long {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is borrowed, so it is alive. `timeout` is null or points to a live `timespec`. The
    // operations used here take no other arguments.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout) }
}

/// Sleeps if the word has this value, until another thread wakes the caller or `at_most` has
/// elapsed. May return earlier.
pub(crate) fn wait(word: &AtomicU32, value: u32, at_most: Duration) {
    // SAFETY: zeroes are a valid `timespec`, which is two integers.
    let mut timeout: timespec = unsafe { std::mem::zeroed() };
    timeout.tv_sec = at_most.as_secs() as _;
    timeout.tv_nsec = at_most.subsec_nanos() as _;
    call(word, libc::FUTEX_WAIT, value, &timeout);
}

/// Wakes all threads that sleep on the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    call(word, libc::FUTEX_WAKE, i32::MAX as u32, std::ptr::null());
}

/// Locks the priority-inheritance mutex in the word; see futex(2), "Priority-inheritance futexes".
pub(crate) fn lock_pi(word: &AtomicU32) -> io::Result<()> {
    match call(word, libc::FUTEX_LOCK_PI, 0, std::ptr::null()) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Unlocks the mutex in the word and hands it to the waiter with the highest priority.
pub(crate) fn unlock_pi(word: &AtomicU32) -> io::Result<()> {
    match call(word, libc::FUTEX_UNLOCK_PI, 0, std::ptr::null()) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
