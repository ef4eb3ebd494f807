//! Per-frame metadata.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use core::sync::atomic::{AtomicBool, AtomicU8};

use knee_sync::shim::{AtomicU64, order};

use crate::machine::pins::Pins;
use crate::page::{Frame, Page};

/// Metadata of a frame, like `struct page` in Linux: a cache line of the embedder's memory. CPUs that use
/// adjacent frames do not share a line.
///
/// Metadata starts as [`FrameMeta::default`], all of whose bytes are zero. So a kernel may use zeroed
/// memory, aligned to 64 bytes, as an array of metadata.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct FrameMeta {
    /// Link in a list of frames to free, or the ticket of a lingering entry.
    pub(crate) next: Cell<u64>,
    /// For a private frame: the number of entries that map it, minus one.
    shares: AtomicU64,
    /// The kind of owner, one of the constants below. Only the exclusive owner of the frame changes it,
    /// except that any CPU may set [`DIRTY`].
    owner: AtomicU8,
    /// For a private frame: true if no CPU can have written to the frame since the last call of
    /// [`set_clean`](FrameMeta::set_clean).
    clean: AtomicBool,
    /// Changed only under the lock of an entry that maps the frame, except that any CPU may remove its own
    /// pin.
    pub(crate) pins: Pins,
    /// For a private frame: the origin of the space that allocated the frame, and the frame's page in that
    /// space. Protected by the lock of an entry that maps the frame.
    origin: Cell<Option<OriginId>>,
    page: Cell<Page>,
}

/// Opaque handle of the [origin](crate::space::lineage) of a page. This module only stores and compares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct OriginId(NonNull<()>);

impl OriginId {
    pub(crate) fn new(origin: NonNull<()>) -> OriginId {
        OriginId(origin)
    }

    pub(crate) fn pointer(self) -> NonNull<()> {
        self.0
    }
}

/// The frame is either private to spaces or free; this value does not tell which.
const PRIVATE: u8 = 0;
/// Owned by an object; entries are not counted.
const OBJECT: u8 = 1;
/// Owned by an object, and written since the pager provided it.
const DIRTY: u8 = 2;

// SAFETY: the cells are written only by the exclusive owner of the frame, or under the lock of an entry that
// maps the frame. Later readers synchronize with the writer through that lock.
unsafe impl Sync for FrameMeta {}
// SAFETY: as for `Sync`; the origin is an opaque handle, never dereferenced here.
unsafe impl Send for FrameMeta {}

impl FrameMeta {
    /// Links the frame into a list. The caller must own the frame exclusively.
    pub(crate) fn set_next(&self, next: Option<Frame>) {
        self.next.set(next.map_or(u64::MAX, |frame| frame.0));
    }

    /// Takes the link to the next frame. The caller must own the frame exclusively.
    pub(crate) fn take_next(&self) -> Option<Frame> {
        Some(Frame(self.next.replace(u64::MAX))).filter(|frame| frame.0 != u64::MAX)
    }

    /// Records when the only entry of the frame began to [linger](crate::Space::set_lazy). Callers of this
    /// function and of [`ticket`](Self::ticket) must hold the lock of that entry.
    pub(crate) fn set_ticket(&self, ticket: u64) {
        self.next.set(ticket);
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.next.get()
    }

    /// Records that the frame is private, and belongs to page `page` of `origin`. The caller must own the
    /// frame exclusively, or hold the lock of the only entry that maps it.
    #[inline]
    pub(crate) fn set_origin(&self, origin: OriginId, page: Page) {
        self.origin.set(Some(origin));
        self.page.set(page);
    }

    /// Returns the origin of a private frame, and the frame's page in the origin. The caller must hold the
    /// lock of an entry that maps the frame.
    pub(crate) fn origin(&self) -> (OriginId, Page) {
        (self.origin.get().expect("a private frame has an origin"), self.page.get())
    }

    /// Records that a private frame may be written from now on. The caller must hold the lock of an entry
    /// that maps the frame, or own the frame exclusively.
    #[inline]
    pub(crate) fn set_written(&self) {
        if self.clean.load(Relaxed) {
            self.clean.store(false, Relaxed);
        }
    }

    /// Records that no CPU writes to a private frame from now on. No entry that maps the frame may allow
    /// writes. The caller must hold the lock of an entry that maps the frame.
    pub(crate) fn set_clean(&self) {
        self.clean.store(true, Relaxed);
    }

    /// Returns whether a private frame may have been written since [`set_clean`](FrameMeta::set_clean).
    pub(crate) fn is_written(&self) -> bool {
        !self.clean.load(Relaxed)
    }

    /// Returns whether the frame is pinned. While the caller holds the locks of all entries that map the
    /// frame, no CPU can pin the frame.
    #[inline]
    pub(crate) fn is_pinned(&self) -> bool {
        self.pins.count() > 0
    }

    /// Returns whether an object owns the frame.
    #[inline]
    pub(crate) fn is_object(&self) -> bool {
        self.owner.load(Relaxed) != PRIVATE
    }

    /// If `is_object`, makes the frame a clean page of an object. If `is_object` is false, records that no
    /// object owns the frame.
    pub(crate) fn set_object(&self, is_object: bool) {
        self.owner.store(if is_object { OBJECT } else { PRIVATE }, Relaxed);
    }

    /// Marks an object's frame dirty: it was written, or may be written from now on.
    pub(crate) fn set_dirty(&self) {
        if self.owner.load(Relaxed) != DIRTY {
            self.owner.store(DIRTY, Relaxed);
        }
    }

    /// Returns whether an object's frame has content that the object's pager does not have. Must be called
    /// only while no CPU can write to the frame.
    pub(crate) fn is_dirty(&self) -> bool {
        self.owner.load(Relaxed) == DIRTY
    }

    /// Returns whether more than one entry maps the frame. A new entry is counted under the lock of an entry
    /// that already maps the frame. So if only one entry maps the frame, no other entry is added while the
    /// caller holds the lock of that entry. Acquire: all accesses through an entry that has been released
    /// happen before this load.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.shares.load(order!(Acquire, "shares_load")) > 0
    }

    /// Counts one more entry that maps the frame.
    pub(crate) fn share(&self) {
        self.shares.fetch_add(1, Relaxed);
    }

    /// Drops the reference that an entry holds. No CPU may be able to access the frame through that
    /// entry any more. Returns whether the reference was the last one.
    pub(crate) fn release(&self) -> bool {
        let is_last =
            !self.is_shared() || self.shares.fetch_sub(1, order!(AcqRel, "shares_release")) == 0;
        if is_last {
            // Two concurrent releases may both see a nonzero count. The second decrement then finds 0 and
            // wraps around, so store 0 again.
            self.shares.store(0, Relaxed);
        }
        is_last
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn zeroed_memory_is_the_default() {
        // SAFETY: zero bytes are valid for integers, and for an `Option<NonNull>` in a transparent type.
        let zeroed: FrameMeta = unsafe { core::mem::zeroed() };
        assert_eq!(format!("{zeroed:?}"), format!("{:?}", FrameMeta::default()));
    }
}
