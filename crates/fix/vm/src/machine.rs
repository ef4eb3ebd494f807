//! What the embedder supplies.

use core::cell::Cell;
use core::ptr::NonNull;
use core::sync::atomic::AtomicU8;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use knee_sync::Platform;
use knee_sync::epoch::Domain;

use crate::cpus::CpuSet;
use crate::format::{FaultFlush, Format};
use crate::lineage::Origin;
use crate::page::{Frame, Pages};
use crate::primitive::AtomicU64;
use crate::ticks::Ticks;

/// A kernel's, hypervisor's or emulator's memory and CPUs.
///
/// # Safety
/// * Frames that [`allocate`](Machine::allocate) gives are nobody else's until they are [freed](Machine::free).
/// * [`address`](Machine::address) is the same for a frame at any time, and good for 4 KiB of reads and writes, at a
///   multiple of 4096. Where programs go there within the same abstract machine, as in an emulator, they
///   do so by atomics: this crate reads an object's frame by atomics of 64 bits while others write to it.
/// * [`note`](Machine::note) is another one for each frame, always the same one, and zero at first.
/// * [`cpus`](Machine::cpus) and [`ticks`](Machine::ticks) always return the same.
/// * [`shoot_down`](Machine::shoot_down) and [`flush_local`](Machine::flush_local) do what they say for each variant of
///   [`Flush`]: frames are freed on their word.
/// * [`wait_while`](Machine::wait_while) returns only after `condition` was false: locks are built of it.
/// * The CPUs read entries as the [format](Machine::Format) does, and its [`read`](Format::read) returns what the entry
///   was made of: frames are freed on its word as well.
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

    /// What this crate notes of a frame.
    fn note(&self, frame: Frame) -> &Note;

    /// A table of absent entries is about to become the uppermost of a space, and nobody else knows it: what all
    /// spaces have in common is written there, once. These are entries of the kernel's half, if the format
    /// [has it](Format::HAS_KERNEL).
    fn begin_root(&self, _table: Frame) {}

    /// Has the CPUs of `on` flush what `pages` says of a space. When it
    /// returns none of them uses it any more, nor will they: an access that comes after reads the tables
    /// as they were when this was called, or later. The calling CPU may be one of them.
    ///
    /// # Safety
    /// The caller is CPU `cpu`, and has no lock that other CPUs wait for without answering.
    unsafe fn shoot_down(&self, cpu: usize, on: &CpuSet, space: u64, pages: Flush);

    /// Waits while `condition` is true, on CPU `cpu`, which meanwhile does what other CPUs want of it.
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
    fn reuse(&self, _frame: Frame) {}
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

/// What this crate notes of each frame: a cache line of the embedder's memory, zero at first. CPUs that use
/// frames next to each other share nothing.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Note {
    /// The next in a list of frames that are on their way back, or what an entry that lingers has.
    pub(crate) next: Cell<u64>,
    /// Entries of tables that have the frame, beside one, if it is a space's own.
    shares: AtomicU64,
    /// Whose it is: one of the constants below. Changed by who has the frame for itself, but for [`DIRTY`].
    owner: AtomicU8,
    /// Where a space's own came to be, and at which page there. Under the lock of an entry that has it.
    origin: Cell<Option<NonNull<Origin>>>,
    index: Cell<u64>,
}

/// It is a space's own, or nobody's.
const PRIVATE: u8 = 0;
/// It is an object's, which entries do not count in.
const OBJECT: u8 = 1;
/// It is an object's, and somebody has written to it since it came from its pager.
const DIRTY: u8 = 2;

// SAFETY: cells are written by whoever has the frame for itself, and read by others that have it since.
unsafe impl Sync for Note {}
// SAFETY: as above.
unsafe impl Send for Note {}

impl Note {
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
    pub(crate) fn set_origin(&self, origin: NonNull<Origin>, page: u64) {
        self.origin.set(Some(origin));
        self.index.set(page);
    }

    /// Where it came to be. Under the lock of an entry that has it, which is a space's own.
    pub(crate) fn origin(&self) -> (NonNull<Origin>, u64) {
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
