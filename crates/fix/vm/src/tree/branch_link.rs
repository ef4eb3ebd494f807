//! What the parent's entry for a branch contains: usually a pointer to the branch's table.

use core::sync::atomic::Ordering::Relaxed;

use knee_sync::shim::AtomicU64;

/// What the parent's entry for a branch contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BranchLink {
    /// A pointer to the table.
    Table,
    /// A page of 1 GiB.
    Page,
    /// Nothing, and CPUs may still have cached what the entry contained before.
    Flushing,
}

/// A [`BranchLink`] that is changed under the branch's lock, and that other CPUs may poll without the lock.
#[derive(Debug)]
pub(crate) struct AtomicBranchLink(AtomicU64);

impl AtomicBranchLink {
    /// The link of a new branch: a pointer to its table.
    pub(crate) fn new() -> AtomicBranchLink {
        AtomicBranchLink(AtomicU64::new(BranchLink::Table as u64))
    }

    pub(crate) fn get(&self) -> BranchLink {
        // Relaxed: a CPU that has polled the link takes the lock before it relies on the result.
        match self.0.load(Relaxed) {
            0 => BranchLink::Table,
            1 => BranchLink::Page,
            _ => BranchLink::Flushing,
        }
    }

    pub(crate) fn set(&self, link: BranchLink) {
        self.0.store(link as u64, Relaxed);
    }
}
