//! A machine in a process: frames are heap memory, CPUs are threads, and the MMU is software.
//!
//! Its CPUs walk the same tables as hardware would, and each has its own TLB. A shootdown posts a message to
//! each CPU that may cache the pages, and each CPU acknowledges its message at its next access, or when it
//! [handles IPIs](Processor::handle_ipis). So this crate can be run and tested in user space, and emulators
//! and simulators can use the machine as their MMU.
//!
//! Each frame has a generation, which is incremented when the frame is freed. A TLB entry records the
//! generation of its frame. A CPU that accesses a frame through a stale entry detects the mismatch
//! and panics, because a flush is missing.
//!
//! The machine models x86-64 unless [`with_architecture`](Hosted::with_architecture) selects another
//! architecture. On AArch64 and RISC-V, a translation that denies an access stays cached until it is flushed,
//! and non-leaf entries stay cached until a [`Flush::Tables`]. On RISC-V, absent entries are cached as well.
//! A CPU also panics after 64 consecutive faults on an entry that the fault handler does not flush, and when
//! an access hits another space's global translation.
//!
//! A CPU that has activated a space must acknowledge shootdowns. Before its thread blocks or does other
//! work, the CPU must go [offline](Processor::offline); otherwise other CPUs wait for it forever:
//!
//! ```
//! # use knee_vm::hosted::Hosted;
//! # use knee_vm::{Page, Pages, Protection, Space};
//! let machine = Hosted::new(1024, 2);
//! let mut main = machine.cpu(0);
//! let space = Space::new(&main).unwrap();
//! space.map(&main, Pages::new(Page(16), 4), Protection::READ).unwrap();
//! main.load(&space, Page(16).address()).unwrap();
//! std::thread::scope(|scope| {
//!     let other = scope.spawn(|| space.unmap(&machine.cpu(1), Pages::new(Page(16), 4)));
//!     main.offline(|| other.join()).unwrap().unwrap();
//! });
//! ```
//!
//! ```
//! use knee_vm::hosted::Hosted;
//! use knee_vm::{Page, Pages, Protection, Space};
//!
//! let machine = Hosted::new(1024, 2);
//! let cpu = machine.cpu(0);
//! let space = Space::new(&cpu).unwrap();
//! space.map(&cpu, Pages::new(Page(16), 4), Protection::READ | Protection::WRITE).unwrap();
//! cpu.store(&space, Page(16).address(), 7).unwrap();
//! assert_eq!(cpu.load(&space, Page(16).address()), Ok(7));
//! space.unmap(&cpu, Pages::new(Page(16), 4)).unwrap();
//! assert!(cpu.load(&space, Page(16).address()).is_err());
//! ```

mod architecture;
mod context;
mod frames;
mod mailbox;
mod processor;
mod tlb;

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use knee_sync::System;
use knee_sync::epoch::Domain;

pub use self::architecture::Architecture;
pub use self::context::MmuContext;
use self::frames::Frames;
use self::mailbox::Mailbox;
pub use self::processor::Processor;
use crate::machine::cpu_set::CpuSet;
use crate::machine::format::X86_64;
use crate::machine::frame_meta::FrameMeta;
use crate::machine::ticks::Ticks;
use crate::machine::{Flush, LazyMachine, Machine};
use crate::page::{ENTRIES, Frame, PAGE};

/// A machine in a process. It models x86-64 unless another [`Architecture`] is given.
pub struct Hosted<A: Architecture = X86_64> {
    architecture: PhantomData<fn() -> A>,
    epoch: Domain<System>,
    memory: NonNull<u8>,
    layout: Layout,
    metas: Box<[FrameMeta]>,
    /// Relaxed: generations only detect stale TLB entries. A frame is freed only after a flush, and each CPU
    /// checks the frame's generation before it acknowledges that flush.
    generations: Box<[AtomicU64]>,
    /// A generation for each aligned run of 512 frames. It changes when the run is freed as a large page.
    large_generations: Box<[AtomicU64]>,
    free: Frames,
    mailboxes: Box<[Mailbox]>,
    ticks: Ticks,
}

// SAFETY: a frame is accessed only by the CPU that allocated it, or by several CPUs through atomics. Free
// lists and mailboxes have locks.
unsafe impl<A: Architecture> Sync for Hosted<A> {}
// SAFETY: the memory is owned by the machine and not tied to a thread.
unsafe impl<A: Architecture> Send for Hosted<A> {}

impl Hosted {
    /// Creates an x86-64 machine with `frames` frames of 4 KiB and `cpus` CPUs. The operating system commits
    /// the memory on first write.
    pub fn new(frames: usize, cpus: usize) -> Hosted {
        Hosted::with_architecture(frames, cpus)
    }
}

