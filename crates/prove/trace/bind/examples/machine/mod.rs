//! A machine for bindings of knee-vm: its CPUs cache no translations, so a shootdown has no CPU to wait
//! for. How long a real shootdown takes depends on the embedder.

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};

use knee_sync::epoch::Domain;
use knee_vm::hosted::Hosted;
use knee_vm::{
    Cpu, CpuSet, Entry, Fault, Flush, Format, Frame, FrameMeta, LazyMachine, Machine, Page, Pages,
    Protection, Space, Ticks, X86_64,
};

/// The number of CPUs, one for each thread of a test. The main thread, which makes no calls, shares
/// the last CPU.
pub(crate) const CPUS: usize = 4;

/// The CPU of the main thread.
pub(crate) const MAIN: usize = CPUS - 1;

/// The number of pages that a leaf table maps.
pub(crate) const TABLE: u64 = 512;

const FRAMES: usize = 512;

/// A machine with the memory of a hosted machine, and with CPUs that cache no translations.
pub(crate) struct Uncached {
    hosted: Hosted,
    ticks: Ticks,
}

// SAFETY: the frames come from the hosted machine, and CPUs read the tables at each access.
unsafe impl Machine for Uncached {
    type Platform = <Hosted as Machine>::Platform;
    type Format = X86_64;

    /// CPUs cache nothing, and read the tables of a space only while they borrow the space. So no CPU uses a
    /// dropped space.
    const MAY_DROP_ACTIVE: bool = true;

    fn epoch(&self) -> &Domain<Self::Platform> {
        self.hosted.epoch()
    }

    fn cpus(&self) -> usize {
        CPUS
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.hosted.allocate(frames)
    }

    unsafe fn free(&self, frames: &[Frame]) {
        // SAFETY: the caller upholds the contract of `free`.
        unsafe { self.hosted.free(frames) }
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.hosted.address(frame)
    }

    fn begin_root(&self, table: Frame) {
        self.hosted.begin_root(table);
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.hosted.frame_meta(frame)
    }

    unsafe fn shoot_down(&self, _: usize, on: &CpuSet, _: u64, _: Flush) {
        // Read the set, as a real machine does to find the CPUs that it has to interrupt.
        black_box(on.iter().count());
    }

    unsafe fn flush_local(&self, _: usize, _: u64, _: Flush) {}
}

// SAFETY: `ticks` always returns the same field. `start` puts all CPUs online, and they cache no
// translations.
unsafe impl LazyMachine for Uncached {
    fn ticks(&self) -> &Ticks {
        &self.ticks
    }
}

impl Uncached {
    /// Returns the first word of the page that is mapped at `page`, if the tables allow the access.
    fn find(&self, space: &Space<'_, Self>, page: Page, access: Protection) -> Option<&AtomicU64> {
        let mut table = space.table();
        for level in (0..X86_64::LEVELS).rev() {
            let words = self.address(table).cast::<AtomicU64>();
            let index = page.0 >> (9 * u32::from(level)) & (TABLE - 1);
            // SAFETY: the table has 512 entries, and its frame stays valid memory.
            let entry = unsafe { words.add(index as usize).as_ref() }.load(Acquire);
            match X86_64::read(entry, level) {
                Entry::Table(next) => table = next,
                Entry::Page { frame, protection, .. } if protection.contains(access) => {
                    // SAFETY: the frame stays valid memory.
                    return Some(unsafe { self.address(frame).cast().as_ref() });
                }
                _ => return None,
            }
        }
        None
    }
}

/// A CPU on cache lines of its own.
#[repr(align(128))]
struct Own(Cpu<'static, Uncached>);

/// The CPUs of a machine. Like everything that a test allocates, the machine is never freed.
pub(crate) struct Cpus([Own; CPUS]);

// SAFETY: each CPU is used only by the calls of one thread, and by the main thread while no thread
// makes a call.
unsafe impl Send for Cpus {}
// SAFETY: as above.
unsafe impl Sync for Cpus {}

impl Cpus {
    /// Starts a machine.
    pub(crate) fn start() -> Self {
        let ticks = Ticks::new(CPUS).unwrap();
        (0..CPUS).for_each(|cpu| ticks.cpu_online(cpu));
        let machine: &'static Uncached =
            Box::leak(Box::new(Uncached { hosted: Hosted::new(FRAMES, CPUS), ticks }));
        // SAFETY: each number is used once.
        Self(std::array::from_fn(|number| Own(unsafe { Cpu::new(machine, number) })))
    }

    /// The CPU with this number.
    pub(crate) fn get(&self, number: usize) -> &Cpu<'static, Uncached> {
        &self.0[number].0
    }
}

/// Accesses the first word of a page, as a program does: if the tables do not allow the access,
/// handles a fault and tries again.
fn access<R>(
    cpu: &Cpu<'static, Uncached>,
    space: &Space<'static, Uncached>,
    page: Page,
    access: Protection,
    with: impl FnOnce(&AtomicU64) -> R,
) -> Result<R, Fault> {
    loop {
        if let Some(word) = cpu.machine().find(space, page, access) {
            return Ok(with(word));
        }
        space.fault(cpu, page, access)?;
    }
}

/// Loads the first word of a page.
pub(crate) fn load(
    cpu: &Cpu<'static, Uncached>,
    space: &Space<'static, Uncached>,
    page: Page,
) -> Result<u64, Fault> {
    access(cpu, space, page, Protection::READ, |word| word.load(Relaxed))
}

/// Stores to the first word of a page.
pub(crate) fn store(
    cpu: &Cpu<'static, Uncached>,
    space: &Space<'static, Uncached>,
    page: Page,
    value: u64,
) -> Result<(), Fault> {
    access(cpu, space, page, Protection::WRITE, |word| word.store(value, Relaxed))
}

/// Fills the CPU's pools: maps, accesses and unmaps pages at `first` several times. Nothing is
/// mapped there before or after the call.
pub(crate) fn warm_up(cpu: &Cpu<'static, Uncached>, space: &Space<'static, Uncached>, first: Page) {
    let pages = Pages::new(first, 4);
    for _ in 0..3 {
        space.map(cpu, pages, Protection::READ_WRITE).unwrap();
        pages.iter().for_each(|page| store(cpu, space, page, 1).unwrap());
        space.protect(cpu, pages, Protection::READ).unwrap();
        space.unmap(cpu, pages).unwrap();
    }
}
