//! Frames that a CPU has taken from the machine.

use alloc::vec::Vec;

use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::page::{Frame, PAGE};

/// Frames that a CPU takes from the machine at once, and gives back at once.
const BATCH: usize = 32;

/// Free frames of a CPU, and a page of zeros for the next fault.
#[derive(Debug, Default)]
pub(crate) struct FramePool {
    page: Option<Frame>,
    free: Vec<Frame>,
}

impl FramePool {
    /// A frame of zeros.
    pub(crate) fn page(&mut self) -> Result<Frame, Needed> {
        self.page.take().ok_or(Needed::Page)
    }

    /// Whether there is one.
    pub(crate) fn has_page(&self) -> Result<(), Needed> {
        if self.page.is_some() { Ok(()) } else { Err(Needed::Page) }
    }

    /// Takes back what was not needed, and is zero still.
    pub(crate) fn keep_page(&mut self, page: Frame) {
        debug_assert!(self.page.is_none(), "there is one");
        self.page = Some(page);
    }

    /// Allocates a page of zeros if there is none.
    #[inline]
    pub(crate) fn refill_page<M: Machine>(&mut self, machine: &M) -> Result<(), OutOfMemory> {
        if self.page.is_none() {
            self.page = Some(self.zeroed(machine)?);
        }
        Ok(())
    }

    /// A frame of zeros.
    pub(crate) fn zeroed<M: Machine>(&mut self, machine: &M) -> Result<Frame, OutOfMemory> {
        if self.free.is_empty() {
            self.free.try_reserve(2 * BATCH)?;
            let mut new = [Frame(0); BATCH];
            let count = machine.allocate(&mut new);
            self.free.extend_from_slice(&new[..count]);
        }
        let frame = self.free.pop().ok_or(OutOfMemory)?;
        if !M::ZEROED {
            // SAFETY: the frame is ours, of this size.
            unsafe { machine.address(frame).write_bytes(0, PAGE) };
        }
        Ok(frame)
    }

    /// Gives a frame back that no CPU can go to any more.
    ///
    /// # Safety
    /// As of [`Machine::free`].
    pub(crate) unsafe fn free<M: Machine>(&mut self, machine: &M, frame: Frame) {
        if M::ZEROED || self.free.capacity() < 2 * BATCH {
            // SAFETY: the caller promises it.
            return unsafe { machine.free(&[frame]) };
        }
        if self.free.len() == 2 * BATCH {
            // SAFETY: the callers promised it when they gave us these frames.
            unsafe { machine.free(&self.free[BATCH..]) };
            self.free.truncate(BATCH);
        }
        machine.frame_recycled(frame);
        self.free.push(frame);
    }

    /// Gives all frames back to the machine.
    pub(crate) fn free_all<M: Machine>(&mut self, machine: &M) {
        for frame in self.free.drain(..).chain(self.page.take()) {
            // SAFETY: the frames are ours alone.
            unsafe { machine.free(&[frame]) };
        }
    }
}
