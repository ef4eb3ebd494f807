//! A machine for loom: tables of four entries, CPUs with a TLB each, and a shootdown that waits for accesses
//! in progress.

use std::collections::BTreeMap;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Plain;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

use knee_sync::epoch::Domain;
use knee_sync::shim::{AtomicU64, Model, Mutex, check_interrupted, check_symmetric, fence, thread};

use crate::cpu::Cpu;
use crate::error::Fault;
use crate::machine::cpu_set::CpuSet;
use crate::machine::format::Table;
use crate::machine::format::{Entry, FaultFlush, Format, MemoryType, X86_64};
use crate::machine::frame_meta::FrameMeta;
use crate::machine::table_at;
use crate::machine::{Flush, Machine};
use crate::page::{BITS, ENTRIES, Frame, Page, Protection};
use crate::space::Space;

/// The number of CPUs. The main thread acts as CPUs 0 and 1, and the other thread as CPU 2.
const CPUS: usize = 3;

/// The number of frames: enough for all models.
const FRAMES: u64 = 16;

/// The page-table format of x86-64, with `LEVELS` levels.
pub(crate) enum Levels<const LEVELS: u8> {}

// SAFETY: the encoding is that of `X86_64`, which is correct for any number of levels.
unsafe impl<const LEVELS_: u8> Format for Levels<LEVELS_> {
    const LEVELS: u8 = LEVELS_;
    const FAULT_FLUSH: FaultFlush = X86_64::FAULT_FLUSH;

    fn table(frame: Frame) -> u64 {
        X86_64::table(frame)
    }

    fn page(frame: Frame, protection: Protection) -> u64 {
        X86_64::page(frame, protection)
    }

    const FRAMES: u64 = X86_64::FRAMES;

    fn device(frame: Frame, protection: Protection, memory: MemoryType) -> u64 {
        X86_64::device(frame, protection, memory)
    }

    fn prot_none(frame: Frame) -> u64 {
        X86_64::prot_none(frame)
    }

    fn flush_pending(frame: Frame) -> u64 {
        X86_64::flush_pending(frame)
    }

    fn swapped(slot: u64, dirty: bool) -> u64 {
        X86_64::swapped(slot, dirty)
    }

    fn large(entry: u64) -> u64 {
        X86_64::large(entry)
    }

    fn clear_accessed(entry: u64) -> u64 {
        X86_64::clear_accessed(entry)
    }

    fn read(entry: u64, level: u8) -> Entry {
        X86_64::read(entry, level)
    }
}

#[derive(Clone, Copy)]
struct Known {
    frame: Frame,
    protection: Protection,
    generation: u64,
}

/// Translations by space and page.
type Tlb = BTreeMap<(u64, Page), Known>;

/// The machine.
pub(crate) struct Tiny<const LEVELS: u8> {
    epoch: Domain<Model>,
    memory: Box<[Table]>,
    metas: Box<[FrameMeta]>,
    /// The generation of each frame, which changes when the frame is freed. The atomics are not loom's,
    /// because loom need not explore the orders of the accesses to them: in any order, the check detects a
    /// frame that is reused too early.
    generations: Box<[Plain]>,
    free: Mutex<Vec<Frame>>,
    /// A CPU holds the lock of its TLB during an access, so that no shootdown completes in the middle of
    /// the access.
    tlbs: [Mutex<Tlb>; CPUS],
}

// SAFETY: as for the hosted machine. Each word of memory is one of loom's atomics.
unsafe impl<const LEVELS: u8> Machine for Tiny<LEVELS> {
    type Platform = Model;
    type Format = Levels<LEVELS>;

    /// `free` zeroes the words of a frame. If `ZEROED` were false, the crate would write zero bytes over
    /// loom's atomics.
    const ZEROED: bool = true;
    /// As on the hosted machine, the MMU is software, and a CPU walks only the tables of a space that it
    /// borrows.
    const MAY_DROP_ACTIVE: bool = true;

    fn epoch(&self) -> &Domain<Model> {
        &self.epoch
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        match self.free.lock().unwrap().pop() {
            Some(frame) => {
                frames[0] = frame;
                1
            }
            None => 0,
        }
    }

