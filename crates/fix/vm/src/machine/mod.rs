//! What the embedder supplies.

pub(crate) mod cpu_set;
pub(crate) mod format;
pub(crate) mod frame_meta;
pub(crate) mod frame_pool;
pub(crate) mod ticks;

use core::ptr::NonNull;

use knee_sync::Platform;
use knee_sync::epoch::Domain;

use crate::machine::cpu_set::CpuSet;
use crate::machine::format::{FaultFlush, Format, Table};
use crate::machine::frame_meta::FrameMeta;
use crate::machine::ticks::Ticks;
use crate::page::{Frame, Pages};

/// A kernel's, hypervisor's or emulator's memory and CPUs.
///
/// # Safety
/// * Frames that [`allocate`](Machine::allocate) gives are nobody else's until they are [freed](Machine::free).
/// * [`address`](Machine::address) is the same for a frame at any time, and good for 4 KiB of reads and writes, at a
///   multiple of 4096. Where programs go there within the same abstract machine, as in an emulator, they
///   do so by atomics: this crate reads an object's frame by atomics of 64 bits while others write to it.
/// * [`frame_meta`](Machine::frame_meta) is another one for each frame, always the same one, and zero at first.
/// * [`cpus`](Machine::cpus) and [`ticks`](Machine::ticks) always return the same.
/// * A page-table walker in software reads entries as atomics of 64 bits with `Acquire`, as this crate writes
///   them as such.
/// * [`shoot_down`](Machine::shoot_down) executes a full fence before it reads its set of CPUs.
/// * [`shoot_down`](Machine::shoot_down) and [`flush_local`](Machine::flush_local) do what they say for each variant of
///   [`Flush`]: frames are freed on their word.
/// * [`wait_while`](Machine::wait_while) returns only after `condition` was false, and does not call it after that:
///   locks are built of it.
/// * The CPUs read entries as the [format](Machine::Format) does.
/// * [`FAULT_FLUSH`](Machine::FAULT_FLUSH) is what the CPUs require, or more.
/// * [`begin_root`](Machine::begin_root) writes to the kernel's half alone.
/// * [`epoch`](Machine::epoch) is one domain, for all spaces of the machine.
pub unsafe trait Machine: Sync + Sized {
    /// The fence and the clock.
    type Platform: Platform;
    /// How page tables look.
    type Format: Format;

    /// Frames that are allocated have zeros. Then they are given back to the machine one by one, which
    /// zeroes them when it has time.
    const ZEROED: bool = false;

    /// What [`Space::fault`](crate::Space::fault) has the CPU [flush](Machine::flush_local) before it returns `Ok`. A
    /// RISC-V machine whose CPUs all have Svvptc may say [`FaultFlush::IfPresent`].
    const FAULT_FLUSH: FaultFlush = <Self::Format as Format>::FAULT_FLUSH;

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

    /// What this crate keeps of a frame.
    fn frame_meta(&self, frame: Frame) -> &FrameMeta;

    /// A table of absent entries is about to become the uppermost of a space, and nobody else knows it: what all
    /// spaces have in common is written there, once. These are entries of the kernel's half, if the format
    /// [has it](Format::HAS_KERNEL).
    fn begin_root(&self, _table: Frame) {}

    /// Makes the CPUs of `on` flush `pages` of the space with the number `space` ([`Space::number`]). It
    /// returns when none of them uses a flushed entry any more: their later accesses read the tables as they
    /// were when this was called, or later. The calling CPU may be one of `on`.
    ///
    /// The implementation must execute a full fence before it reads `on`; otherwise it misses a CPU that
    /// activates the space at the same time, and has read the old tables. While it waits for the others, it
    /// must answer their requests, as two CPUs may shoot down each other.
    ///
    /// [`Space::number`]: crate::Space::number
    ///
    /// # Safety
    /// The caller is CPU `cpu`, and holds no lock for which another CPU waits without answering requests.
    unsafe fn shoot_down(&self, cpu: usize, on: &CpuSet, space: u64, pages: Flush);

    /// Waits while `condition` is true, on CPU `cpu`. Meanwhile the CPU answers the requests of other CPUs.
    ///
    /// The default is [`Platform::wait_while`], which calls [`Platform::relax`]. That is enough if requests
    /// are interrupts, which the CPU handles while it waits. A machine whose CPUs poll must override this, or
    /// poll in `relax`.
    ///
    /// # Safety
    /// The caller is that CPU, and has no lock that other CPUs wait for without answering.
    unsafe fn wait_while(&self, _cpu: usize, condition: impl FnMut() -> bool) {
        self.epoch().platform().wait_while(condition);
    }

    /// When CPUs forget all that they know by themselves, for spaces that are
    /// [lazy](crate::Space::set_lazy): what [`Ticks`] want, these CPUs do. None if no space may be.
    fn ticks(&self) -> Option<&Ticks> {
        None
    }

    /// Has the calling CPU alone flush what [`shoot_down`](Machine::shoot_down) would have all flush: when it returns
    /// the CPU uses none of it, and an access that comes after reads the tables as they are now.
    ///
    /// [`Space::fault`](crate::Space::fault) calls this where the [format](Format::FAULT_FLUSH) requires it, and
    /// `unmap` in [lazy](crate::Space::set_lazy) spaces.
    ///
    /// # Safety
    /// The caller is CPU `cpu`.
    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush);

    /// A frame that was in use, and that no CPU can go to any more, is about to be used for something
    /// else without being freed in between.
    fn frame_recycled(&self, _frame: Frame) {}
}

/// What a CPU has to flush from its TLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// The entries for these pages in tables that stay where they are: `invlpg`, `tlbi vale1`, `sfence.vma` with an
    /// address.
    Range(Pages),
    /// The same, and whatever the CPU has cached of the tables above these entries, as some were freed or added:
    /// `invlpg`, `tlbi vae1`, `sfence.vma` **without an address**.
    ///
    /// On RISC-V an `sfence.vma` with an address orders no entries that point to tables, so a CPU could
    /// walk through a table after it was freed.
    Tables(Pages),
    /// All entries for the space.
    All,
}

/// A frame's entries.
pub(crate) fn table_at<M: Machine>(machine: &M, frame: Frame) -> NonNull<Table> {
    machine.address(frame).cast()
}
