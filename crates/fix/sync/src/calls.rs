//! A record of whether a thread is calling destructors and deferred functions. Other threads read the record
//! to wait for the end of these calls.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::caller::Caller;
use crate::mutant::{is_mutant, order};
use crate::platform::Platform;
use crate::primitive::{AtomicU64, constant};

/// Whether a thread is freeing objects.
#[derive(Debug)]
pub(crate) struct Calls {
    /// The number of times that the thread has begun or stopped freeing objects. The number is odd while the
    /// thread frees objects.
    count: AtomicU64,
    /// The number of the thread that last began to free objects; see [`Caller`].
    caller: AtomicU64,
}

/// A guard that exists while the owner frees objects.
pub(crate) struct Calling<'a>(&'a Calls);

impl Calls {
    constant! {
        pub(crate) fn new() -> Calls {
            Calls { count: AtomicU64::new(0), caller: AtomicU64::new(0) }
        }
    }

    /// Marks the owner as freeing objects, until the result is dropped. Returns `None` if the owner is
    /// already freeing objects.
    pub(crate) fn begin(&self) -> Option<Calling<'_>> {
        let calls = self.count.load(Relaxed);
        calls.is_multiple_of(2).then(|| {
            self.caller.store(Caller::get().0, Relaxed);
            self.set(calls + 1);
            Calling(self)
        })
    }

    /// Marks the end of the owner's calls. In the child of a fork, the only thread marks the end of a missing
    /// owner's calls.
    pub(crate) fn end(&self) {
        let calls = self.count.load(Relaxed);
        self.set(calls + calls % 2);
    }

    /// Whether the calling thread is freeing objects as the owner. False if threads cannot be told apart.
    pub(crate) fn is_own(&self) -> bool {
        // A thread sees its own stores, and no other thread stores this thread's number.
        self.count.load(Relaxed) % 2 == 1 && Caller::get().is_known(self.caller.load(Relaxed))
    }

    /// Must be called by the owner, or by the only thread in the child of a fork.
    fn set(&self, calls: u64) {
        // Release: a thread that sees the end of these calls, or the start of later calls, sees what these
        // calls did.
        self.count.store(calls, order!(Release, "epoch_end_calls"));
    }

    /// Waits for the end of the calls that the owner has begun. The start of these calls must be visible to
    /// the caller, either through a heavy fence or because the caller has taken the garbage lock, which the
    /// owner released after the start.
    pub(crate) fn wait(&self, platform: &impl Platform) {
        let calls = || self.count.load(order!(Acquire, "epoch_ended"));
        let begun = calls();
        // The wait ends as soon as the number changes, even to another odd number: the owner may begin new
        // calls again and again, so this thread might never see an even number.
        if begun % 2 == 1 && !is_mutant!("epoch_no_wait_for_calls") {
            platform.sleep_while(|| calls() == begun);
        }
    }
}

impl Drop for Calling<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}
