//! The lock of a fork, which outlasts the locks of nodes: until no CPU can write any more by what its TLB has.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::shim::{AtomicBool, AtomicU64, is_mutant, order};

/// Held while a space is copied. Others poll it without locks of nodes.
#[derive(Debug)]
pub(crate) struct ForkLock {
    /// Set with all nodes locked.
    is_locked: AtomicBool,
    /// Operations that have waited for the lock, and do not have their nodes yet.
    tickets: AtomicU64,
}

impl ForkLock {
    pub(crate) fn new() -> ForkLock {
        ForkLock { is_locked: AtomicBool::new(false), tickets: AtomicU64::new(0) }
    }

    /// Whether a fork is in progress, and CPUs may still write to pages that the copy has. Other operations
    /// wait: their changes would not be in the copy, and what they write next might be. Under the lock of any node, a
    /// fork that began before is seen. Acquire: all CPUs have flushed when it is over.
    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked.load(order!(Acquire, "forking_load"))
    }

    /// Takes the lock. With all nodes locked, and nobody else has it.
    pub(crate) fn lock(&self) -> ForkGuard<'_> {
        // No mutant: the locks of all nodes publish it as well.
        self.is_locked.store(true, Release);
        ForkGuard(self)
    }

    /// No other fork begins as long as the ticket is there. An operation that has waited for a fork keeps one until it
    /// has locked its nodes and found no fork in progress, so that forks in a row do not starve it.
    pub(crate) fn wait_ticket(&self) -> WaitTicket<'_> {
        self.tickets.fetch_add(1, Relaxed);
        WaitTicket(self)
    }

    /// Whether others have a [ticket](ForkLock::wait_ticket).
    pub(crate) fn has_waiters(&self) -> bool {
        self.tickets.load(Relaxed) > 0 && !is_mutant!("forks_first")
    }
}

/// As long as this is there, no other operation begins to change what is mapped or present in the space.
pub(crate) struct ForkGuard<'a>(&'a ForkLock);

impl Drop for ForkGuard<'_> {
    fn drop(&mut self) {
        self.0.is_locked.store(false, order!(Release, "forking_end"));
    }
}

/// See [`ForkLock::wait_ticket`].
pub(crate) struct WaitTicket<'a>(&'a ForkLock);

impl Drop for WaitTicket<'_> {
    fn drop(&mut self) {
        self.0.tickets.fetch_sub(1, Relaxed);
    }
}
