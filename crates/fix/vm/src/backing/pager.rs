//! The interface to the backing store of an object.

use crate::page::PAGE;

/// Transfers pages of an [`Object`](crate::Object) between memory and its backing store: a file system, a
/// swap device, a network.
///
/// This crate calls the methods on the CPU that faults or evicts, with no locks held and outside of
/// read-side critical sections. A method may sleep if the embedder supports that, or may return
/// [`Retry`](PagerError::Retry) instead. It must not resize the object, must not evict, discard or write
/// back the object's pages, and must not panic.
pub trait Pager: Send + Sync {
    /// Fills `page`, which is zeroed, with the content of page `index` of the object. No other call for
    /// this page runs at the same time.
    ///
    /// # Errors
    /// See [`PagerError`].
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError>;

    /// Stores `page` as the content of page `index` of the object. No CPU writes to `page` during the call.
    ///
    /// # Errors
    /// See [`PagerError`]. The page stays resident and unchanged.
    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError>;
}

/// Why a page was not transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PagerError {
    /// The transfer is in progress; the caller must retry the access.
    Retry,
    /// The transfer failed with a device error.
    Failed,
}
