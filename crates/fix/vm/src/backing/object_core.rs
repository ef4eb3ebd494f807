//! The reference-counted part of an object.

use alloc::boxed::Box;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use knee_sync::shim::{AtomicBool, AtomicU64, Padded, fence, is_mutant, order, test_and_set};

use crate::backing::attachments::Attachments;
use crate::backing::index::BlockPool;
use crate::backing::index::{Index, State};
use crate::backing::pager::Pager;
use crate::error::Fault;
use crate::machine::Machine;
use crate::machine::format::MemoryType;
use crate::machine::frame_pool::FramePool;
use crate::needed::Needed;
use crate::page::{Frame, Protection};

/// Identifies an [object](crate::Object). Once the object is dropped and no longer mapped, a new object may
/// get the same id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(usize);

/// The part of an object that lives until the last reference is dropped.
pub(crate) struct ObjectCore {
    pub(crate) index: Index,
    /// Number of pages. Relaxed: this number publishes nothing, because each slot publishes its own page.
    len: AtomicU64,
    pub(crate) pager: Option<Box<dyn Pager>>,
    /// If set, the pages are device memory, and all slots of the index stay absent.
    pub(crate) device: Option<Device>,
    pub(crate) attachments: Attachments,
    /// Whether an operation that evicts, discards or writes back pages is in progress. This flag is on its
    /// own cache line, because each fault reads the fields above.
    is_busy: Padded<AtomicBool>,
}

/// Consecutive frames of device memory, which do not belong to the machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Device {
    pub(crate) first: Frame,
    pub(crate) pages: u64,
    pub(crate) memory: MemoryType,
    /// The accesses that programs may make, whatever their mappings allow.
    pub(crate) access: Protection,
}

impl Device {
    /// The frame of page `index` of the object.
    pub(crate) fn frame(&self, index: u64) -> Frame {
        Frame(self.first.0 + index)
    }
}

impl fmt::Debug for ObjectCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectCore").field("len", &self.len).finish_non_exhaustive()
    }
}

/// The outcome of a lookup for a fault.
pub(crate) enum Found {
    /// The page is resident.
    Frame(Frame),
    /// The pager must bring the page in.
    Away,
    /// The access cannot proceed.
    Fault(Fault),
}

impl ObjectCore {
    pub(crate) fn id(&self) -> ObjectId {
        ObjectId(core::ptr::from_ref(self).addr())
    }

    /// An object of `pages` pages. The caller owns the first reference; the reference count in `attachments`
    /// already includes it.
    pub(crate) fn new(
        index: Index,
        pages: u64,
        pager: Option<Box<dyn Pager>>,
        device: Option<Device>,
        attachments: Attachments,
    ) -> ObjectCore {
        let (len, is_busy) = (AtomicU64::new(pages), Padded(AtomicBool::new(false)));
        ObjectCore { index, len, pager, device, attachments, is_busy }
    }

    /// Looks up a page that is not device memory. If the page is absent and there is no pager, adds a zeroed
    /// page. The caller must hold the lock of the leaf that will map the page. To remove the page from
    /// the object, an operation first changes the page's state, and then locks this leaf to remove the PTE.
    /// So either `find` sees the new state, or the removing operation finds the PTE.
    #[inline]
    pub(crate) fn find<M: Machine>(
        &self,
        machine: &M,
        index: u64,
        blocks: &mut BlockPool,
        frames: &mut FramePool,
    ) -> Result<Found, Needed> {
        if index >= self.len() {
            return Ok(Found::Fault(Fault::BeyondEnd));
        }
        match self.index.find(index).map(|slot| slot.get()) {
            Some(State::Present(frame)) => Ok(Found::Frame(frame)),
            Some(State::Coming | State::Leaving(_)) => Ok(Found::Fault(Fault::Retry)),
            Some(State::Absent) | None if self.pager.is_some() => Ok(Found::Away),
            Some(State::Absent) | None => {
                let slot = self.index.make(index, blocks)?;
                let frame = frames.page()?;
                machine.frame_meta(frame).set_object(true);
                if slot.replace(State::Absent, State::Coming) {
                    if self.is_within(index) {
                        slot.set(State::Present(frame));
                        return Ok(Found::Frame(frame));
                    }
                    slot.set(State::Absent);
                }
                machine.frame_meta(frame).set_object(false);
                frames.keep_page(frame);
                // Another CPU has begun to add the page, or the object was truncated.
                Err(Needed::Retry)
            }
        }
    }

    /// The number of pages.
    #[inline]
    pub(crate) fn len(&self) -> u64 {
        self.len.load(Relaxed)
    }

    /// Sets the number of pages, and returns the former number. A truncation calls this before it scans the
    /// slots beyond the new end. The fence pairs with the fence in [`is_within`](ObjectCore::is_within).
    pub(crate) fn set_len(&self, pages: u64) -> u64 {
        let before = self.len.swap(pages, Relaxed);
        if !is_mutant!("set_len_no_fence") {
            fence(SeqCst);
        }
        before
    }

