//! Delayed invalidation: who may not go on before which others have invalidated what they cached.
//!
//! A kernel that unmaps a page takes it out of the list of the page's mappings, and flushes the TLBs
//! of other CPUs later, once for many pages. Meanwhile another thread may find the list empty and
//! give the page to somebody else, whose data the old mapping then reads. So whoever finds the list
//! empty must wait for those who have taken something out of it and have not flushed yet: for those,
//! and not for all who flush something somewhere.
//!
//! The same happens where GPUs or IOMMUs unmap, where caches are purged in batches, and where files
//! are unlinked before the log of that is written.
//!
//! ```
//! use std::sync::Mutex;
//! use knee_sync::invalidation::{Slots, Stamp, Tracker};
//!
//! struct Page { mappings: Mutex<Vec<u64>>, stamp: Stamp }
//!
//! let tracker = Tracker::new(Slots::new());
//! let page = Page { mappings: Mutex::new(vec![0x1000]), stamp: Stamp::new() };
//!
//! // A thread that unmaps.
//! let mut member = tracker.join();
//! let section = member.begin();
//! {
//!     let mut mappings = page.mappings.lock().unwrap();
//!     mappings.clear();
//!     section.mark(&page.stamp);
//! }
//! // … more pages, and one flush for all …
//! section.finish();
//!
//! // A thread that wants the page for something else.
//! let is_free = page.mappings.lock().unwrap().is_empty();
//! if is_free {
//!     tracker.wait(&page.stamp);
//! }
//! ```
//!
//! # Rules
//! - [`Section::mark`] is called with the exclusive lock of what the stamp belongs to.
//! - [`Tracker::wait`] is called by a thread that has had that lock since the marks which it must not
//!   miss; it need not have it any more. It waits for sections that marked before, and sees what they
//!   did.
//! - A stamp is used with one tracker. Nobody waits within a section, or else for itself.
//! - A section that is forgotten ([`core::mem::forget`]) never ends.
//!
//! # Forms
//! | | begin and finish | waits for sections that marked the page, and | wait costs |
//! |---|---|---|---|
//! | [`Slots`] | three stores to the thread's own line | those with a page of the same of 64 bits | a look at each thread, if the page was ever marked |
//! | [`Locked`] | a mutex twice | older ones | a load |
//! | [`LockFree`] | a walk over active sections and a 128-bit compare-exchange each | older ones | a load |
//! | [`Epoch`] | two stores to the thread's own line | all | a heavy fence and a look at each thread |
//!
//! [`Slots`] is the one to use. The others are what FreeBSD had and has, to compare.
//!
//! # Source
//! FreeBSD, `sys/amd64/amd64/pmap.c`: `pmap_delayed_invl_*`, K. Belousov 2016 (here [`Locked`]) and
//! revision 347695 of 2019 (here [`LockFree`]); M. Macy's experiment with epochs of 2018 (here
//! [`Epoch`]), which lives in `sys/powerpc/aim/mmu_radix.c`.

mod epoch;
mod lock_free;
mod locked;
mod slots;
mod tracker;

#[cfg(all(test, loom))]
mod modelled;
#[cfg(all(test, shuttle))]
mod scheduled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;

pub use epoch::{Epoch, EpochPlace};
pub use lock_free::{Link, LockFree};
pub use locked::{Locked, LockedPlace};
pub use slots::{Slots, SlotsPlace};
pub use tracker::{Invalidation, Member, Section, Stamp, Tracker};
