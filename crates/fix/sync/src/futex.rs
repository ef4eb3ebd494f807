//! Linux's futex(2): a word of memory that threads sleep on.

use std::io;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use libc::{c_int, c_long, timespec};

fn call(word: &AtomicU32, operation: c_int, value: u32, timeout: *const timespec) -> c_long {
    let operation = operation | libc::FUTEX_PRIVATE_FLAG;
    // SAFETY: the word is alive while it is borrowed, and `timeout` is null or was a reference; none
    // of the operations here has more arguments.
    unsafe { libc::syscall(libc::SYS_futex, word.as_ptr(), operation, value, timeout) }
}

/// Sleeps while the word has this value, until somebody wakes it or the time is over. May return
/// earlier.
pub(crate) fn wait(word: &AtomicU32, value: u32, at_most: Duration) {
    // SAFETY: it is two integers.
    let mut timeout: timespec = unsafe { std::mem::zeroed() };
    timeout.tv_sec = at_most.as_secs() as _;
    timeout.tv_nsec = at_most.subsec_nanos() as _;
    call(word, libc::FUTEX_WAIT, value, &timeout);
}

/// Wakes all who sleep on the word.
pub(crate) fn wake_all(word: &AtomicU32) {
    call(word, libc::FUTEX_WAKE, i32::MAX as u32, std::ptr::null());
}

/// Takes the lock that the word is, see futex(2), "Priority-inheritance futexes".
pub(crate) fn lock_pi(word: &AtomicU32) -> io::Result<()> {
    match call(word, libc::FUTEX_LOCK_PI, 0, std::ptr::null()) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Gives the lock that the word is to whoever waits for it with the highest priority.
pub(crate) fn unlock_pi(word: &AtomicU32) -> io::Result<()> {
    match call(word, libc::FUTEX_UNLOCK_PI, 0, std::ptr::null()) {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
