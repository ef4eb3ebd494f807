//! Reference counts that threads change in caches of their own. A later tick finds the counts that have
//! become zero.
//!
//! ```
//! use knee_sync::refs::refcache::{RefcacheArc, tick};
//!
//! let page = RefcacheArc::new([0u8; 4096]);
//! let other = page.clone(); // two plain stores to a cache of this thread
//! drop((page, other));
//! (0..3).for_each(|_| tick()); // frees the page
//! ```
//!
//! # The algorithm
//! An object has a *global count*. A thread that takes or drops a reference does not touch the global count.
//! The thread adds the change to its own cache, a table of 256 *deltas* in which each object has one possible
//! slot. A delta is *evicted* when another object needs its slot, and at the end of each epoch: it is then
//! added to the global count under the object's lock. The true count is the global count plus all cached
//! deltas. No thread ever knows the true count, but:
//!
//! **Take an interval that begins when the global count is zero and ends when each cache has been flushed
//! once. If no delta of the object is evicted during the interval, not even a delta of zero, then the true
//! count is zero at the end of the interval, and was zero at its start.** A delta that was cached at the
//! start would have been evicted by the flush of its cache. A true count of zero stays zero, because each new
//! reference is made from an existing one.
//!
//! [`tick`] ends an epoch: it flushes each cache that was used since the last tick, and then reviews objects.
//! An object whose global count becomes zero during an epoch is *touched* in that epoch and queued for
//! review. Each eviction that leaves the count at zero touches the object again. A review in epoch `n` frees
//! the object if its count is zero and its last touch was in epoch `n - 2` or before. In that case, no cache
//! had a delta of the object when the tick at the end of epoch `n - 1` flushed the caches. One epoch after
//! the touch is not enough: the touch may come in the middle of a tick, when some caches have been flushed
//! and others have not.
//!
//! ```text
//!   epoch 7              epoch 8              epoch 9
//!  ──────────────────┬────────────────────┬────────────────────┬───────────────────▶
//!   A drops the last │                    │                    │
//!   reference; −1 in │                    │                    │
//!   A's cache        │                    │                    │
//!              tick: flush A        tick: flush all
//!              count 1 → 0          no cache had a delta
//!              touched in 7,        epoch 9: touched in 7,
//!              queued               so it is freed
//!
//!   A drops the last │                    │                    │
//!   reference; another object takes the slot at once: count 1 → 0. A cannot know whether epoch 8
//!   began meanwhile: touched in 8. Freed by the third tick.
//! ```
//!
//! So an object is freed by the third tick after its last reference was dropped, and usually by the
//! second.
//!
//! # Weak references
//! A [`Weak`] has a word with the object's address and a *dying* bit, which each touch sets. An upgrade
//! clears the bit and then caches its reference. A review frees the object only if it can exchange the word,
//! with the bit set, for null. If this exchange fails, an upgrade has cleared the bit. The review then sets
//! the bit again and touches the object, and two epochs later the delta of the new reference has been
//! evicted. This works only because the upgrading thread's cache is not flushed between the upgrade's load of
//! the word and the store of its delta. Otherwise two epochs could end between the load and the store.
//!
//! ```
//! use knee_sync::refs::refcache::{RefcacheArc, tick};
//!
//! let page = RefcacheArc::new([0u8; 4096]);
//! let cached = page.downgrade();
//! drop(page);
//! assert!(cached.upgrade().is_some(), "no tick has found it yet");
//! for _ in 0..3 {
//!     tick();
//! }
//! assert!(cached.upgrade().is_none());
//! ```
//!
//! # Differences from the paper
//! In a kernel, a cache belongs to a CPU, the CPU's own timer interrupt flushes it, and code that has
//! disabled interrupts has the cache to itself. Here a cache belongs to a thread, which may sleep for hours.
//! So the cache has a lock that is biased toward its owner. The owner pays two stores, and `tick` flushes the
//! cache on the owner's behalf. An empty cache needs no flush unless its thread is using it. The paper marks
//! an object as *dirty* and reviews it again two epochs after the first review. This implementation records
//! when the object was touched, so that a review restarts the wait only after an upgrade.
//!
//! # Without an operating system
//! A kernel implements [`Threads`], chooses the type of the objects' locks, and has a cache for each CPU.
//! Code that uses a cache must not be preempted. The kernel calls [`Refcache::tick`] periodically.
//!
//! ```
//! # use std::sync::atomic::{Ordering, fence};
//!
//! use knee_sync::Platform;
//! use knee_sync::refs::refcache::{Local, Refcache, RefcacheArc, Threads};
//!
//! struct Kernel;
//! # // SAFETY: both sides execute a full fence.
//! # unsafe impl Platform for Kernel {
//! #     fn is_symmetric(&self) -> bool { true }
//! #     fn heavy(&self) { fence(Ordering::SeqCst) }
//! #     fn relax(&self, _round: u32) { std::hint::spin_loop() }
//! #     fn now(&self) -> u64 { 0 }
//! #     fn thread(&self) -> u64 { 0 }
//! # }
//! # type SpinLock = parking_lot::RawMutex; // Any `lock_api::RawMutex`.
//!
//! static CACHES: Refcache<Kernel, SpinLock> = Refcache::new(Kernel);
//!
//! std::thread_local! { // One for each CPU.
//!     static CPU: Local<'static, Kernel, SpinLock> = CACHES.register();
//! }
//!
//! // SAFETY: each thread uses only its own `Local` of `CACHES`.
//! unsafe impl Threads for Kernel {
//!     type Platform = Kernel;
//!     type Lock = SpinLock;
//!     fn refcache() -> &'static Refcache<Kernel, SpinLock> {
//!         &CACHES
//!     }
//!     fn with_local<R>(with: impl FnOnce(&Local<'static, Kernel, SpinLock>) -> R) -> R {
//!         CPU.with(with) // With preemption disabled.
//!     }
//! }
//!
//! let page = RefcacheArc::<_, Kernel>::new_in([0u8; 4096]);
//! let cached = page.downgrade();
//! drop(page);
//! (0..3).for_each(|_| CACHES.tick());
//! assert!(cached.upgrade().is_none());
//! ```
//!
//! Source: A. Clements, M. F. Kaashoek, N. Zeldovich, "RadixVM: Scalable Address Spaces for
//! Multithreaded Applications", EuroSys 2013, section 3.1, and sv6's refcache.

#[cfg(not(loom))]
mod arc;
mod cache;
#[cfg(all(test, not(any(loom, shuttle))))]
mod mid_tick;
#[cfg(all(test, loom))]
mod modelled;
#[cfg(all(feature = "std", not(loom)))]
mod process;
#[cfg(all(test, shuttle))]
mod scheduled;
#[cfg(all(test, not(any(loom, shuttle))))]
mod tests;
mod threads;

#[cfg(not(loom))]
pub use arc::{RefcacheArc, Weak};
pub use cache::{Local, Refcache};
#[cfg(all(feature = "std", not(loom)))]
pub use process::{ThisProcess, Ticker, tick};
pub use threads::Threads;
