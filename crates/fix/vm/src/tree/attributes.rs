//! What a run of pages is.

use core::ptr::NonNull;

use crate::backing::Backing;
use crate::page::Protection;

/// What is the same for all pages of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// What may be done.
    pub(crate) protection: Protection,
    /// What object they are of; none if they are the space's own, zero at first.
    ///
    /// It is there as long as any page is mapped by it: whoever has the lock of a node and finds it by a page
    /// may look at it.
    pub(crate) backing: Option<NonNull<Backing>>,
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

    /// The backing, if there is one.
    ///
    /// # Safety
    /// A page is mapped by it, and that stays so as long as the result is used.
    pub(crate) unsafe fn backing<'a>(self) -> Option<&'a Backing> {
        // SAFETY: said by the caller.
        self.backing.map(|backing| unsafe { backing.as_ref() })
    }
}
