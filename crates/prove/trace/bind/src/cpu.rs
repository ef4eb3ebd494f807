//! A virtual CPU for each thread that makes calls, in a guest.
//!
//! There the plugin identifies a thread by its virtual CPU; in QEMU's user mode each thread has one of
//! its own anyway. Threads are not pinned, as a library that asks for the number of CPUs would get one. A
//! thread moves to a CPU and may then run on all of them. It stays where it is, since the guest's kernel
//! is configured not to balance load.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The environment variable that is `1` if a program runs in a guest of knee's, with a virtual CPU
/// for each of [`SIDES`](knee_marks::SIDES) threads and one more, and a kernel that moves no thread
/// from one CPU to another. Under QEMU's user mode it is `0`: it is there as well, so that the program
/// allocates the same.
pub const GUEST: &str = "KNEE_BIND_GUEST";

/// Brings the calling thread to a CPU, in a guest; does nothing elsewhere.
pub(crate) fn go_to(cpu: usize) -> io::Result<()> {
    if std::env::var_os(GUEST).is_none_or(|guest| guest != "1") {
        return Ok(());
    }
    let all = sched_getaffinity(None)?;
    let mut own = CpuSet::new();
    own.set(cpu);
    sched_setaffinity(None, &own)?;
    Ok(sched_setaffinity(None, &all)?)
}
