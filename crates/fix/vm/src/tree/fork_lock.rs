//! The lock that a fork holds until no CPU can write through a stale TLB entry. The fork releases its node
//! locks earlier.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::shim::{AtomicBool, AtomicU64, is_mutant, order};

/// A fork holds this lock while it copies a space. If any other operation finds the lock held, the operation
/// releases its node locks and polls this lock.
#[derive(Debug)]
pub(crate) struct ForkLock {
    /// Set by a CPU that has locked all nodes.
    is_locked: AtomicBool,
    /// Number of operations that have waited for the lock and have not locked their nodes yet.
    tickets: AtomicU64,
}

impl ForkLock {
    pub(crate) fn new() -> ForkLock {
        ForkLock { is_locked: AtomicBool::new(false), tickets: AtomicU64::new(0) }
    }

    /// Whether a fork is in progress, during which CPUs may still write to pages that the copy shares.
    /// Other operations must wait: otherwise the copy could miss their changes and yet contain later
    /// writes. A caller that has locked a node sees every fork that began before the node was locked.
    /// Acquire: pairs with the end of the fork, so all TLB flushes are complete if this function returns
    /// false.
    #[inline]
    pub(crate) fn is_locked(&self) -> bool {
        self.is_locked.load(order!(Acquire, "forking_load"))
    }

    /// Takes the lock. The caller must have locked all nodes and found no fork in progress.
    pub(crate) fn lock(&self) -> ForkGuard<'_> {
        // Relaxed: the node locks publish the store.
        self.is_locked.store(true, Relaxed);
        ForkGuard(self)
    }

    /// Returns a ticket that keeps other forks from starting. An operation that has waited for a fork keeps
    /// the ticket until it has locked its nodes and found no fork in progress, so that back-to-back forks do
    /// not starve it.
    pub(crate) fn wait_ticket(&self) -> WaitTicket<'_> {
        self.tickets.fetch_add(1, Relaxed);
        WaitTicket(self)
    }

    /// Whether any operation has a [ticket](ForkLock::wait_ticket).
    pub(crate) fn has_waiters(&self) -> bool {
        self.tickets.load(Relaxed) > 0 && !is_mutant!("forks_first")
    }
}

/// While this guard exists, no other operation starts to change mapped or present pages of the space.
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
