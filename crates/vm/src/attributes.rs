//! What a run of pages is.

use crate::page::Protection;

/// What is the same for all pages of an extent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Attributes {
    /// What may be done.
    pub(crate) protection: Protection,
}

impl Attributes {
    /// Memory of the space's own, zero at first.
    pub(crate) const fn anonymous(protection: Protection) -> Attributes {
        Attributes { protection }
    }
}