impl<A: Architecture> Hosted<A> {
    /// Like [`new`](Hosted::new), but for any architecture.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{AArch64, Page, Pages, Protection, Space};
    ///
    /// let machine = Hosted::<AArch64>::with_architecture(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// space.map(&cpu, Pages::new(Page(16), 4), Protection::READ)?;
    /// assert_eq!(cpu.load(&space, Page(16).address()), Ok(0));
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    pub fn with_architecture(frames: usize, cpus: usize) -> Hosted<A> {
        let layout = Layout::from_size_align(frames.max(1) * PAGE, PAGE)
            .expect("the memory size fits the address space");
        // SAFETY: the layout has at least one page.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        Hosted {
            architecture: PhantomData,
            epoch: Domain::new(System::detect()),
            memory,
            layout,
            metas: (0..frames).map(|_| FrameMeta::default()).collect(),
            generations: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            large_generations: (0..frames.div_ceil(ENTRIES)).map(|_| AtomicU64::new(0)).collect(),
            free: Frames::new(frames, cpus),
            mailboxes: (0..cpus).map(|_| Mailbox::default()).collect(),
            ticks: Ticks::new(cpus).expect("enough memory for the ticks"),
        }
    }

    /// Returns the number of free frames, not counting those in per-CPU pools.
    pub fn free_frames(&self) -> usize {
        self.free.count()
    }

    /// The generation of a frame, which grows each time that the frame is freed or recycled.
    fn generation(&self, frame: Frame) -> u64 {
        let index = frame.0 as usize;
        let large = self.large_generations[index / ENTRIES].load(Relaxed);
        self.generations[index].load(Relaxed) + large
    }

    /// Returns word `word` of a frame.
    fn word(&self, frame: Frame, word: usize) -> &AtomicU64 {
        assert!(word < PAGE / 8);
        // SAFETY: the word is within the frame and aligned, and the memory lives as long as `self`.
        unsafe { self.address(frame).cast::<AtomicU64>().add(word).as_ref() }
    }
}

// SAFETY: frames come from locked free lists, and their memory never moves. `shoot_down` waits until each
// CPU has acknowledged the request.
unsafe impl<A: Architecture> Machine for Hosted<A> {
    type Platform = System;
    type Format = A;

    /// A CPU walks only the tables of a space that it borrows. Each cached translation is tagged with the
    /// number of its space. Numbers of spaces are never reused, so no CPU uses a cached translation of a
    /// dropped space.
    const MAY_DROP_ACTIVE: bool = true;

    fn epoch(&self) -> &Domain<System> {
        &self.epoch
    }

    fn cpus(&self) -> usize {
        self.mailboxes.len()
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.free.take(frames)
    }

    fn has_gigabyte_pages(&self) -> bool {
        true
    }

    fn allocate_large(&self) -> Option<Frame> {
        self.free.take_large()
    }

    unsafe fn free(&self, frames: &[Frame]) {
        for &frame in frames {
            self.generations[frame.0 as usize].fetch_add(1, Relaxed);
        }
        self.free.give(frames);
    }

    unsafe fn free_large(&self, first: Frame) {
        self.large_generations[first.0 as usize / ENTRIES].fetch_add(1, Relaxed);
        self.free.give_large(first);
    }

    fn frame_recycled(&self, frame: Frame) {
        self.generations[frame.0 as usize].fetch_add(1, Relaxed);
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        assert!(frame.0 < self.metas.len() as u64, "the machine has no frame {frame:?}");
        // SAFETY: the assertion keeps the offset within the allocation.
        unsafe { self.memory.add(frame.0 as usize * PAGE) }
    }

    fn begin_root(&self, _table: Frame) {}

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        &self.metas[frame.0 as usize]
    }

    unsafe fn shoot_down(&self, caller: usize, on: &CpuSet, space: u64, pages: Flush) {
        let platform = self.epoch.platform();
        // SAFETY: `caller` is the calling CPU.
        unsafe { mailbox::shoot_down(&self.mailboxes, platform, caller, on, space, pages) };
    }

    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush) {
        // SAFETY: `cpu` is the calling CPU.
        unsafe { self.mailboxes[cpu].flush(space, pages) };
    }

    unsafe fn wait_while(&self, cpu: usize, condition: impl FnMut() -> bool) {
        // SAFETY: `cpu` is the calling CPU.
        unsafe { self.mailboxes[cpu].wait_while(self.epoch.platform(), condition) };
    }
}

// SAFETY: a `Processor` registers its CPU as online before it caches anything. The CPU's TLB is empty when
// it goes offline, and `tick` flushes the whole TLB.
unsafe impl<A: Architecture> LazyMachine for Hosted<A> {
    fn ticks(&self) -> &Ticks {
        &self.ticks
    }
}

impl<A: Architecture> Drop for Hosted<A> {
    fn drop(&mut self) {
        // SAFETY: the memory was allocated with this layout, and all borrows of the machine have ended.
        unsafe { dealloc(self.memory.as_ptr(), self.layout) };
    }
}

impl<A: Architecture> fmt::Debug for Hosted<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (frames, cpus) = (self.metas.len(), self.mailboxes.len());
        f.debug_struct("Hosted")
            .field("frames", &frames)
            .field("cpus", &cpus)
            .finish_non_exhaustive()
    }
}
