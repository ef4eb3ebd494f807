//! A disk in memory, for the pages of an object or for a swap area.

use alloc::boxed::Box;
use core::cell::UnsafeCell;

use knee_vm::{PAGE, Pager, PagerError};

/// A disk in memory.
pub(super) struct Disk(Box<[UnsafeCell<[u8; PAGE]>]>);

// SAFETY: no two calls of a pager use one page at the same time.
unsafe impl Sync for Disk {}
// SAFETY: as for `Sync`.
unsafe impl Send for Disk {}

impl Disk {
    /// A disk of this number of pages.
    pub(super) fn new(pages: u64) -> Box<Disk> {
        Box::new(Disk((0..pages).map(|_| UnsafeCell::new([0; PAGE])).collect()))
    }
}

impl Pager for Disk {
    fn page_in(&self, index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        // SAFETY: no other call uses this page of the disk.
        page.copy_from_slice(unsafe { &*self.0[index as usize].get() });
        Ok(())
    }

    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        // SAFETY: as for `page_in`.
        unsafe { (*self.0[index as usize].get()).copy_from_slice(page) };
        Ok(())
    }
}
