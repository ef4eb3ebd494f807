//! The reference-counted part of an object.

use alloc::boxed::Box;
use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::{Acquire, SeqCst};
use core::sync::atomic::{AtomicBool, AtomicU64, fence};

use crate::backing::attachments::Attachments;
use crate::backing::index::BlockPool;
use crate::backing::index::{Index, State};
use crate::backing::pager::Pager;
use crate::error::Fault;
use crate::machine::Machine;
use crate::machine::frame_pool::FramePool;
use crate::needed::Needed;
use crate::page::Frame;

/// What there is of an object as long as anybody holds it.
pub(crate) struct ObjectCore {
    pub(crate) index: Index,
    /// How many pages it has.
    pub(crate) len: AtomicU64,
    pub(crate) pager: Option<Box<dyn Pager>>,
    pub(crate) attachments: Attachments,
    /// Somebody takes pages out.
    pub(crate) is_busy: AtomicBool,
}

impl fmt::Debug for ObjectCore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectCore").field("len", &self.len).finish_non_exhaustive()
    }
}

/// What a fault finds.
pub(crate) enum Found {
    /// It is there.
    Frame(Frame),
    /// The pager has it.
    Away,
    /// The access can not go on.
    Fault(Fault),
}

impl ObjectCore {
    /// Looks for a page, under the lock of the leaf that is to have it: who takes it out of the object looks
    /// there afterwards.
    #[inline]
    pub(crate) fn find<M: Machine>(
        &self,
        machine: &M,
        index: u64,
        blocks: &mut BlockPool,
        frames: &mut FramePool,
    ) -> Result<Found, Needed> {
        if index >= self.len.load(Acquire) {
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
                // Somebody else has brought one, or the object ends before by now.
                Err(Needed::Retry)
            }
        }
    }

    /// Whether the page is one of the object after it was said to be coming. Who makes the object shorter says
    /// so and then looks for pages, and waits for those that come: one of us sees what the other has done.
    pub(crate) fn is_within(&self, index: u64) -> bool {
        fence(SeqCst);
        index < self.len.load(Acquire)
    }

    /// Whether its pager wants to know who writes.
    #[inline]
    pub(crate) fn has_pager(&self) -> bool {
        self.pager.is_some()
    }

    /// Whether the page has this frame, and nobody is about to take it out. As with [`find`](ObjectCore::find).
    pub(crate) fn has(&self, index: u64, frame: Frame) -> bool {
        self.index.find(index).is_some_and(|slot| slot.get() == State::Present(frame))
    }

    /// Frees an object and its frames.
    ///
    /// # Safety
    /// It came from a box, and nobody holds it any more.
    pub(crate) unsafe fn free<M: Machine>(core: NonNull<ObjectCore>, machine: &M) {
        // SAFETY: said by the caller.
        let core = unsafe { Box::from_raw(core.as_ptr()) };
        core.index.for_each(0..u64::MAX, |_, slot| {
            if let State::Present(frame) = slot.get() {
                machine.frame_meta(frame).set_object(false);
                // SAFETY: no space has it, as none has the object.
                unsafe { machine.free(&[frame]) };
            }
        });
    }
}

/// An object that is held for a while.
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
        // SAFETY: we hold it.
        unsafe { self.core.as_ref() }
    }
}

impl<M: Machine> Drop for PinnedObject<'_, M> {
    fn drop(&mut self) {
        // SAFETY: we have held it.
        unsafe {
            if self.core.as_ref().attachments.put_refs(1) {
                ObjectCore::free(self.core, self.machine);
            }
        }
    }
}
