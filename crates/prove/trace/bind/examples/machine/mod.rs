//! A machine for bindings of knee-vm: its CPUs cache no translations, so a shootdown has no CPU to wait
//! for. How long a real shootdown takes depends on the embedder.

use std::hint::black_box;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock};

use knee_sync::epoch::Domain;
use knee_vm::hosted::Hosted;
use knee_vm::{
    Cpu, CpuSet, Entry, Fault, Flush, Format, Frame, FrameMeta, LazyMachine, Machine, PAGE, Page,
    Pages, Protection, Space, Ticks, X86_64,
};

/// The number of CPUs, one for each thread of a test. The main thread, which makes no calls, shares
/// the last CPU.
pub(crate) const CPUS: usize = 4;

/// The CPU of the main thread.
pub(crate) const MAIN: usize = CPUS - 1;

/// The number of pages that a leaf table maps.
pub(crate) const TABLE: u64 = 512;

const FRAMES: usize = 512;

/// The number of large pages, one for each CPU that makes calls.
const LARGE_PAGES: usize = CPUS - 1;

/// A machine with the memory of a hosted machine, and with CPUs that cache no translations.
pub(crate) struct Uncached {
    hosted: Hosted,
    ticks: Ticks,
    /// Initialized when a test needs a large page.
    large: OnceLock<LargePages>,
}

/// The frames of large pages, which follow the hosted machine's frames. The hosted machine zeroes its memory
/// when it starts, which would take too long for these frames. `FRAMES` is a multiple of 512, as the number
/// of a large page's first frame must be.
struct LargePages {
    memory: NonNull<u8>,
    metas: Box<[FrameMeta]>,
    free: Mutex<Vec<Frame>>,
}

// SAFETY: the memory is never freed, and only the owners of frames access it.
unsafe impl Sync for LargePages {}
// SAFETY: as above.
unsafe impl Send for LargePages {}

impl LargePages {
    fn new() -> Self {
        let frames = LARGE_PAGES * TABLE as usize;
        // A vector of zeros is fresh memory from the system, which allocates each page on first access.
        let memory: &'static mut [u8] = vec![0; (frames + 1) * PAGE].leak();
        let start = memory.as_ptr().align_offset(PAGE);
        let free = (0..LARGE_PAGES).map(|number| Frame((FRAMES + number * TABLE as usize) as u64));
        Self {
            memory: NonNull::from(&mut memory[start..]).cast(),
            metas: (0..frames).map(|_| FrameMeta::default()).collect(),
            free: Mutex::new(free.collect()),
        }
    }

    /// The place of a frame among the frames of large pages, or `None` if the hosted machine has the frame.
    fn place(frame: Frame) -> Option<usize> {
        (frame.0 as usize).checked_sub(FRAMES)
    }
}

// SAFETY: the frames come from the hosted machine, or from a list of large pages. Each large page has one
// owner. CPUs read the tables at each access.
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

    /// After a large page has been split, its frames are not used again.
    unsafe fn free(&self, frames: &[Frame]) {
        for frame in frames.iter().filter(|frame| LargePages::place(**frame).is_none()) {
            // SAFETY: the caller upholds the contract of `free`.
            unsafe { self.hosted.free(&[*frame]) }
        }
    }

    fn allocate_large(&self) -> Option<Frame> {
        self.large.get_or_init(LargePages::new).free.lock().unwrap().pop()
    }

    unsafe fn free_large(&self, first: Frame) {
        self.large().free.lock().unwrap().push(first);
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        match LargePages::place(frame) {
            None => self.hosted.address(frame),
            // SAFETY: the memory contains all frames of large pages.
            Some(place) => unsafe { self.large().memory.add(place * PAGE) },
        }
    }

    fn begin_root(&self, table: Frame) {
        self.hosted.begin_root(table);
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        match LargePages::place(frame) {
            None => self.hosted.frame_meta(frame),
            Some(place) => &self.large().metas[place],
        }
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
    fn large(&self) -> &LargePages {
        self.large.get().expect("the frame belongs to a large page")
    }

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
        let machine: &'static Uncached = Box::leak(Box::new(Uncached {
            hosted: Hosted::new(FRAMES, CPUS),
            ticks,
            large: OnceLock::new(),
        }));
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
