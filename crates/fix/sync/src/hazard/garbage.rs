//! The retired objects of one thread.

use alloc::vec::Vec;

use crate::biased::Biased;
use crate::calls::Calls;
use crate::padded::Padded;
use crate::primitive::AtomicBool;

/// An unlinked object, and the function that frees it.
pub(super) struct Retired {
    pub(super) pointer: *mut (),
    pub(super) free: unsafe fn(*mut ()),
}

// SAFETY: the contract of `Handle::retire` allows any thread to free the object.
unsafe impl Send for Retired {}

impl Retired {
    /// # Safety
    /// The object is unlinked, and no guard protects it.
    pub(super) unsafe fn free(self) {
        // SAFETY: the caller of `retire_with` guarantees that `free` may free this pointer. The caller of
        // this function guarantees that the object is unlinked and that no guard protects it, so no later
        // guard can protect it.
        unsafe { (self.free)(self.pointer) };
    }
}

/// The retired objects of a thread. Barriers of other threads may take these objects. The owner writes this
/// struct often, and every reclaiming thread reads the link to the next record, so the two are in different
/// cache lines.
#[repr(align(128))]
pub(super) struct Garbage {
    pub(super) list: Biased<Vec<Retired>>,
    /// Whether the owner is calling destructors.
    pub(super) calls: Calls,
    /// Whether the record has no owner, but may have objects in its list. This flag is on a cache line of its
    /// own, because every reclaiming thread reads it.
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
