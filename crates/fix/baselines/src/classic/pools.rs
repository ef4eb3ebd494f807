//! Frames that each CPU keeps for itself, as kernels do.

use std::cell::UnsafeCell;

use crossbeam_utils::CachePadded;
use knee_vm::{Cpu, Frame, Machine, OutOfMemory, PAGE};

/// Frames that a CPU takes from the machine at once, and gives back at once.
const BATCH: usize = 32;

/// A pool for each CPU of a machine.
#[derive(Debug)]
pub(super) struct Pools<'m, M: Machine> {
    machine: &'m M,
    pools: Box<[CachePadded<UnsafeCell<Pool>>]>,
}

#[derive(Debug)]
struct Pool {
    /// Of zeros.
    page: Option<Frame>,
    /// With whatever content.
    frames: Vec<Frame>,
}

// SAFETY: a CPU's pool is used by the owner of the `Cpu` with its number alone, see `with`.
unsafe impl<M: Machine> Sync for Pools<'_, M> {}

impl<'m, M: Machine> Pools<'m, M> {
    pub(super) fn new(machine: &'m M) -> Pools<'m, M> {
        let pool = || Pool { page: None, frames: Vec::with_capacity(2 * BATCH) };
        let pools = (0..machine.cpus()).map(|_| CachePadded::new(UnsafeCell::new(pool())));
        Pools { machine, pools: pools.collect() }
    }

    /// Calls `with` with the CPU's pool. It uses none of these functions.
    #[inline]
    fn with<R>(&self, cpu: &Cpu<'m, M>, with: impl FnOnce(&mut Pool) -> R) -> R {
        // SAFETY: there is one `Cpu` of this number, says the caller of `Cpu::new`, and one thread uses it,
        // as it is not `Sync`. The CPU is of our machine, which each operation of a space checks first.
        with(unsafe { &mut *self.pools[cpu.number()].get() })
    }

    /// A frame of zeros.
    pub(super) fn zeroed(&self, cpu: &Cpu<'m, M>) -> Result<Frame, OutOfMemory> {
        self.with(cpu, |pool| pool.zeroed(self.machine))
    }

    /// Has a page ready for [`page`](Pools::page), if the machine has a frame.
    #[inline]
    pub(super) fn refill_page(&self, cpu: &Cpu<'m, M>) -> Result<(), OutOfMemory> {
        self.with(cpu, |pool| {
            if pool.page.is_none() {
                pool.page = Some(pool.zeroed(self.machine)?);
            }
            Ok(())
        })
    }

    /// A page of zeros, which takes no time.
    #[inline]
    pub(super) fn page(&self, cpu: &Cpu<'m, M>) -> Option<Frame> {
        self.with(cpu, |pool| pool.page.take())
    }

    /// Gives a frame back.
    ///
    /// # Safety
    /// As of [`Machine::free`].
    pub(super) unsafe fn free(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        if M::ZEROED {
            // SAFETY: passed on to the caller.
            return unsafe { self.machine.free(&[frame]) };
        }
        self.with(cpu, |Pool { frames, .. }| {
            if frames.len() == 2 * BATCH {
                // SAFETY: the pool owns them, and no CPU goes there.
                unsafe { self.machine.free(&frames[BATCH..]) };
                frames.truncate(BATCH);
            }
            self.machine.frame_recycled(frame);
            frames.push(frame);
        });
    }
}

impl Pool {
    fn zeroed<M: Machine>(&mut self, machine: &M) -> Result<Frame, OutOfMemory> {
        if self.frames.is_empty() {
            let mut new = [Frame(0); BATCH];
            let count = machine.allocate(&mut new);
            self.frames.extend_from_slice(&new[..count]);
        }
        let frame = self.frames.pop().ok_or(OutOfMemory)?;
        if !M::ZEROED {
            // SAFETY: the frame is the pool's, of this size.
            unsafe { machine.address(frame).write_bytes(0, PAGE) };
        }
        Ok(frame)
    }
}

impl<M: Machine> Drop for Pools<'_, M> {
    fn drop(&mut self) {
        for pool in &mut self.pools {
            let Pool { page, frames } = pool.get_mut();
            frames.extend(page.take());
            // SAFETY: the pool owns them, and no CPU goes there.
            unsafe { self.machine.free(frames) };
        }
    }
}
