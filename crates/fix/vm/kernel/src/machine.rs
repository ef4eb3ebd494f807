//! The traits that knee-vm requires, implemented for this kernel.

use core::ptr::NonNull;
use core::sync::atomic::{Ordering::SeqCst, fence};

use alloc::vec::Vec;

use knee_sync::Platform;
use knee_sync::epoch::Domain;
use knee_vm::{CpuSet, Flush, Frame, FrameMeta, LazyMachine, Machine, PAGE, Ticks};

use crate::arch::{self, cpu_number};
use crate::frames::{self, Frames};
use crate::late::Late;
use crate::{cpu, remote};

pub(crate) type Space = knee_vm::Space<'static, Board>;
pub(crate) type Cpu = knee_vm::Cpu<'static, Board>;

/// The kernel's fences and clock.
#[derive(Debug)]
pub(crate) struct Kernel;

// SAFETY: this platform is symmetric, so `light` executes a full fence as well, and `heavy` needs no more
// than a full fence.
unsafe impl Platform for Kernel {
    fn is_symmetric(&self) -> bool {
        true
    }

    fn heavy(&self) {
        fence(SeqCst);
    }

    fn relax(&self, _round: u32) {
        // CPUs mask interrupts in the kernel, so a waiting CPU must poll for requests.
        remote::handle();
        core::hint::spin_loop();
    }

    fn now(&self) -> u64 {
        arch::clock()
    }

    fn thread(&self) -> u64 {
        cpu_number() as u64
    }
}

/// The machine.
pub(crate) struct Board {
    epoch: Domain<Kernel>,
    frames: Frames,
    /// The metadata of all frames. Element 0 belongs to frame `first`.
    metas: Vec<FrameMeta>,
    first: u64,
    ticks: Ticks,
}

static BOARD: Late<Board> = Late::new();

/// The machine, once [`init`] has run.
pub(crate) fn board() -> &'static Board {
    BOARD.get().expect("the first CPU creates the board before it starts other CPUs")
}

/// Creates the machine, whose free frames are `start..end`.
///
/// # Safety
/// Must be called once, by the first CPU. The frames must be unused memory.
pub(crate) unsafe fn init(start: u64, end: u64, cpus: usize) {
    let frames = Frames::new();
    frames.add(start, end);
    let board = Board {
        epoch: Domain::new(Kernel),
        frames,
        metas: (start..end).map(|_| FrameMeta::default()).collect(),
        first: start,
        ticks: Ticks::new(cpus).expect("there is memory"),
    };
    // SAFETY: the caller guarantees that this is the only call.
    unsafe { BOARD.set(board) };
}

/// Returns the start, the end and the name of each part of physical memory.
pub(crate) fn memory() -> [(u64, u64, &'static str); 4] {
    let board = board();
    let address = |frame: u64| frame * PAGE as u64;
    let frames = (address(board.first), address(board.first + board.metas.len() as u64));
    let metas = board.metas.as_ptr_range();
    let physical = |at: *const FrameMeta| (at.addr() - arch::direct(Frame(0)).addr()) as u64;
    let metas = (physical(metas.start), physical(metas.end));
    let heap = address(arch::MEMORY + crate::IMAGE_END);
    [
        (heap, metas.0, "heap"),
        (metas.0, metas.1, "FrameMeta"),
        (metas.1, frames.0, "heap"),
        (frames.0, frames.1, "frame"),
    ]
}

impl Board {
    /// The number of free frames.
    pub(crate) fn free_frames(&self) -> usize {
        self.frames.count()
    }

    /// Checks that no program has stored to a free frame. No CPU may allocate or free frames meanwhile.
    pub(crate) fn check_free_frames(&self) {
        self.frames.check();
    }
}

// SAFETY: each frame is in one free list or has one user. The direct mapping contains all memory. Programs
// access memory in user mode, outside the Rust abstract machine. `shoot_down` returns when all CPUs in the
// set have flushed.
unsafe impl Machine for Board {
    type Platform = Kernel;
    type Format = arch::Format;

    fn epoch(&self) -> &Domain<Kernel> {
        &self.epoch
    }

    fn cpus(&self) -> usize {
        cpu::count()
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.frames.allocate(frames)
    }

    unsafe fn free(&self, frames: &[Frame]) {
        self.frames.free(frames);
    }

    fn has_gigabyte_pages(&self) -> bool {
        arch::has_gigabyte_pages()
    }

    fn allocate_large(&self) -> Option<Frame> {
        self.frames.allocate_large()
    }

    unsafe fn free_large(&self, first: Frame) {
        self.frames.free_large(first);
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        NonNull::new(arch::direct(frame)).expect("the direct mapping is not at 0")
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        &self.metas[(frame.0 - self.first) as usize]
    }

    fn begin_root(&self, root: Frame) {
        arch::begin_root(root);
    }

    fn prepare_code(&self, frame: Frame) {
        arch::prepare_code(frame);
    }

    unsafe fn shoot_down(&self, caller: usize, on: &CpuSet, space: u64, pages: Flush) {
        match arch::BROADCAST {
            Some(broadcast) if !remote::uses_interrupts() => broadcast(caller, on, space, pages),
            _ => remote::flush(caller, on, space, pages),
        }
    }

    unsafe fn flush_local(&self, _cpu: usize, space: u64, pages: Flush) {
        cpu::flush(space, pages);
    }

    fn frame_recycled(&self, frame: Frame) {
        frames::mark(frame);
    }
}

// SAFETY: each CPU is online from its start, and flushes its whole TLB at each tick.
unsafe impl LazyMachine for Board {
    fn ticks(&self) -> &Ticks {
        &self.ticks
    }
}
