//! A machine in a process: frames are memory, CPUs are threads, and the MMU is software.
//!
//! Its CPUs read the same tables as hardware would, each has a TLB of its own, and a shootdown is a
//! message to each CPU that may know the pages, which it answers at its next access or operation. So
//! everything runs and is tested in plain user space, and emulators and simulators have an MMU.
//!
//! Each frame has a generation, which goes on when the frame is freed, and a TLB's entry has that of
//! the time when it was made. A CPU that goes to a frame by an entry that it should have forgotten
//! notices, and panics: that is a bug in what removes pages.
//!
//! The machine is x86-64, unless [`with_architecture`](Hosted::with_architecture) says otherwise. AArch64 keeps
//! a translation that denies an access until it is flushed, RISC-V keeps absent entries too, and both keep what
//! they have found of tables until [`Flush::Tables`]. A CPU whose handler does not flush such an entry
//! panics as well, after 64 faults without an end, and so does one that would use a global translation of another
//! space.
//!
//! A CPU that has been in a space has to answer. A thread that waits for another one, or does something else for
//! long, while it is a CPU [rests](Processor::offline), or those who unmap wait for it for ever:
//!
//! ```
//! # use knee_vm::hosted::Hosted;
//! # use knee_vm::{Pages, Protection, Space};
//! let machine = Hosted::new(1024, 2);
//! let mut main = machine.cpu(0);
//! let space = Space::new(&main).unwrap();
//! space.map(&main, Pages::new(16, 4), Protection::READ).unwrap();
//! main.load(&space, 16 << 12).unwrap();
//! std::thread::scope(|scope| {
//!     let other = scope.spawn(|| space.unmap(&machine.cpu(1), Pages::new(16, 4)));
//!     main.offline(|| other.join()).unwrap().unwrap();
//! });
//! ```
//!
//! ```
//! use knee_vm::hosted::Hosted;
//! use knee_vm::{PAGE, Pages, Protection, Space};
//!
//! let machine = Hosted::new(1024, 2);
//! let cpu = machine.cpu(0);
//! let space = Space::new(&cpu).unwrap();
//! space.map(&cpu, Pages::new(16, 4), Protection::READ | Protection::WRITE).unwrap();
//! cpu.store(&space, 16 * PAGE as u64, 7).unwrap();
//! assert_eq!(cpu.load(&space, 16 * PAGE as u64), Ok(7));
//! space.unmap(&cpu, Pages::new(16, 4)).unwrap();
//! assert!(cpu.load(&space, 16 * PAGE as u64).is_err());
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
use std::sync::atomic::Ordering::{Acquire, Release};

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
use crate::machine::{Flush, Machine};
use crate::page::{Frame, PAGE};

/// A machine in a process: x86-64, unless another [`Architecture`] is given.
pub struct Hosted<A: Architecture = X86_64> {
    architecture: PhantomData<fn() -> A>,
    epoch: Domain<System>,
    memory: NonNull<u8>,
    layout: Layout,
    metas: Box<[FrameMeta]>,
    generations: Box<[AtomicU64]>,
    free: Frames,
    mailboxes: Box<[Mailbox]>,
    ticks: Ticks,
}

// SAFETY: frames belong to whoever has allocated them, or are shared by CPUs as atomics.
unsafe impl<A: Architecture> Sync for Hosted<A> {}
// SAFETY: as above.
unsafe impl<A: Architecture> Send for Hosted<A> {}

impl Hosted {
    /// An x86-64 machine with this many frames of 4 KiB and CPUs. The process gets the memory when it is first
    /// written to.
    pub fn new(frames: usize, cpus: usize) -> Hosted {
        Hosted::with_architecture(frames, cpus)
    }
}

