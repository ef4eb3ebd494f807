//! Reclamation, counts and locks whose read side costs nothing to share.
//!
//! What many threads read and few change is usually guarded by a lock or a count that all of them
//! write, and so a line of memory goes from core to core with each read. Here readers write lines of
//! their own and execute no fence; those who change something pay for both sides.
//!
//! | | |
//! | --- | --- |
//! | [`epoch`] | what readers may hold is freed when they have left |
//! | [`Rcu`] | a pointer to a value that is replaced as a whole |
//! | [`hazard`] | one object at a time is protected, and garbage is bounded |
//! | [`refs`] | counts of references that threads do not fight over |
//! | [`rm`] | a read-mostly lock |
//! | [`invalidation`] | waiting for those who have marked something, and for no one else |
//! | [`lock`] | a mutex whose waiters lend their priority |
//! | [`conn_table`] | a worked example: from a table under a read lock to one under an epoch |
//! | [`Platform`], [`System`] | the asymmetric fence that they are built on |
//!
//! ```
//! use knee_sync::{Rcu, epoch};
//!
//! static CONFIG: std::sync::LazyLock<Rcu<String>> =
//!     std::sync::LazyLock::new(|| Rcu::new("debug=off".to_owned()));
//!
//! assert_eq!(CONFIG.load(&epoch::pin()), "debug=off");
//! CONFIG.store("debug=on".to_owned());
//! assert_eq!(CONFIG.load(&epoch::pin()), "debug=on");
//! ```
//!
//! # Without an operating system
//! Without the features `std` and `alloc` nothing is allocated and nothing is asked of a system but what
//! [`Platform`] says: a fence on all CPUs (an interrupt to each), a clock, the number of a thread.
//! Records of threads are [`Node`]s of the embedder's, see [`epoch::Domain::add_node`], and what
//! is deferred has an [`epoch::Entry`] inside.
//!
//! # How it is tested
//! loom tries all orders of the protocols with three kinds of fences (`modelled.rs`), shuttle tries
//! schedules of more threads (`scheduled.rs`), Miri runs the unit tests with many seeds, and a torture
//! runs on real CPUs, as no tool knows what membarrier(2) does. Each of a list of mutants of the crate
//! has to be noticed (`tests/mutants`).

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

#[cfg(all(feature = "std", not(loom)))]
pub mod conn_table;
pub mod epoch;
#[cfg(feature = "alloc")]
pub mod hazard;
pub mod invalidation;
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle))))]
pub mod lock;
#[cfg(feature = "alloc")]
pub mod refs;
pub mod rm;

mod biased;
#[cfg(any(
    test,
    all(
        target_os = "linux",
        feature = "std",
        not(any(miri, loom, sanitize_thread, strict_fences))
    )
))]
mod combiner;
mod event;
#[cfg(all(unix, feature = "std", not(any(loom, miri))))]
mod fork;
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle))))]
mod futex;
#[cfg(all(test, any(loom, shuttle)))]
mod model;
mod mutant;
#[cfg(all(feature = "std", not(loom)))]
mod number;
mod padded;
#[cfg(feature = "std")]
mod per_thread;
mod platform;
mod primitive;
#[cfg(feature = "alloc")]
mod rcu;
mod registry;
#[cfg(feature = "std")]
mod system;
#[cfg(feature = "alloc")]
mod table;

pub use platform::Platform;
#[cfg(feature = "alloc")]
pub use rcu::Rcu;
pub use registry::Node;
#[cfg(feature = "std")]
pub use system::System;