    unsafe fn free(&self, frames: &[Frame]) {
        for &frame in frames {
            self.generations[frame.0 as usize].fetch_add(1, Relaxed);
            self.memory[frame.0 as usize].iter().for_each(|word| word.store(0, Relaxed));
        }
        self.free.lock().unwrap().extend_from_slice(frames);
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        NonNull::from(&self.memory[frame.0 as usize]).cast()
    }

    fn begin_root(&self, _table: Frame) {}

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        &self.metas[frame.0 as usize]
    }

    unsafe fn shoot_down(&self, _: usize, on: &CpuSet, space: u64, pages: Flush) {
        fence(SeqCst);
        for cpu in on.iter() {
            // SAFETY: the TLB's lock excludes the CPU that owns the TLB.
            unsafe { self.flush_local(cpu, space, pages) };
        }
    }

    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush) {
        self.tlbs[cpu].lock().unwrap().retain(|&(of, page), _| match pages {
            Flush::Range(pages) | Flush::Tables(pages) => of != space || !pages.contains(page),
            Flush::All => of != space,
        });
    }
}

impl<const LEVELS: u8> Tiny<LEVELS> {
    fn new() -> Tiny<LEVELS> {
        let table = || core::array::from_fn::<_, ENTRIES, _>(|_| AtomicU64::new(0));
        Tiny {
            epoch: Domain::new(Model),
            memory: (0..FRAMES).map(|_| table()).collect(),
            metas: (0..FRAMES).map(|_| FrameMeta::default()).collect(),
            generations: (0..FRAMES).map(|_| Plain::new(0)).collect(),
            free: Mutex::new((0..FRAMES).rev().map(Frame).collect()),
            tlbs: core::array::from_fn(|_| Mutex::new(BTreeMap::new())),
        }
    }
}

/// A CPU of the machine, with loads and stores through its TLB.
pub(crate) struct Processor<const LEVELS: u8> {
    cpu: Cpu<'static, Tiny<LEVELS>>,
    machine: &'static Tiny<LEVELS>,
}

// SAFETY: loom runs all its threads on one OS thread.
unsafe impl<const LEVELS: u8> Send for Processor<LEVELS> {}

impl<const LEVELS: u8> Deref for Processor<LEVELS> {
    type Target = Cpu<'static, Tiny<LEVELS>>;

    fn deref(&self) -> &Self::Target {
        &self.cpu
    }
}

impl<const LEVELS: u8> Processor<LEVELS> {
    pub(crate) fn load(&self, space: &Of<LEVELS>, page: u64) -> Result<u64, Fault> {
        self.access(space, Page(page), Protection::READ, |word| word.load(Relaxed))
    }

    pub(crate) fn store(&self, space: &Of<LEVELS>, page: u64, value: u64) -> Result<(), Fault> {
        self.access(space, Page(page), Protection::WRITE, |word| word.store(value, Relaxed))
    }

    pub(crate) fn leave(&self, space: &Of<LEVELS>) {
        let mut tlb = self.machine.tlbs[self.cpu.number()].lock().unwrap();
        tlb.retain(|&(of, _), _| of != space.number());
        // SAFETY: the TLB no longer has entries of the space, and the CPU activates the space again before
        // its next access.
        unsafe { space.deactivate(&self.cpu) };
    }

    fn access<R>(
        &self,
        space: &Of<LEVELS>,
        page: Page,
        access: Protection,
        with: impl FnOnce(&AtomicU64) -> R,
    ) -> Result<R, Fault> {
        loop {
            {
                let mut tlb = self.machine.tlbs[self.cpu.number()].lock().unwrap();
                let key = (space.number(), page);
                let known = tlb.get(&key).copied();
                let known = known.filter(|known| known.protection.contains(access));
                if let Some(known) = known.or_else(|| self.walk(space, page, access)) {
                    let frame = known.frame.0 as usize;
                    let is_stale =
                        self.machine.generations[frame].load(Relaxed) != known.generation;
                    assert!(!is_stale, "CPU {} has a stale page {page:#x}", self.cpu.number());
                    tlb.insert(key, known);
                    return Ok(with(&self.machine.memory[frame][0]));
                }
                tlb.remove(&key);
            }
            space.fault(&self.cpu, page, access)?;
        }
    }

