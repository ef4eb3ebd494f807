//! Per-CPU pool of free frames.

use alloc::vec::Vec;
use core::mem;

use crate::error::OutOfMemory;
use crate::machine::Machine;
use crate::needed::Needed;
use crate::page::{ENTRIES, Frame, PAGE};

/// The number of frames that the pool allocates from the machine, or returns to it, at a time.
const BATCH: usize = 32;

/// Free frames of a CPU, and a zeroed page for the next fault.
#[derive(Debug, Default)]
pub(crate) struct FramePool {
    page: Option<Frame>,
    large: LargePage,
    free: Vec<Frame>,
}

/// Whether the pool has a zeroed large page for the next fault.
#[derive(Debug, Default, Clone, Copy)]
enum LargePage {
    #[default]
    Unknown,
    /// The pool has a large page, which begins with this frame.
    Ready(Frame),
    /// The machine had no large page when the caller last asked for one.
    None,
}

impl FramePool {
    /// Takes the zeroed frame.
    pub(crate) fn page(&mut self) -> Result<Frame, Needed> {
        self.page.take().ok_or(Needed::Page)
    }

    /// Checks that there is a zeroed frame.
    pub(crate) fn has_page(&self) -> Result<(), Needed> {
        if self.page.is_some() { Ok(()) } else { Err(Needed::Page) }
    }

    /// Returns whether the pool has a zeroed large page, or an error if the caller must ask the machine for
    /// one. If the machine had none when it was asked, this call returns false, and the next call returns the
    /// error again.
    pub(crate) fn has_large_page(&mut self) -> Result<bool, Needed> {
        match self.large {
            LargePage::Unknown => Err(Needed::LargePage),
            LargePage::Ready(_) => Ok(true),
            LargePage::None => {
                self.large = LargePage::Unknown;
                Ok(false)
            }
        }
    }

    /// Whether [`has_large_page`](Self::has_large_page) would return an error.
    pub(crate) fn needs_large_page(&self) -> bool {
        matches!(self.large, LargePage::Unknown)
    }

    /// Takes the zeroed large page, and returns its first frame. [`has_large_page`](Self::has_large_page)
    /// must have returned true.
    pub(crate) fn large_page(&mut self) -> Frame {
        match mem::take(&mut self.large) {
            LargePage::Ready(first) => first,
            _ => unreachable!("`has_large_page` returned true"),
        }
    }

    /// Tries to allocate a zeroed large page.
    #[cold]
    pub(crate) fn refill_large_page<M: Machine>(&mut self, machine: &M) {
        if let LargePage::Ready(_) = self.large {
            return;
        }
        self.large = match machine.allocate_large() {
            Some(first) => {
                if !M::ZEROED {
                    // SAFETY: the pool owns the frames exclusively, and their addresses are consecutive.
                    unsafe { machine.address(first).write_bytes(0, ENTRIES * PAGE) };
                }
                LargePage::Ready(first)
            }
            None => LargePage::None,
        };
    }

    /// Takes back an unused frame, which must still be zeroed.
    pub(crate) fn keep_page(&mut self, page: Frame) {
        debug_assert!(self.page.is_none(), "the pool already has a zeroed frame");
        self.page = Some(page);
    }

    /// Ensures that the pool has a zeroed frame.
    #[inline]
    pub(crate) fn refill_page<M: Machine>(&mut self, machine: &M) -> Result<(), OutOfMemory> {
        if self.page.is_none() {
            self.page = Some(self.zeroed(machine)?);
        }
        Ok(())
    }

    /// Allocates a zeroed frame. If the machine has none left, gives an unused large page back first.
    pub(crate) fn zeroed<M: Machine>(&mut self, machine: &M) -> Result<Frame, OutOfMemory> {
        if self.free.is_empty() {
            self.free.try_reserve(2 * BATCH)?;
            let mut new = [Frame(0); BATCH];
            let mut count = machine.allocate(&mut new);
            if count == 0 && self.free_large(machine) {
                count = machine.allocate(&mut new);
            }
            self.free.extend_from_slice(&new[..count]);
        }
        let frame = self.free.pop().ok_or(OutOfMemory)?;
        if !M::ZEROED {
            // SAFETY: the pool owns the frame exclusively, and `address` is valid for `PAGE` bytes.
            unsafe { machine.address(frame).write_bytes(0, PAGE) };
        }
        Ok(frame)
    }

    /// Frees a frame.
    ///
    /// # Safety
    /// See [`Machine::free`].
    pub(crate) unsafe fn free<M: Machine>(&mut self, machine: &M, frame: Frame) {
        if M::ZEROED || self.free.capacity() < 2 * BATCH {
            // SAFETY: the caller meets the contract of `Machine::free`.
            return unsafe { machine.free(&[frame]) };
        }
        if self.free.len() == 2 * BATCH {
            // SAFETY: the frames in the pool are allocated, and the callers of `free` guaranteed that no
            // CPU can access them.
            unsafe { machine.free(&self.free[BATCH..]) };
            self.free.truncate(BATCH);
        }
        machine.frame_recycled(frame);
        self.free.push(frame);
    }

    /// Returns the large page to the machine. Returns whether the pool had one.
    fn free_large<M: Machine>(&mut self, machine: &M) -> bool {
        let LargePage::Ready(first) = mem::take(&mut self.large) else { return false };
        // SAFETY: the pool owns the frames exclusively, and no CPU can access them.
        unsafe { machine.free_large(first) };
        true
    }

    /// Returns all frames to the machine.
    pub(crate) fn free_all<M: Machine>(&mut self, machine: &M) {
        self.free_large(machine);
        for frame in self.free.drain(..).chain(self.page.take()) {
            // SAFETY: the pool owns the frames exclusively, and no CPU can access them.
            unsafe { machine.free(&[frame]) };
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    use crate::hosted::Hosted;

    #[test]
    fn an_unused_large_page_is_used_before_memory_runs_out() {
        let machine = Hosted::new(2 * ENTRIES, 1);
        let mut pool = FramePool::default();
        assert_eq!(pool.has_large_page(), Err(Needed::LargePage));
        pool.refill_large_page(&machine);
        assert_eq!(pool.has_large_page(), Ok(true));
        for _ in 0..2 * ENTRIES {
            pool.zeroed(&machine).unwrap();
        }
        assert!(pool.zeroed(&machine).is_err());
        assert_eq!(pool.has_large_page(), Err(Needed::LargePage));
    }
}
