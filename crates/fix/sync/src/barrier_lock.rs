//! The lock under which the barriers of a domain run, one after the other.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::mutant::order;
use crate::platform::Platform;
use crate::primitive::{AtomicU64, constant};

/// The thread that runs a barrier, or 0.
#[derive(Debug)]
pub(crate) struct BarrierLock(AtomicU64);

/// Unlocks when it is dropped, also when a destructor panics in the barrier.
pub(crate) struct BarrierGuard<'a>(&'a BarrierLock);

impl BarrierLock {
    constant! {
        pub(crate) fn new() -> BarrierLock {
            BarrierLock(AtomicU64::new(0))
        }
    }

    /// Waits for the barriers of other threads. The caller must execute a heavy fence, which acquires the effects of
    /// the calls that those barriers have made.
    pub(crate) fn lock(&self, platform: &impl Platform) -> BarrierGuard<'_> {
        let take = || self.0.compare_exchange(0, this_thread(), Relaxed, Relaxed);
        platform.sleep_while(|| take().is_err());
        BarrierGuard(self)
    }

    /// Unlocks in the child of a fork, unless its only thread has forked in a barrier and continues it. Returns
    /// whether the lock is free.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(crate) fn forked(&self) -> bool {
        let is_free = self.0.load(Relaxed) != this_thread();
        if is_free {
            self.0.store(0, Relaxed);
        }
        is_free
    }
}

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        // Release: the next barrier sees what this one has called.
        self.0.0.store(0, order!(Release, "barrier_unlock"));
    }
}

/// A number of the calling thread, which the thread keeps in the child of a fork: the address of a variable of its
/// own.
#[cfg(all(unix, feature = "std", not(any(loom, miri))))]
fn this_thread() -> u64 {
    std::thread_local! {
        static OWN: u8 = const { 0 };
    }
    OWN.with(|own| core::ptr::from_ref(own).addr() as u64)
}

/// Only the child of a fork needs to know the thread.
#[cfg(not(all(unix, feature = "std", not(any(loom, miri)))))]
fn this_thread() -> u64 {
    1
}
