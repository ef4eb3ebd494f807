//! Delayed invalidation: before a thread reuses an object, it waits for the threads that have unlinked the
//! object but have not yet invalidated its cached copies.
//!
//! A kernel that unmaps a page removes the mapping from the page's list of mappings, and flushes the TLBs
//! of other CPUs later, once for many pages. Meanwhile another thread may find the list empty and reuse the
//! page, and a CPU with the stale mapping then reads the new owner's data. So a thread that finds the list
//! empty must wait for the threads that have removed mappings of this page and have not flushed yet. The
//! thread need not wait for threads that flush other pages.
//!
//! The same problem exists for IOMMUs and GPUs, for caches that are purged in batches, and for files that are
//! unlinked before their removal is logged.
//!
//! ```
//! use std::sync::Mutex;
//! use knee_sync::invalidation::{Stamp, Tracker};
//!
//! struct Page { mappings: Mutex<Vec<u64>>, stamp: Stamp }
//!
//! let tracker = Tracker::new();
//! let page = Page { mappings: Mutex::new(vec![0x1000]), stamp: Stamp::new() };
//!
//! // A thread that unmaps.
//! let mut member = tracker.register();
//! let section = member.begin();
//! {
//!     let mut mappings = page.mappings.lock().unwrap();
//!     mappings.clear();
//!     section.mark(&page.stamp);
//! }
//! // … more pages, and one flush for all …
//! section.finish();
//!
//! // A thread that reuses the page.
//! let is_free = page.mappings.lock().unwrap().is_empty();
//! if is_free {
//!     tracker.wait(&page.stamp);
//! }
//! ```
//!
//! ```text
//! unmapping thread   ├ begin ── lock, unlink, mark, unlock ── … ── flush ── finish ┤
//! reusing thread                     ├ lock: no mapping is left ── wait ───────────┤ reuses the page
//! ```
//!
//! # Rules
//! - [`Section::mark`] must be called under the exclusive lock of the object that the stamp belongs to.
//! - A thread must take that lock before it calls [`Tracker::wait`]: `wait` sees all marks that were made
//!   before the thread took the lock, but may miss later marks. The thread may release the lock before it
//!   calls `wait`. When `wait` returns, the sections that made the earlier marks have ended, and the caller
//!   sees what the sections did.
//! - A stamp must be used with one tracker only. A thread must not wait within its own section, because it
//!   would wait for itself.
//! - A section that is forgotten ([`core::mem::forget`]) never ends.
//!
//! # Cost
//! `begin` and `finish` together cost three stores to a cache line that no other thread writes. If a page was
//! never marked, a wait for it costs one load. A wait for any other page costs one load for each thread, and
//! one more load for each thread in a section. The wait covers the sections that have marked the page, and
//! any sections that have marked another page whose stamp happens to have the same bit (one of 64). A wait
//! covers at most one section of each thread.
//!
//! A kernel that has per-CPU data puts a [`Slot`] there and needs no [`Tracker`].
//!
//! # Source
//! The problem and its first solutions are FreeBSD's: `sys/amd64/amd64/pmap.c`, `pmap_delayed_invl_*`, K.
//! Belousov 2016 and 2019. The crate `knee-baselines` implements FreeBSD's solutions, and compares them with
//! this module.

mod slot;
mod tracker;

#[cfg(all(test, loom))]
mod modelled;
#[cfg(all(test, shuttle))]
mod scheduled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use slot::{Slot, Stamp};
pub use tracker::{Member, Section, Tracker};