    fn walk(&self, space: &Of<LEVELS>, page: Page, access: Protection) -> Option<Known> {
        space.activate(&self.cpu);
        let mut frame = space.table();
        for level in (0..LEVELS).rev() {
            // SAFETY: the memory of a table lives as long as the machine, even after the table has been
            // freed.
            let table = unsafe { table_at(self.machine, frame).as_ref() };
            let slot = (page.0 >> (BITS * u32::from(level))) as usize % ENTRIES;
            match X86_64::read(table[slot].load(Acquire), level) {
                Entry::Table(next) => frame = next,
                Entry::Page { frame, protection, .. } if protection.contains(access) => {
                    let generation = self.machine.generations[frame.0 as usize].load(Relaxed);
                    return Some(Known { frame, protection, generation });
                }
                _ => return None,
            }
        }
        None
    }
}

/// A space of the machine.
pub(crate) type Of<const LEVELS: u8> = Space<'static, Tiny<LEVELS>>;

/// A space and its machine.
struct World<const LEVELS: u8> {
    space: ManuallyDrop<Of<LEVELS>>,
    machine: NonNull<Tiny<LEVELS>>,
}

// SAFETY: loom runs all its threads on one OS thread.
unsafe impl<const LEVELS: u8> Send for World<LEVELS> {}
// SAFETY: as above.
unsafe impl<const LEVELS: u8> Sync for World<LEVELS> {}

impl<const LEVELS: u8> World<LEVELS> {
    fn processor(&self, number: usize) -> Processor<LEVELS> {
        // SAFETY: `run` drops all processors before it frees the machine.
        let machine = unsafe { self.machine.as_ref() };
        // SAFETY: each number is used for one processor.
        Processor { cpu: unsafe { Cpu::new(machine, number) }, machine }
    }
}

/// Explores the interleavings of `one` and `other` on two CPUs that use one space, with at most
/// `preemptions` preemptions. Calls `before` first, and calls `after` when `one` and `other` are done.
/// Checks that all frames are freed.
pub(crate) fn check<const LEVELS: u8>(
    preemptions: usize,
    before: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
    one: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
    other: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
    after: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
) {
    check_symmetric(preemptions, move || run(before, one, other, after));
}

/// Like [`check`], but on an asymmetric platform, where a thread enters an epoch without a fence. A fence
/// could hide a missing ordering.
pub(crate) fn check_asymmetric<const LEVELS: u8>(
    preemptions: usize,
    before: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
    one: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
    other: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
    after: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + Sync + Send + Copy + 'static,
) {
    check_interrupted(preemptions, move || run(before, one, other, after));
}

fn run<const LEVELS: u8>(
    before: impl Fn(&Processor<LEVELS>, &Of<LEVELS>),
    one: impl Fn(&Processor<LEVELS>, &Of<LEVELS>),
    other: impl Fn(&Processor<LEVELS>, &Of<LEVELS>) + 'static,
    after: impl Fn(&Processor<LEVELS>, &Of<LEVELS>),
) {
    let machine = NonNull::from(Box::leak(Box::new(Tiny::<LEVELS>::new())));
    // SAFETY: the machine is freed at the end of this function.
    let of: &'static Tiny<LEVELS> = unsafe { machine.as_ref() };
    {
        // SAFETY: no other `Cpu` has the number 0.
        let first = Processor { cpu: unsafe { Cpu::new(of, 0) }, machine: of };
        let space = ManuallyDrop::new(Space::new(&first.cpu).unwrap());
        let world = Arc::new(World { space, machine });
        before(&first, &world.space);
        let (own, second) = (world.processor(1), world.processor(2));
        let thread = thread::spawn({
            let world = Arc::clone(&world);
            move || {
                other(&second, &world.space);
                drop(world);
                second
            }
        });
        one(&own, &world.space);
        let second = thread.join().unwrap();
        after(&first, &world.space);
        drop((own, second));
        let mut world = Arc::into_inner(world).expect("the other thread has ended");
        // SAFETY: no thread uses the space any more.
        unsafe { ManuallyDrop::drop(&mut world.space) };
    }
    assert_eq!(of.free.lock().unwrap().len() as u64, FRAMES, "all frames are freed");
    // SAFETY: no thread uses the machine any more, and the machine came from a box.
    drop(unsafe { Box::from_raw(machine.as_ptr()) });
}
