//! The lock under which the barriers of a domain run, one after the other.

use core::sync::atomic::Ordering::{Relaxed, Release};

use crate::mutant::order;
use crate::platform::Platform;
use crate::primitive::{AtomicU64, constant};

/// The thread that runs a barrier, or 0.
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
    /// fence, which acquires the effects of the calls that those barriers have made.
    pub(crate) fn lock(&self, platform: &impl Platform) -> BarrierGuard<'_> {
        let take = || self.0.compare_exchange(0, this_thread(), Relaxed, Relaxed);
        platform.sleep_while(|| take().is_err());
        BarrierGuard(self)
    }

    /// Releases the lock in the child of a fork, unless the child's only thread forked during its own barrier
    /// and continues that barrier. Returns whether the lock is free.
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
        // Release: the next barrier sees what the calls of this barrier did.
        self.0.0.store(0, order!(Release, "barrier_unlock"));
    }
}

/// A number that identifies the calling thread, also in the child of a fork: the address of a thread-local
/// variable.
#[cfg(all(unix, feature = "std", not(any(loom, miri))))]
fn this_thread() -> u64 {
    std::thread_local! {
        static OWN: u8 = const { 0 };
    }
    OWN.with(|own| core::ptr::from_ref(own).addr() as u64)
}

/// Only the child of a fork needs to know which thread has the lock, so one number suffices here.
#[cfg(not(all(unix, feature = "std", not(any(loom, miri)))))]
fn this_thread() -> u64 {
    1
}
