//! What this crate keeps of each frame.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use knee_sync::shim::{AtomicU64, order};

use crate::page::Frame;

/// What this crate keeps of each frame, as Linux does in `struct page`: a cache line of the embedder's memory, zero at first. CPUs that use
/// frames next to each other share nothing.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct FrameMeta {
    /// The next in a list of frames that are on their way back, or what an entry that lingers has.
    pub(crate) next: Cell<u64>,
    /// Entries of tables that have the frame, beside one, if it is a space's own.
    shares: AtomicU64,
    /// Whose it is: one of the constants below. Changed by who has the frame for itself, but for [`DIRTY`].
    owner: AtomicU8,
    /// Where a space's own came to be, and at which page there. Under the lock of an entry that has it.
    origin: Cell<Option<OriginId>>,
    index: Cell<u64>,
}

/// Stands for the [origin](crate::space::lineage) of a page, which is stored and compared here and never looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OriginId(NonNull<()>);

impl OriginId {
    pub(crate) fn new(origin: NonNull<()>) -> OriginId {
        OriginId(origin)
    }

    pub(crate) fn pointer(self) -> NonNull<()> {
        self.0
    }
}

/// It is a space's own, or nobody's.
const PRIVATE: u8 = 0;
/// It is an object's, which entries do not count in.
const OBJECT: u8 = 1;
/// It is an object's, and somebody has written to it since it came from its pager.
const DIRTY: u8 = 2;

// SAFETY: cells are written by whoever has the frame for itself, and read by others that have it since.
unsafe impl Sync for FrameMeta {}
// SAFETY: as above.
unsafe impl Send for FrameMeta {}

impl FrameMeta {
    /// Puts it into a list. By who has the frame for itself.
    pub(crate) fn set_next(&self, next: Option<Frame>) {
        self.next.set(next.map_or(u64::MAX, |frame| frame.0));
    }

    /// The next in the list. By who has the frame for itself.
    pub(crate) fn take_next(&self) -> Option<Frame> {
        Some(Frame(self.next.replace(u64::MAX))).filter(|frame| frame.0 != u64::MAX)
    }

    /// Its entry [lingers](crate::Space::set_lazy), and no other has it: when that began. Under the lock of
    /// the entry, as below.
    pub(crate) fn set_ticket(&self, ticket: u64) {
        self.next.set(ticket);
    }

    pub(crate) fn ticket(&self) -> u64 {
        self.next.get()
    }

    /// It is a space's own that came to be at this page. By who has the only entry that has it, or will have.
    #[inline]
    pub(crate) fn set_origin(&self, origin: OriginId, page: u64) {
        self.origin.set(Some(origin));
        self.index.set(page);
    }

    /// Where it came to be. Under the lock of an entry that has it, which is a space's own.
    pub(crate) fn origin(&self) -> (OriginId, u64) {
        (self.origin.get().expect("it has come to be"), self.index.get())
    }

    /// Whether it is an object's.
    #[inline]
    pub(crate) fn is_object(&self) -> bool {
        self.owner.load(Relaxed) != PRIVATE
    }

    /// It is an object's from now on, which its pager knows all of; or a space's or nobody's.
    pub(crate) fn set_object(&self, is_object: bool) {
        self.owner.store(if is_object { OBJECT } else { PRIVATE }, Relaxed);
    }

    /// Somebody has written to it, or could. It is an object's.
    pub(crate) fn set_dirty(&self) {
        if self.owner.load(Relaxed) != DIRTY {
            self.owner.store(DIRTY, Relaxed);
        }
    }

    /// Whether somebody has written to it that its pager does not know of. It is an object's, and no CPU can
    /// write to it.
    pub(crate) fn is_dirty(&self) -> bool {
        self.owner.load(Relaxed) == DIRTY
    }

    /// Whether other entries have it, too. Who has the lock of the only one that has it is told no, and
    /// that stays so. Acquire: what was done by way of the others is over.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.shares.load(order!(Acquire, "shares_load")) > 0
    }

    /// Another entry has it.
    pub(crate) fn share(&self) {
        self.shares.fetch_add(1, Relaxed);
    }

    /// An entry has it no more, and no CPU goes there by it. Whether none has it now.
    pub(crate) fn release(&self) -> bool {
        let is_last =
            !self.is_shared() || self.shares.fetch_sub(1, order!(AcqRel, "shares_release")) == 0;
        if is_last {
            // Two that were the last at once have both counted.
            self.shares.store(0, Relaxed);
        }
        is_last
    }
}
