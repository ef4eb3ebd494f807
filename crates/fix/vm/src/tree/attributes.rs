//! Attributes of mapped pages: protection and backing.

use core::ptr::NonNull;

use crate::page::Protection;

/// The attributes that all pages of an extent share, like the flags and file of a VMA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// Permitted accesses.
    pub(crate) protection: Protection,
    /// The object mapping that provides the pages; `None` for anonymous memory.
    pub(crate) backing: Option<BackingId>,
}

/// An opaque handle of a [backing](crate::backing). The tree itself stores and compares the handle, but never
/// dereferences it.
///
/// A backing lives as long as any page is mapped by it. Code that has locked a node and read the id from
/// one of the node's pages may therefore dereference the id.
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
    /// Anonymous memory, zeroed on first access.
    pub(crate) const fn anonymous(protection: Protection) -> Attributes {
        Attributes { protection, backing: None }
    }

    /// Whether these are guard pages.
    pub(crate) fn is_guard(self) -> bool {
        self.protection == Protection::GUARD
    }
}
