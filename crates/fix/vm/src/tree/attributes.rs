//! What a run of pages is.

use core::ptr::NonNull;

use crate::page::Protection;

/// What is the same for all pages of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// What may be done.
    pub(crate) protection: Protection,
    /// What provides the pages; none if they are the space's own, zero at first.
    pub(crate) backing: Option<BackingId>,
}

/// Stands for a [backing](crate::backing), which trees store and compare and never look at.
///
/// The backing is there as long as any page is mapped by it: whoever has the lock of a node and finds the id by a page
/// may look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BackingId(NonNull<()>);

impl BackingId {
    pub(crate) fn new(backing: NonNull<()>) -> BackingId {
        BackingId(backing)
    }

    pub(crate) fn pointer(self) -> NonNull<()> {
        self.0
    }
}

impl Attributes {
    /// Memory of the space's own, zero at first.
    pub(crate) const fn anonymous(protection: Protection) -> Attributes {
        Attributes { protection, backing: None }
    }

    /// Whether nothing is to be there.
    pub(crate) fn is_guard(self) -> bool {
        self.protection == Protection::GUARD
    }
}
