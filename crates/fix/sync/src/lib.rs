//! Memory reclamation, reference counts and locks whose readers share no cache line.
//!
//! If many threads read data and few threads change it, the data is usually guarded by a lock or a count that
//! every reader writes to, so a cache line moves from core to core with each read. With this crate, readers
//! write only to cache lines of their own and execute no fence. Writers pay for all synchronization between
//! readers and writers.
//!
//! | | |
//! | --- | --- |
//! | [`epoch`] | epoch-based reclamation: memory is freed when no reader can hold it any more |
//! | [`Rcu`] | a pointer to a value that is replaced as a whole |
//! | [`hazard`] | hazard pointers: one object at a time is protected, and garbage is bounded |
//! | [`refs`] | reference counts without a shared line |
//! | [`rm`] | a read-mostly lock |
//! | [`invalidation`] | delayed invalidation: before a thread reuses an object, it waits for the sections that have marked the object |
//! | [`lock`] | a mutex whose waiters lend their priority to the owner |
//! | [`Platform`], [`System`] | the asymmetric fence that most of these modules use |
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
//! # Registering, retiring, reclaiming
//! These words have the same meaning in every module. A thread *registers* with a domain and gets a handle. A
//! function that takes no handle, such as [`epoch::pin`], registers the calling thread with the domain of the
//! process when the thread first calls it. A writer *retires* an object that it has unlinked. To *reclaim* is
//! to free the retired objects that no reader can hold any more.
//!
//! # Without an operating system
//! Without the features `std` and `alloc`, the crate allocates nothing. From its system, it needs only what
//! [`Platform`] describes: a fence on all CPUs (for example, by an interrupt to each CPU), a clock and a
//! number that identifies the calling thread. The embedder provides a [`Node`] for each thread's record (see
//! [`epoch::Domain::add_node`]), and an [`epoch::Entry`] in each object that it retires.
//!
//! # How it is tested
//! loom explores the protocols with three kinds of fences (`modelled.rs`), shuttle tries schedules of more
//! threads (`scheduled.rs`), and Miri runs the unit tests with many seeds. A torture test runs on real
//! CPUs, because no tool models membarrier(2). Each mutant in `tests/mutants` breaks the crate on purpose
//! and must make a test fail.

#![cfg_attr(not(feature = "std"), no_std)]

#[cfg(feature = "alloc")]
extern crate alloc;

pub mod epoch;
#[cfg(feature = "alloc")]
pub mod hazard;
pub mod invalidation;
#[cfg(all(target_os = "linux", feature = "std", not(any(loom, shuttle))))]
pub mod lock;
#[cfg(feature = "alloc")]
pub mod refs;
pub mod rm;
#[doc(hidden)]
pub mod shim;

mod barrier_lock;
mod biased;
mod caller;
mod calls;
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
#[cfg(any(loom, shuttle))]
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

/// Runs the examples of the package's README as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
