//! What the embedder supplies.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use knee_sync::Platform;
use knee_sync::epoch::Domain;

use crate::cpus::CpuSet;
use crate::format::Format;
use crate::page::{Frame, Pages};

/// A kernel's, hypervisor's or emulator's memory and CPUs.
///
/// # Safety
/// Frames that [`allocate`](Machine::allocate) gives are nobody else's until they are
/// [freed](Machine::free). [`address`](Machine::address) is the same for a frame at any time and good
/// for 4 KiB of reads and writes, at a multiple of 4096. [`shoot_down`](Machine::shoot_down) does what
/// it says. [`epoch`](Machine::epoch) is one domain, for all spaces of the machine.
pub unsafe trait Machine: Sync + Sized {
    /// The fence and the clock.
    type Platform: Platform;
    /// How page tables look.
    type Format: Format;

    /// Frames that are allocated have zeros. Then they are given back to the machine one by one, which
    /// zeroes them when it has time.
    const ZEROED: bool = false;

    /// Who may hold nodes of maps.
    fn epoch(&self) -> &Domain<Self::Platform>;

    /// CPUs that there can be; they are numbered from 0 on.
    fn cpus(&self) -> usize;

    /// Frames with whatever content: as many as the slice has, if there are as many. Returns how many.
    fn allocate(&self, frames: &mut [Frame]) -> usize;

    /// Gives frames back.
    ///
    /// # Safety
    /// They were allocated and not freed since, and no CPU can go there any more.
    unsafe fn free(&self, frames: &[Frame]);

    /// Where the kernel finds a frame's content.
    fn address(&self, frame: Frame) -> NonNull<u8>;

    /// What this crate notes of a frame.
    fn note(&self, frame: Frame) -> &Note;

    /// Has the CPUs of `on` forget what they know of some pages of a space, or of all of them. When it
    /// returns none of them uses it any more, nor will they: an access that comes after reads the tables
    /// as they were when this was called, or later. The calling CPU may be one of them.
    ///
    /// # Safety
    /// The caller is CPU `cpu`, and has no locks of a space.
    unsafe fn shoot_down(&self, cpu: usize, on: &CpuSet, space: u64, pages: Flush);

    /// Waits while `condition` is true, on CPU `cpu`, which meanwhile does what other CPUs want of it.
    ///
    /// # Safety
    /// The caller is that CPU, and has no locks of a space.
    unsafe fn wait_while(&self, _cpu: usize, condition: impl FnMut() -> bool) {
        self.epoch().platform().wait_while(condition);
    }

    /// A frame that was in use, and that no CPU can go to any more, is about to be used for something
    /// else without being freed in between.
    fn reuse(&self, _frame: Frame) {}
}

/// Of which pages CPUs have to forget what they know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// Of these.
    Some(Pages),
    /// Of all pages of the space.
    All,
}

/// What this crate notes of each frame: sixteen bytes of the embedder's memory, zero at first.
#[derive(Debug, Default)]
pub struct Note {
    /// The next in a list of frames that are on their way back.
    pub(crate) next: Cell<u64>,
    /// Entries of tables that have the frame, beside one.
    shares: AtomicU64,
}

// SAFETY: the cell belongs to whoever has the frame for itself.
unsafe impl Sync for Note {}

impl Note {
    /// Whether other entries have it, too. Who has the lock of the only one that has it is told no, and
    /// that stays so. Acquire: what was done by way of the others is over.
    #[inline]
    pub(crate) fn is_shared(&self) -> bool {
        self.shares.load(Acquire) > 0
    }

    /// Another entry has it.
    pub(crate) fn share(&self) {
        self.shares.fetch_add(1, Relaxed);
    }

    /// An entry has it no more, and no CPU goes there by it. Whether none has it now.
    pub(crate) fn release(&self) -> bool {
        let is_last = !self.is_shared() || self.shares.fetch_sub(1, AcqRel) == 0;
        if is_last {
            // Two that were the last at once have both counted.
            self.shares.store(0, Relaxed);
        }
        is_last
    }
}
