//! Per-CPU pools of frames, as in kernels.

use std::cell::UnsafeCell;

use crossbeam_utils::CachePadded;
use knee_vm::{Cpu, Frame, Machine, OutOfMemory, PAGE};

/// A CPU takes up to this many frames from the machine at a time, and returns this many at a time.
const BATCH: usize = 32;

/// A pool for each CPU of a machine.
#[derive(Debug)]
pub(super) struct Pools<'m, M: Machine> {
    machine: &'m M,
    pools: Box<[CachePadded<UnsafeCell<Pool>>]>,
}

#[derive(Debug)]
struct Pool {
    /// A frame of zeros, if one is prepared.
    page: Option<Frame>,
    /// Frames with arbitrary content.
    frames: Vec<Frame>,
}

// SAFETY: a pool is used only by the owner of the `Cpu` with the pool's number; see `with`.
unsafe impl<M: Machine> Sync for Pools<'_, M> {}

impl<'m, M: Machine> Pools<'m, M> {
    pub(super) fn new(machine: &'m M) -> Pools<'m, M> {
        let pool = || Pool { page: None, frames: Vec::with_capacity(2 * BATCH) };
        let pools = (0..machine.cpus()).map(|_| CachePadded::new(UnsafeCell::new(pool())));
        Pools { machine, pools: pools.collect() }
    }

    /// Passes the CPU's pool to `with`. `with` must not call functions of `self`.
    #[inline]
    fn with<R>(&self, cpu: &Cpu<'m, M>, with: impl FnOnce(&mut Pool) -> R) -> R {
        // SAFETY: the caller of `Cpu::new` guarantees that there is only one `Cpu` with this number, and only
        // one thread uses that `Cpu`, because it is not `Sync`. Each operation of a space has checked that
        // the CPU belongs to this machine.
        with(unsafe { &mut *self.pools[cpu.number()].get() })
    }

    /// Allocates a frame of zeros.
    pub(super) fn zeroed(&self, cpu: &Cpu<'m, M>) -> Result<Frame, OutOfMemory> {
        self.with(cpu, |pool| pool.zeroed(self.machine))
    }

    /// Prepares a frame for [`page`](Pools::page), if none is prepared yet.
    #[inline]
    pub(super) fn refill_page(&self, cpu: &Cpu<'m, M>) -> Result<(), OutOfMemory> {
        self.with(cpu, |pool| {
            if pool.page.is_none() {
                pool.page = Some(pool.zeroed(self.machine)?);
            }
            Ok(())
        })
    }

    /// Takes the frame of zeros that [`refill_page`](Pools::refill_page) has prepared, so that no frame needs
    /// to be zeroed here.
    #[inline]
    pub(super) fn page(&self, cpu: &Cpu<'m, M>) -> Option<Frame> {
        self.with(cpu, |pool| pool.page.take())
    }

    /// Frees a frame.
    ///
    /// # Safety
    /// As for [`Machine::free`].
    pub(super) unsafe fn free(&self, cpu: &Cpu<'m, M>, frame: Frame) {
        if M::ZEROED {
            // SAFETY: the caller guarantees the contract of `Machine::free`.
            return unsafe { self.machine.free(&[frame]) };
        }
        self.with(cpu, |Pool { frames, .. }| {
            if frames.len() == 2 * BATCH {
                // SAFETY: the pool owns the frames, and no CPU accesses them.
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
            // SAFETY: the pool owns the frame, which is `PAGE` bytes long.
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
            // SAFETY: the pool owns the frames, and no CPU accesses them.
            unsafe { self.machine.free(frames) };
        }
    }
}
