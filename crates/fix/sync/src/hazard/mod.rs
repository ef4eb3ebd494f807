//! Hazard pointers: a reader protects one object at a time, and garbage is bounded whatever readers
//! do.
//!
//! # The algorithm
//! A thread has slots, each of which holds a pointer that nobody may free. To protect what a shared
//! pointer points to, a reader writes it to a slot and reads the shared pointer again: if it is still
//! the same, the object had not been retired when the slot held it. A writer that has taken an object
//! out of the structure *retires* it to its own list; when the list is long, the writer looks through
//! all slots and frees what is in none of them.
//!
//! Between a reader's store to the slot and its second load of the pointer there has to be a full
//! fence, and between the writer's removal and its look at the slots as well. The reader's half is
//! [`light`](crate::Platform::light): no instruction. The writer's is
//! [`heavy`](crate::Platform::heavy), once for a whole list.
//!
//! A slot keeps one object at most, and an object is retired once. So a look through `s` slots leaves
//! `s` objects at most, and a thread that looks whenever its list has
//! `max(1024, 2 × s)` objects frees at least half of them: a constant price for each, and no more
//! garbage than that for each thread, even if a reader sleeps with its guard for a day.
//!
//! # When to use them
//! For objects that are held long (across a system call, for the whole of a request), for structures
//! where a reader looks at few objects at a time (a configuration, a head of a queue), and wherever
//! memory must stay bounded. For walks through long lists an epoch is cheaper: a hazard pointer pays
//! two stores for each object, an epoch two for the whole walk.
//!
//! # Which interface
//! - [`AtomicBox`] holds one value that is replaced now and then, and needs no `unsafe`.
//! - [`protect`] and [`retire`] are for those who build structures from [`AtomicPtr`].
//! - [`Domain`] keeps a structure's garbage apart from that of others. A structure that is dropped
//!   then frees all of its garbage at once; the process's domain never ends.
//!
//! ```
//! use knee_sync::hazard::AtomicBox;
//!
//! let limit = AtomicBox::new(10);
//! let old = limit.load().unwrap();
//! limit.store(Some(Box::new(20)));
//! assert_eq!((*old, *limit.load().unwrap()), (10, 20));
//! ```
//!
//! [`AtomicPtr`]: core::sync::atomic::AtomicPtr
//!
//! Source: M. Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects", IEEE TPDS
//! 15(6), 2004; with asymmetric fences as in Meta's folly.

#[cfg(all(feature = "std", not(loom)))]
mod atomic_box;
mod domain;
mod guard;
#[cfg(all(test, loom))]
mod modelled;
#[cfg(all(feature = "std", not(loom)))]
mod process;
#[cfg(all(test, shuttle))]
mod scheduled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

#[cfg(all(feature = "std", not(loom)))]
pub use atomic_box::AtomicBox;
pub use domain::{Domain, Handle};
pub use guard::Guard;
#[cfg(all(feature = "std", not(loom)))]
pub use process::{protect, reclaim, retire};