impl<A: Architecture> Hosted<A> {
    /// As [`new`](Hosted::new), for any architecture.
    ///
    /// ```
    /// use knee_vm::hosted::Hosted;
    /// use knee_vm::{AArch64, Pages, Protection, Space};
    ///
    /// let machine = Hosted::<AArch64>::with_architecture(1024, 2);
    /// let cpu = machine.cpu(0);
    /// let space = Space::new(&cpu)?;
    /// space.map(&cpu, Pages::new(16, 4), Protection::READ)?;
    /// assert_eq!(cpu.load(&space, 16 << 12), Ok(0));
    /// # Ok::<(), knee_vm::MapError>(())
    /// ```
    pub fn with_architecture(frames: usize, cpus: usize) -> Hosted<A> {
        let layout =
            Layout::from_size_align(frames.max(1) * PAGE, PAGE).expect("it is addressable");
        // SAFETY: it is not empty.
        let memory = NonNull::new(unsafe { alloc_zeroed(layout) });
        let memory = memory.unwrap_or_else(|| handle_alloc_error(layout));
        Hosted {
            architecture: PhantomData,
            epoch: Domain::new(System::detect()),
            memory,
            layout,
            metas: (0..frames).map(|_| FrameMeta::default()).collect(),
            generations: (0..frames).map(|_| AtomicU64::new(0)).collect(),
            free: Frames::new(frames, cpus),
            mailboxes: (0..cpus).map(|_| Mailbox::default()).collect(),
            ticks: Ticks::new(cpus).expect("there is memory"),
        }
    }

    /// Frames that are free, but for those that CPUs keep for themselves.
    pub fn free_frames(&self) -> usize {
        self.free.count()
    }

    fn generation(&self, frame: Frame) -> u64 {
        self.generations[frame.0 as usize].load(Acquire)
    }

    /// A word of a frame.
    fn word(&self, frame: Frame, word: usize) -> &AtomicU64 {
        assert!(word < PAGE / 8);
        // SAFETY: it is within the frame, and a multiple of eight from its beginning.
        unsafe { self.address(frame).cast::<AtomicU64>().add(word).as_ref() }
    }
}

// SAFETY: frames are taken from lists under locks; their memory stays where it is; `shoot_down` waits
// until each CPU has answered; and a CPU that is there has said so to `ticks`.
unsafe impl<A: Architecture> Machine for Hosted<A> {
    type Platform = System;
    type Format = A;

    fn epoch(&self) -> &Domain<System> {
        &self.epoch
    }

    fn cpus(&self) -> usize {
        self.mailboxes.len()
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.free.take(frames)
    }

    unsafe fn free(&self, frames: &[Frame]) {
        for &frame in frames {
            self.generations[frame.0 as usize].fetch_add(1, Release);
        }
        self.free.give(frames);
    }

    fn frame_recycled(&self, frame: Frame) {
        self.generations[frame.0 as usize].fetch_add(1, Release);
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        assert!(frame.0 < self.metas.len() as u64, "the machine has no frame {frame:?}");
        // SAFETY: it is within the memory.
        unsafe { self.memory.add(frame.0 as usize * PAGE) }
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        &self.metas[frame.0 as usize]
    }

    unsafe fn shoot_down(&self, cpu: usize, on: &CpuSet, space: u64, pages: Flush) {
        let platform = self.epoch.platform();
        // SAFETY: the caller is this CPU.
        unsafe { mailbox::shoot_down(&self.mailboxes, platform, cpu, on, space, pages) };
    }

    fn ticks(&self) -> Option<&Ticks> {
        Some(&self.ticks)
    }

    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush) {
        // SAFETY: the caller is this CPU.
        unsafe { self.mailboxes[cpu].flush(space, pages) };
    }

    unsafe fn wait_while(&self, cpu: usize, condition: impl FnMut() -> bool) {
        // SAFETY: the caller is this CPU.
        unsafe { self.mailboxes[cpu].wait_while(self.epoch.platform(), condition) };
    }
}

impl<A: Architecture> Drop for Hosted<A> {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody has any of it any more.
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
