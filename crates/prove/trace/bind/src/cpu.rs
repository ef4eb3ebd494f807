//! In a guest, gives a virtual CPU of its own to each thread that makes calls.
//!
//! The plugin identifies a thread by its virtual CPU; in QEMU's user mode, each thread has its own virtual
//! CPU anyway. A thread does not stay pinned, because on a pinned thread, a library that asks for the number
//! of CPUs gets 1. Instead, a thread is pinned only until it has moved to its CPU. The unpinned thread stays
//! on this CPU, because the guest's kernel is configured not to balance load.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The environment variable that tells whether the program runs in a guest of knee (`1`) or in QEMU's user
/// mode (`0`). A guest has [`SIDES`](knee_marks::SIDES) + 1 virtual CPUs, and its kernel does not migrate
/// threads. knee sets the variable in both cases, because the environment is part of the program's memory,
/// and its size affects the addresses of other data.
pub const GUEST: &str = "KNEE_BIND_GUEST";

/// Moves the calling thread to a CPU. Does nothing outside of a guest.
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
