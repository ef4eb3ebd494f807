//! The system call `perf_event_open(2)`, and the setting that restricts it.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr};
use perf_event_open_sys::perf_event_open;

/// Opens an event of the thread `thread` (0: the calling thread; -1: all threads) on `cpu` (-1: all CPUs).
///
/// # Errors
/// Those of `perf_event_open(2)`.
pub fn open(attr: &mut perf_event_attr, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    // SAFETY: the attributes are initialised, and request nothing that writes to our memory.
    let fd = unsafe { perf_event_open(attr, thread, cpu, -1, PERF_FLAG_FD_CLOEXEC.into()) };
    match fd {
        0.. => {
            // SAFETY: the descriptor is new, and nothing else owns it.
            Ok(unsafe { OwnedFd::from_raw_fd(fd) })
        }
        _ => Err(io::Error::last_os_error()),
    }
}

/// The content of `perf_event_paranoid`, if it is readable.
pub fn paranoid() -> Option<i32> {
    super::read_line("/proc/sys/kernel/perf_event_paranoid")?.parse().ok()
}
