//! The interface to the backing store of an object.

use core::fmt;

use crate::page::PAGE;

/// Transfers pages of an [`Object`](crate::Object) between memory and its backing store: a file system or a
/// network. A pager can also be the device of a [`Swap`](crate::Swap) area; each page index is then a slot
/// number.
///
/// This crate calls the methods on the CPU that faults, evicts or writes back, with no locks held and outside
/// of read-side critical sections. A method may sleep if the embedder supports that, or may return
/// [`Retry`](PagerError::Retry) instead. It must not resize the object, must not evict, discard or write back
/// the object's pages, and must not panic. A swap device [may panic](crate::Swap), but must not access or
/// swap out private pages of spaces that use the device. Other operations on the same CPU are allowed, even
/// faults on pages of other objects.
///
/// Dirty pages are not written back implicitly. When the object's last mapping is gone and the
/// [`Object`](crate::Object) is dropped, or when pages are [discarded](crate::Object::discard) or cut off by
/// [`resize`](crate::Object::resize), dirty pages are lost: [`page_out`](Pager::page_out) is not called. So a
/// file system must call [`write_back`](crate::Object::write_back) before it drops the object. To truncate a
/// file, a file system must first shrink the object, and then shrink the backing store. If the object grows
/// again later, the added pages are read from the pager.
///
/// The pager is dropped together with the object, possibly within the `unmap` that removes the last mapping.
pub trait Pager: Send + Sync {
    /// Fills `page` with the content of page `index` of the object. At the call, `page` contains zeros. No
    /// other call for this page runs at the same time.
    ///
    /// # Errors
    /// See [`PagerError`].
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError>;

    /// Stores `page` as the content of page `index` of the object. No CPU writes to `page` during the call.
    ///
    /// # Errors
    /// See [`PagerError`]. After an error, the page stays resident and dirty.
    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError>;
}

/// Why a page was not transferred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PagerError {
    /// The transfer is in progress. The access that needs the page must be retried.
    Retry,
    /// The transfer failed with a device error.
    Failed,
}

impl fmt::Display for PagerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            PagerError::Retry => "the transfer is in progress; retry the access",
            PagerError::Failed => "the transfer failed",
        })
    }
}

impl core::error::Error for PagerError {}
