//! A read-mostly lock.
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
//! Readers of a reader-writer lock slow each other down even without a writer: each of them writes to the
//! lock, whose cache line then moves from CPU to CPU. Readers of an [`RmLock`] write to a cache line of
//! their own thread and execute no atomic read-modify-write and no fence. Writers pay for that: the first
//! write after a read must interrupt all CPUs that run a thread of the process (a few microseconds, see
//! [`System`](crate::System)), and load a cache line of each thread.
//!
//! *Use it* for data that is read all the time and rarely written: configuration, routing or plug-in tables,
//! mount tables. *Do not use it* if more than one in a few hundred accesses is a write: the lock then adapts,
//! so it costs little more than the underlying lock, but it gains nothing either. If readers may use the old
//! version while a new version is written, use RCU: its readers never wait for writers.
//!
//! ```text
//! reader                          writer
//!   slot = number                   (takes the underlying lock)
//!   light fence                     open = false
//!   open?  yes: it has the lock     heavy fence
//!          no:  slot = none,        no slot has it?  yes: it has the lock
//!               the underlying lock                  no:  waits
//! ```
//!
//! # Guarantees
//! - Writers exclude all other users. A thread that holds the lock sees everything that earlier writers
//!   wrote, and a writer also sees what earlier readers did while they held the lock.
//! - A thread that holds a read lock may take another read lock of the same lock, even while a writer waits.
//!   But such a thread must not take the write lock: as with other locks, the thread would wait for itself.
//! - Readers do not starve writers: while a writer holds the underlying lock, new readers queue for the
//!   underlying lock, and the underlying lock decides the order.
//! - A panic unlocks the lock and does not poison it.
//! - A thread may hold more than four read locks at a time. The fifth read lock (on a symmetric platform, the
//!   fourth) and each further read lock cost as much as the underlying lock.
//!
//! An [`RmLock`] has the methods of [`lock_api::RwLock`]: `read`, `write`, `try_read` and others.
//!
//! A guard cannot be sent to another thread. A thread that leaks a guard ([`core::mem::forget`]) leaves the
//! lock locked forever. If a thread exits with read guards in thread-local storage, the memory of its slots
//! (128 bytes) is not reused. In the child of a fork, read locks that other threads held through slots are
//! released. The write locks that these threads held, and the read locks that they took through the
//! underlying lock, stay held in the child, as with any lock. Signal handlers must not use the lock.
//!
//! # Source
//! FreeBSD's rmlock(9) (`sys/kern/kern_rmlock.c`), which keeps a list of readers on each CPU, and whose
//! writers send interrupts; and D. Dice and A. Kogan, "BRAVO: Biased Locking for Reader-Writer Locks",
//! USENIX ATC 2019, which puts a fast path in front of any lock and disables it adaptively. In this crate,
//! slots belong to threads rather than to a hash table, so two locks or two threads never share a slot, and
//! readers execute no fence (see [`Platform`](crate::Platform)).

mod bias;
// lock_api requires a constant `INIT`, but loom's atomics cannot be created in a constant.
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