    /// Whether a page is still within the object. Must be called after the page's slot was set to `Coming`,
    /// or after the page was pinned. A truncation stores the new length and then scans the slots: it looks
    /// for pinned pages, and waits while a slot is `Coming`. The fences guarantee that the truncation sees
    /// the pin or the state `Coming`, unless this call sees the new length.
    pub(crate) fn is_within(&self, index: u64) -> bool {
        if !is_mutant!("is_within_no_fence") {
            fence(SeqCst);
        }
        index < self.len()
    }

    /// Begins an operation that evicts, discards or writes back pages. Returns false if another such
    /// operation is in progress.
    pub(crate) fn try_begin_eviction(&self) -> bool {
        !test_and_set(&self.is_busy, order!(Acquire, "eviction_begin"))
    }

    /// Ends the operation that [`try_begin_eviction`](ObjectCore::try_begin_eviction) began.
    pub(crate) fn end_eviction(&self) {
        self.is_busy.store(false, order!(Release, "eviction_end"));
    }

    /// Whether the object has a pager. Only objects with a pager track stores to their pages.
    #[inline]
    pub(crate) fn has_pager(&self) -> bool {
        self.pager.is_some()
    }

    /// Whether the page is resident in this frame, and is not being evicted or written back. The caller
    /// must hold the lock of the leaf, as for [`find`](ObjectCore::find).
    pub(crate) fn has(&self, index: u64, frame: Frame) -> bool {
        self.index.find(index).is_some_and(|slot| slot.get() == State::Present(frame))
    }

    /// Frees an object and its frames.
    ///
    /// # Safety
    /// `core` must come from a box, and its last reference must have been dropped.
    pub(crate) unsafe fn free<M: Machine>(core: NonNull<ObjectCore>, machine: &M) {
        // SAFETY: the caller guarantees that `core` comes from a box and has no users.
        let core = unsafe { Box::from_raw(core.as_ptr()) };
        core.index.for_each(0..u64::MAX, |_, slot| {
            if let State::Present(frame) = slot.get() {
                machine.frame_meta(frame).set_object(false);
                // SAFETY: the object has no attachments, so no PTE maps the frame.
                unsafe { machine.free(&[frame]) };
            }
        });
    }
}

/// A counted reference to an object, released on drop.
pub(crate) struct PinnedObject<'m, M: Machine> {
    machine: &'m M,
    core: NonNull<ObjectCore>,
}

impl<'m, M: Machine> PinnedObject<'m, M> {
    pub(crate) fn new(core: &ObjectCore, machine: &'m M) -> PinnedObject<'m, M> {
        core.attachments.get_ref();
        PinnedObject { machine, core: NonNull::from(core) }
    }

    pub(crate) fn machine(&self) -> &'m M {
        self.machine
    }

    pub(crate) fn core(&self) -> &ObjectCore {
        // SAFETY: `self` has a reference.
        unsafe { self.core.as_ref() }
    }
}

impl<M: Machine> Drop for PinnedObject<'_, M> {
    fn drop(&mut self) {
        // SAFETY: `self` owns a reference until `put_refs` drops it. If `put_refs` returns true, that was the
        // last reference, so the object has no other user.
        unsafe {
            if self.core.as_ref().attachments.put_refs(1) {
                ObjectCore::free(self.core, self.machine);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use std::cell::UnsafeCell;
    use std::thread;

    /// An object of one page, and the content of its frame.
    struct Shared {
        core: ObjectCore,
        content: UnsafeCell<u32>,
    }

    // SAFETY: slot states and the length serialize accesses to the content; Miri checks that.
    unsafe impl Sync for Shared {}

    impl Shared {
        fn use_content(&self) {
            // SAFETY: the caller has set the slot to `Coming` and found the page within the object, or has
            // truncated the object and waited until no page is `Coming`.
            unsafe { *self.content.get() += 1 };
        }
    }

    #[test]
    fn a_truncation_waits_for_an_incoming_page_or_keeps_it_out() {
        let attachments = Attachments::new(1).unwrap();
        let core = ObjectCore::new(Index::new(1).unwrap(), 1, None, None, attachments);
        let shared = Shared { core, content: UnsafeCell::new(0) };
        let slot = shared.core.index.find(0).expect("the root table exists");
        // Call both functions once before the threads start: in a build with mutants, the first call of a
        // function reads the environment, and this read would synchronize the threads.
        assert_eq!(shared.core.set_len(1), 1);
        assert!(shared.core.is_within(0));
        thread::scope(|scope| {
            let other = scope.spawn(|| {
                assert!(slot.replace(State::Absent, State::Coming));
                if shared.core.is_within(0) {
                    shared.use_content();
                }
                slot.set(State::Absent);
            });
            assert_eq!(shared.core.set_len(0), 1);
            while slot.get() == State::Coming {
                thread::yield_now();
            }
            shared.use_content();
            // Join the thread here: the scope's own wait executes a full fence, which would hide a missing
            // fence in the tested functions.
            other.join().unwrap();
        });
    }
}
