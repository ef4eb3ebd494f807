//! Hazard pointers: a reader protects one object at a time, and garbage is bounded whatever readers do.
//!
//! ```
//! use knee_sync::hazard::AtomicBox;
//!
//! let limit = AtomicBox::new(10);
//! let old = limit.load().unwrap(); // protected until `old` is dropped
//! limit.store(Some(Box::new(20)));
//! assert_eq!((*old, *limit.load().unwrap()), (10, 20));
//! ```
//!
//! # The algorithm
//! A thread has slots, in which it publishes pointers to the objects that it protects. To protect the object
//! that a shared pointer points to, a reader stores the pointer in a slot and loads the shared pointer
//! again. If the shared pointer has not changed, the object had not yet been retired when the reader stored
//! the pointer in the slot. A writer that has unlinked an object *retires* it to its own list. When the list
//! is long enough, the writer scans all slots and frees the objects that are in no slot.
//!
//! ```text
//! reader                           writer
//!   slot = pointer                   unlink the object, retire it
//!   light                            heavy, once for the whole list
//!   the same pointer again?          in a slot?  yes: keep it
//!     yes: it is protected                       no:  free it
//!     no:  try the new one
//! ```
//!
//! A full fence is needed between a reader's store to the slot and its second load of the pointer, and
//! between the writer's unlinking and its scan. The reader's fence is [`light`](crate::Platform::light),
//! which executes no instruction on an asymmetric platform. The writer's fence is
//! [`heavy`](crate::Platform::heavy), which the writer executes once for a whole list.
//!
//! A slot protects at most one object, and an object is retired once. So a scan of `s` slots leaves at most
//! `s` objects in the list. If a thread scans whenever its list has `max(1024, 2 × s)` objects, it frees at
//! least half of them. Each scan therefore frees many objects, and the garbage of each thread stays below
//! this limit, even if a reader sleeps for a day while it holds a guard.
//!
//! When a thread unregisters, other threads take over its retired objects that are still protected.
//! [`barrier`] frees the retired objects of all threads, except those that a guard protects.
//!
//! # When to use them
//! Use hazard pointers for objects that readers hold for a long time (across a system call, for a whole
//! request), for structures in which a reader visits few objects at a time (a configuration, the head of a
//! queue), and wherever memory must stay bounded. For walks along long lists, an epoch is cheaper: a hazard
//! pointer costs two stores for each object, and an epoch costs two stores for the whole walk.
//!
//! # Which interface
//! - [`AtomicBox`] holds one value that is replaced now and then, and needs no `unsafe`.
//! - [`protect`] and [`retire`] are for structures that are built from [`AtomicPtr`], and [`protect_with`] is
//!   for links that carry marks. `examples/list.rs` in the repository is a lock-free list.
//! - [`Domain`] keeps the garbage of a structure separate from that of other structures. Dropping the domain
//!   frees all of its garbage immediately; the domain of the process is never dropped.
//!
//! [`AtomicPtr`]: core::sync::atomic::AtomicPtr
//!
//! Source: M. Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects", IEEE TPDS 15(6),
//! 2004; with asymmetric fences as in Meta's folly.

#[cfg(all(feature = "std", not(loom)))]
mod atomic_box;
mod domain;
mod garbage;
mod guard;
mod handle;
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
pub use domain::Domain;
pub use guard::Guard;
pub use handle::Handle;
#[cfg(all(feature = "std", not(loom)))]
pub use process::{barrier, garbage, protect, protect_with, reclaim, retire};
