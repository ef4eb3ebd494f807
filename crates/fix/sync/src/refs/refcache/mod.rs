//! Reference counts that threads change in caches of their own, and that are known to be zero some
//! ticks later.
//!
//! # The algorithm
//! An object has a *global count*. A thread that takes or drops a reference does not touch it: it
//! notes the difference in its own cache, a table of 256 *deltas* where each object has one possible
//! place. When another object needs the place, and at the end of each epoch, deltas are *evicted*:
//! added to the global count under the object's lock. The true count is the global count plus all
//! deltas that are cached anywhere. Nobody knows it at any moment, but:
//!
//! **If the global count is zero, and nobody evicts a delta of the object, not even a delta of zero,
//! until each cache has been flushed once since, then the true count is zero, and was so at the
//! beginning.** For a delta that was cached at the beginning would have been evicted by the flush of
//! its cache. And a true count of zero stays so, as a reference is made from a reference.
//!
//! [`tick`] ends an epoch: it flushes the cache of each thread that has used it since, and then
//! reviews objects. An object whose global count comes to zero is *touched* in the epoch in which that
//! happens, and queued for review; each eviction that leaves the count at zero touches it again. A
//! review in epoch `n` frees it if its count is zero and it was touched in epoch `n - 2` or before: the
//! whole epoch between has flushed all caches. The epoch after the touch alone is not enough, as some
//! cache may have been flushed in the same epoch before the touch, or not yet.
//!
//! ```text
//!   epoch 7              epoch 8              epoch 9
//!  ──────────────────┬────────────────────┬────────────────────┬───────────────────▶
//!   A drops the last │                    │                    │
//!   reference; −1 in │                    │                    │
//!   A's cache        │                    │                    │
//!              tick: flush A        tick: flush all
//!              count 1 → 0          nobody had a delta
//!              touched in 7,        epoch 9: touched in 7,
//!              queued               so it is freed
//!
//!   A drops the last │                    │                    │
//!   reference; another object takes the place at once: count 1 → 0. A cannot know whether epoch 8
//!   has begun while it did so: touched in 8. Freed by the third tick.
//! ```
//!
//! So an object is freed by the third tick after its last reference was dropped, and mostly by the
//! second.
//!
//! # Weak references
//! A [`Weak`] has a word with the object's address and a *dying* bit, which is set with each touch. An
//! upgrade clears the bit and then notes its reference. Review frees only if it can exchange the
//! address *with* the bit by null; otherwise somebody has upgraded: the bit is set again, the object
//! is touched, and two epochs later the new reference has been evicted. For that, no flush may come
//! between the upgrade's look at the word and its note, or two epochs could.
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
//! # What is different here
//! In a kernel a cache belongs to a CPU, a flush is the CPU's own timer interrupt, and whoever
//! switches interrupts off has the cache for itself. Here a cache belongs to a thread, which may sleep
//! for hours. So the owner has its cache by an owner-biased lock, which costs it two stores, and
//! `tick` flushes on its behalf. A cache that is empty, of a thread that is not inside, needs no flush.
//! And where the paper notes that an object is *dirty* and reviews it again two epochs after the first
//! review, this notes when it was touched, so that the wait never begins anew at a review.
//!
//! # Without an operating system
//! A kernel says who refers by [`Threads`]: a cache for each CPU, which whoever uses it does not leave
//! meanwhile, and a lock. Somebody calls [`Refcache::tick`].
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
//! std::thread_local! { // As many as there are CPUs.
//!     static CPU: Local<'static, Kernel, SpinLock> = CACHES.register();
//! }
//!
//! // SAFETY: nobody else has this thread's part.
//! unsafe impl Threads for Kernel {
//!     type Platform = Kernel;
//!     type Lock = SpinLock;
//!     fn refcache() -> &'static Refcache<Kernel, SpinLock> {
//!         &CACHES
//!     }
//!     fn with_local<R>(with: impl FnOnce(Local<'static, Kernel, SpinLock>) -> R) -> R {
//!         CPU.with(|&local| with(local)) // Without preemption.
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
