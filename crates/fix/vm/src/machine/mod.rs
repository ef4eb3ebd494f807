//! The interface that the embedder implements: memory, CPUs and shootdown.

pub(crate) mod cpu_set;
pub(crate) mod format;
pub(crate) mod frame_meta;
pub(crate) mod frame_pool;
pub(crate) mod pins;
pub(crate) mod ticks;

use core::ptr::NonNull;

use knee_sync::Platform;
use knee_sync::epoch::Domain;

use crate::machine::cpu_set::CpuSet;
use crate::machine::format::{FaultFlush, Format, Table};
use crate::machine::frame_meta::FrameMeta;
use crate::machine::ticks::Ticks;
use crate::page::{ENTRIES, Frame, Pages};

/// The memory and CPUs of a kernel, hypervisor or emulator.
///
/// # Safety
/// * A frame returned by [`allocate`](Machine::allocate) must have no other user until it is
///   [freed](Machine::free). The same holds for each of the 512 frames of a large page that
///   [`allocate_large`](Machine::allocate_large) returns, until it is freed individually or by
///   [`free_large`](Machine::free_large). The number of the first frame must be a multiple of 512, and the
///   addresses of the frames must be consecutive.
/// * If [`ZEROED`](Machine::ZEROED) is set, the frames that `allocate` and `allocate_large` return must be
///   zeroed.
/// * [`address`](Machine::address) must always return the same address for a frame. That address must be
///   aligned to 4096 bytes, and valid for reads and writes of 4 KiB. If Rust code in the same process
///   accesses frames on behalf of programs, as in an emulator, that code must use atomics: this crate may
///   read an object's frame with 64-bit atomics while programs write to it.
/// * [`frame_meta`](Machine::frame_meta) must return a distinct object for each frame, and always the same
///   object for a frame. The object must start as [`FrameMeta::default`] or as zeroed memory.
/// * [`cpus`](Machine::cpus) must always return the same value.
/// * [`shoot_down`](Machine::shoot_down) must execute a full fence before it reads `on`, its set of CPUs.
/// * A page-table walker in software must load entries as 64-bit atomics with `Acquire`: this crate stores
///   entries atomically during walks, and initializes a table or page before it stores the entry. A walker
///   that sets accessed or dirty bits must use a compare-exchange whose expected value is the entry that it
///   has read: another CPU may have cleared the entry meanwhile.
/// * [`shoot_down`](Machine::shoot_down) and [`flush_local`](Machine::flush_local) must meet their contracts
///   for each variant of [`Flush`]: this crate frees frames when they return.
/// * [`wait_while`](Machine::wait_while) must return only after a call of `condition` has returned false,
///   and must not call `condition` again after that: locks are built on this function.
/// * The CPUs must interpret entries as the [format](Machine::Format) specifies.
/// * [`FAULT_FLUSH`](Machine::FAULT_FLUSH) must request every flush that the CPUs require.
/// * [`MAY_DROP_ACTIVE`](Machine::MAY_DROP_ACTIVE) may be true only if no CPU uses the tables of a dropped
///   space, or translations cached from them. For example, an MMU in software can borrow the space for each
///   access.
/// * [`begin_root`](Machine::begin_root) must write only to the kernel's half of the table.
/// * [`epoch`](Machine::epoch) must return one domain for all spaces of the machine.
pub unsafe trait Machine: Sync + Sized {
    /// The platform: fences and a clock.
    type Platform: Platform;
    /// The page-table format.
    type Format: Format;

    /// Whether [`allocate`](Machine::allocate) returns zeroed frames. If so, this crate keeps no freed frames
    /// in its pools, but returns each one to the machine, which may zero it in the background.
    const ZEROED: bool = false;

    /// In which cases [`Space::fault`](crate::Space::fault) calls [`flush_local`](Machine::flush_local)
    /// before it returns `Ok`. A RISC-V machine whose CPUs all have Svvptc may use
    /// [`FaultFlush::IfPresent`].
    const FAULT_FLUSH: FaultFlush = <Self::Format as Format>::FAULT_FLUSH;

