//! Who has the content of an object's pages.

use crate::page::PAGE;

/// Brings pages of an [`Object`](crate::Object) in and out: a file system, a swap device, a network.
///
/// It is called without locks and outside of epochs, on the CPU that faults or evicts, and may sleep if the
/// embedder's CPUs can. One that would rather not says [`Retry`](PagerError::Retry). It does not ask the
/// object to give pages back, as it is asked for one, and does not panic.
pub trait Pager: Send + Sync {
    /// Writes the content of this page of the object, which is zero now. Nobody else is asked for this page
    /// meanwhile.
    ///
    /// # Errors
    /// See [`PagerError`].
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError>;

    /// Keeps the content of this page of the object, to which nobody writes meanwhile.
    ///
    /// # Errors
    /// See [`PagerError`]. The page stays as it is.
    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError>;
}

/// Why a page did not come or go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PagerError {
    /// It is on its way: who has asked has to come again.
    Retry,
    /// It will not come or go, for an error of the device.
    Failed,
}
