//! The retired objects of one thread.

use alloc::vec::Vec;

use crate::biased::Biased;
use crate::calls::Calls;
use crate::padded::Padded;
use crate::primitive::AtomicBool;

/// An object that is unlinked.
pub(super) struct Retired {
    pub(super) pointer: *mut (),
    pub(super) free: unsafe fn(*mut ()),
}

// SAFETY: the contract of `Handle::retire` allows any thread to free it.
unsafe impl Send for Retired {}

impl Retired {
    /// # Safety
    /// The object is unlinked, and no guard protects it.
    pub(super) unsafe fn free(self) {
        // SAFETY: `retire_with` was given a `free` for this pointer, and the caller guarantees that no
        // guard protects it. As it is unlinked, no later guard does.
        unsafe { (self.free)(self.pointer) };
    }
}

/// The retired objects of a thread, which other threads' barriers may take. In cache lines of its own, apart
/// from the link to the next record, which scans read.
#[repr(align(128))]
pub(super) struct Garbage {
    pub(super) list: Biased<Vec<Retired>>,
    /// The owner's calls of destructors.
    pub(super) calls: Calls,
    /// The record has no owner, and its list may have objects. On a line of its own, because all threads that
    /// reclaim read it.
    pub(super) is_orphaned: Padded<AtomicBool>,
}

impl Garbage {
    pub(super) fn new() -> Garbage {
        Garbage {
            list: Biased::new(Vec::new()),
            calls: Calls::new(),
            is_orphaned: Padded(AtomicBool::new(false)),
        }
    }
}