    /// Whether a space may be dropped while CPUs are active in it. Hardware needs the default: an active CPU
    /// could walk freed tables, so dropping a [`Space`](crate::Space) panics if a CPU is active in it.
    const MAY_DROP_ACTIVE: bool = false;

    /// The epoch domain that protects tree nodes from being freed while CPUs read them.
    fn epoch(&self) -> &Domain<Self::Platform>;

    /// The maximum number of CPUs. CPUs are numbered from 0.
    fn cpus(&self) -> usize;

    /// Allocates frames into the front of `frames`, and returns their number. A number below the length of
    /// the slice means that memory is exhausted. The content of the frames is arbitrary unless
    /// [`ZEROED`](Machine::ZEROED) is set.
    fn allocate(&self, frames: &mut [Frame]) -> usize;

    /// Frees frames. After a swap device has failed, this crate may call the method while it holds locks of a
    /// space. So, like [`prepare_code`](Machine::prepare_code), this method must not wait for a CPU that may
    /// be waiting for such a lock without handling interrupts.
    ///
    /// # Safety
    /// The frames must be allocated, and no CPU may be able to access them any more.
    unsafe fn free(&self, frames: &[Frame]);

    /// Whether all CPUs support pages of 1 GiB. If so, aligned device memory is mapped with such pages. On
    /// x86-64, this is bit 26 of EDX of CPUID leaf 0x80000001; AArch64 and RISC-V always support them. The
    /// default is false.
    fn has_gigabyte_pages(&self) -> bool {
        false
    }

    /// Allocates the frames of a [large page](crate::Space::set_large_pages): 512 frames with consecutive
    /// numbers and consecutive [addresses](Machine::address). The number of the first frame must be a
    /// multiple of 512. Returns the first frame, or `None` if no such run is free. The content of the frames
    /// is as for [`allocate`](Machine::allocate). This crate frees the frames all at once by
    /// [`free_large`](Machine::free_large), or, after a split, one by one.
    ///
    /// On x86-64, the MTRRs must give all of the frames the same memory type, which excludes the first 2 MiB
    /// of memory (Intel, "Software Developer's Manual", volume 3, 12.11.9).
    ///
    /// The default returns `None`, so that only device memory has large pages.
    fn allocate_large(&self) -> Option<Frame> {
        None
    }

    /// Frees the frames of a large page all at once. The default [frees](Machine::free) them as if they had
    /// been allocated one by one.
    ///
    /// # Safety
    /// As for [`free`](Machine::free).
    unsafe fn free_large(&self, first: Frame) {
        let frames: [Frame; ENTRIES] = core::array::from_fn(|index| Frame(first.0 + index as u64));
        // SAFETY: the caller meets the contract of `free` for all these frames.
        unsafe { self.free(&frames) };
    }

    /// Returns the kernel address of a frame's content.
    fn address(&self, frame: Frame) -> NonNull<u8>;

    /// Returns the metadata of a frame.
    fn frame_meta(&self, frame: Frame) -> &FrameMeta;

    /// Initializes the root table of a new space before the space is published. At the call, all entries of
    /// the table are absent. If the format [has a kernel's half](Format::HAS_KERNEL), the machine must write
    /// that half here: without it, a CPU that loads the table cannot execute its next instruction. For other
    /// formats, the method has nothing to do. Called once per space.
    fn begin_root(&self, table: Frame);

    /// Makes the content of a frame visible to instruction fetches of all CPUs. This crate calls the method
    /// before it stores an entry that allows execution, possibly while it holds locks of a space. So the
    /// method must not wait for a CPU that may be waiting for such a lock without handling interrupts.
    ///
    /// The default does nothing, which is right for x86-64. AArch64 needs `dc cvau` for each cache line and
    /// then `ic ialluis`, and RISC-V needs a `fence.i` on each CPU. A program that writes code must itself
    /// make the code visible to instruction fetches.
    fn prepare_code(&self, _frame: Frame) {}

