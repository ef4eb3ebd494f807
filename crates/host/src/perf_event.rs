//! The system call `perf_event_open(2)`, and the setting that restricts it.

use std::io;
use std::mem::size_of;
use std::os::fd::{FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::{PERF_FLAG_FD_CLOEXEC, perf_event_attr};
use perf_event_open_sys::perf_event_open;

/// Opens an event of the thread `thread` (0: the calling thread; -1: all threads) on `cpu` (-1: all CPUs).
/// Sets `attr.size`.
///
/// # Errors
/// Those of `perf_event_open(2)`.
pub fn open(attr: &mut perf_event_attr, thread: i32, cpu: i32) -> io::Result<OwnedFd> {
    attr.size = size_of::<perf_event_attr>() as u32;
    // SAFETY: the kernel reads and writes at most `attr.size` bytes at `attr`, which are the bytes of the exclusive
    // reference. It reads the memory that other attributes point to with checks, and does not write there. The event
    // writes to memory only if its descriptor is mapped.
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
