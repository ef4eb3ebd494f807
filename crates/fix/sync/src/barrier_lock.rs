//! The lock under which the barriers of a domain run, one after the other.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::caller::Caller;
use crate::mutant::order;
use crate::platform::Platform;
use crate::primitive::{AtomicU64, constant};

/// The number of the thread that is running a barrier (see [`Caller`]), or 0.
#[derive(Debug)]
pub(crate) struct BarrierLock(AtomicU64);

/// Releases the lock when the guard is dropped, even if a destructor panics during the barrier.
pub(crate) struct BarrierGuard<'a>(&'a BarrierLock);

impl BarrierLock {
    constant! {
        pub(crate) fn new() -> BarrierLock {
            BarrierLock(AtomicU64::new(0))
        }
    }

    /// Takes the lock after the barriers of other threads have ended. The caller must then execute a heavy
    /// fence, so that it sees the effects of the calls that those barriers have made.
    pub(crate) fn lock(&self, platform: &impl Platform) -> BarrierGuard<'_> {
        let caller = Caller::get().0;
        let take = || self.0.compare_exchange(0, caller, Relaxed, Relaxed);
        platform.sleep_while(|| take().is_err());
        BarrierGuard(self)
    }

    /// Whether the calling thread is running a barrier. False if threads cannot be told apart.
    pub(crate) fn is_own(&self) -> bool {
        Caller::get().is_known(self.0.load(Relaxed))
    }

    /// Releases the lock in the child of a fork, unless the child's only thread forked during its own barrier
    /// and continues that barrier. Returns whether the lock is free.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(crate) fn forked(&self) -> bool {
        let is_free = !self.is_own();
        if is_free {
            self.0.store(0, Relaxed);
        }
        is_free
    }
}

impl Drop for BarrierGuard<'_> {
    fn drop(&mut self) {
        // Release: the next barrier sees what the calls of this barrier did.
        self.0.0.store(0, order!(Release, "barrier_unlock"));
    }
}