    /// Makes all CPUs in `on` flush those translations of `space` that `pages` describes. When this method
    /// returns, none of these CPUs uses these translations any more: later accesses use the tables in their
    /// state at this call, or in a newer state. `on` may contain `caller`, the calling CPU. `space` is the
    /// [number](crate::Space::number) of the space.
    ///
    /// The implementation must execute a full fence before it reads `on`; otherwise it can miss a CPU that
    /// activates the space at the same time and has read the old tables. While the calling CPU waits for
    /// other CPUs, it must handle shootdowns from them: two CPUs may wait for each other.
    ///
    /// # Safety
    /// The calling CPU must be `caller`, and must not hold a lock for which other CPUs wait without handling
    /// shootdowns.
    unsafe fn shoot_down(&self, caller: usize, on: &CpuSet, space: u64, pages: Flush);

    /// Waits while `condition` is true. CPU `cpu` must handle shootdowns from other CPUs meanwhile.
    ///
    /// The default is [`Platform::wait_while`], which calls [`Platform::relax`]. That is enough if shootdowns
    /// arrive as interrupts. A machine whose CPUs poll for shootdowns must override this method, or poll in
    /// `relax`.
    ///
    /// # Safety
    /// The caller must be CPU `cpu`, and must not hold a lock for which other CPUs wait without handling
    /// shootdowns.
    unsafe fn wait_while(&self, _cpu: usize, condition: impl FnMut() -> bool) {
        self.epoch().platform().wait_while(condition);
    }

    /// Flushes on the calling CPU what [`shoot_down`](Machine::shoot_down) would flush on all CPUs. When this
    /// method returns, the CPU uses none of these translations, and later accesses use the tables in their
    /// state at this call, or in a newer state.
    ///
    /// [`Space::fault`](crate::Space::fault) calls this where [`FAULT_FLUSH`](Machine::FAULT_FLUSH) requires
    /// it. In [lazy](crate::Space::set_lazy) spaces, `unmap` calls this too.
    ///
    /// # Safety
    /// The caller must be CPU `cpu`.
    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush);

    /// Called when this crate puts an unused frame into a per-CPU pool for reuse, instead of freeing it. From
    /// then on no CPU can access the frame's old content. The machine may overwrite the content, for example
    /// with a pattern that exposes accesses through stale translations.
    fn frame_recycled(&self, _frame: Frame) {}
}

/// A machine whose CPUs flush their whole TLBs at each timer interrupt, which makes
/// [lazy](crate::Space::set_lazy) spaces possible.
///
/// # Safety
/// * [`ticks`](LazyMachine::ticks) must always return the same object.
/// * Each CPU must call [`Ticks::cpu_online`] before it caches any translation, and flush its whole TLB in
///   [`Ticks::tick`] and before [`Ticks::cpu_offline`]: this crate frees frames after all CPUs have ticked.
pub unsafe trait LazyMachine: Machine {
    /// Returns the ticks of the machine's CPUs.
    fn ticks(&self) -> &Ticks;
}

/// What a CPU must flush from its TLB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flush {
    /// The translations of these pages. The tables remain in place, so `invlpg`, `tlbi vale1` or `sfence.vma`
    /// with an address is enough.
    Range(Pages),
    /// The translations of these pages, and the cached non-leaf entries above them, because tables were
    /// freed or added. Use `invlpg` or `tlbi vae1` for each page. On RISC-V, use `sfence.vma` **without an
    /// address**: with an address, it does not order non-leaf entries, so a CPU could walk through a freed
    /// table.
    Tables(Pages),
    /// All translations of the space.
    All,
}

/// Returns a pointer to the page table that a frame contains.
pub(crate) fn table_at<M: Machine>(machine: &M, frame: Frame) -> NonNull<Table> {
    machine.address(frame).cast()
}
