//! A read-mostly lock.
//!
//! Readers of a reader-writer lock wait for each other even if nobody writes: each of them writes to
//! the lock, and the line of memory that it is in goes from CPU to CPU. Readers of an [`RmLock`]
//! write to a line of their own thread and execute no atomic read-modify-write and no fence. The
//! price is paid by writers: the first write after reads interrupts all CPUs that run a thread of the
//! process (some microseconds, see [`System`](crate::System)), and looks at a line of each thread.
//!
//! *Use it* for what is read all the time and written now and then: configuration, tables of routes
//! or plug-ins, maps of mounts. *Do not* where more than one access in some hundred writes: the lock
//! notices, and costs little more than the lock below then, but nothing is won. Where readers can do
//! with an older version while a new one is written, RCU does not let them wait for writers at all.
//!
//! ```
//! use knee_sync::rm::RmLock;
//!
//! static ROUTES: RmLock<Vec<&str>> = RmLock::new(Vec::new());
//!
//! ROUTES.write().push("10.0.0.0/8");
//! assert_eq!(ROUTES.read().len(), 1);
//! ```
//!
//! # Guarantees
//! - Writers exclude everybody. Whoever has the lock sees all that writers before it wrote, and a
//!   writer sees the end of all reads before.
//! - A thread that reads may read again, also while a writer waits: it does not wait for that writer.
//!   It must not write meanwhile; as with other locks, it would wait for itself.
//! - Readers of the fast path do not starve writers: a writer that has the lock below sends new
//!   readers there, to queue behind it. Who gets the lock below first is that lock's decision.
//! - A panic lets go of the lock and does not poison it.
//! - Reads of more than four locks at a time by one thread work, and cost what the lock below costs
//!   from the fifth on.
//!
//! Its methods are those of [`lock_api::RwLock`]: `read`, `write`, `try_read` and others.
//!
//! Guards stay on their thread. A thread that forgets one ([`core::mem::forget`]) leaves the lock
//! read for ever; if it has read guards in thread-local storage when it exits, the memory of its slots
//! (256 bytes) is not used again. As with any lock, a child after fork(2) cannot have what threads of
//! its parent had at that time. Readers in signal handlers are not supported.
//!
//! # Source
//! FreeBSD's rmlock(9) (`sys/kern/kern_rmlock.c`), whose readers are in a list of their CPU, and to
//! whom writers send interrupts; and D. Dice and A. Kogan, "BRAVO: Biased Locking for Reader-Writer
//! Locks", USENIX ATC 2019, which puts the fast path in front of any lock and turns it off and on.
//! Here slots belong to threads and not to a table by hash, so that two locks or threads never share
//! one, and readers execute no fence (see [`Platform`](crate::Platform)).

mod bias;
// Locks are constants, which those of a model cannot be.
#[cfg(not(loom))]
mod raw;
mod readers;
mod slots;
#[cfg(all(feature = "std", not(loom)))]
mod thread;

#[cfg(all(test, loom))]
mod modelled;
#[cfg(all(test, shuttle))]
mod scheduled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

#[cfg(not(loom))]
pub use raw::RawRmLock;
#[cfg(all(feature = "std", not(loom)))]
pub use raw::{RmLock, RmReadGuard, RmWriteGuard};
pub use readers::{Reader, Readers, Threads};
pub use slots::Slots;
#[cfg(all(feature = "std", not(loom)))]
pub use thread::ThisProcess;
