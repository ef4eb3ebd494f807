//! A machine whose CPUs run on one thread, or on two threads that take turns. A test determines what the
//! other CPUs do while a CPU shoots down pages or waits.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use knee_sync::epoch::Domain;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{
    Cpu, CpuSet, Entry, Fault, Flush, Frame, FrameMeta, LazyMachine, Machine, PAGE, Page, Pages,
    Protection, Space, Ticks,
};

use crate::turns::{InTurns, Turns};

/// If an operation has to wait for another CPU, a panic with this payload abandons the operation. The test
/// continues after this panic.
pub(crate) struct Waits;

/// A translation that a CPU has cached: it stays until it is flushed.
#[derive(Clone, Copy)]
struct Translation {
    frame: Frame,
    protection: Protection,
    is_global: bool,
    /// The frame's generation when the CPU cached the translation.
    generation: u64,
    /// The level of the table that contains the entry: 0, or more for a part of a large page.
    level: u8,
}

/// A table that a CPU has found on a walk, with the generation of its frame.
type CachedTable = Option<(Frame, u64)>;

/// The entries that a CPU has cached. `None` means that the CPU has cached an absent entry.
#[derive(Default)]
struct Tlb {
    /// Translations. The key is the space and the page.
    pages: BTreeMap<(u64, Page), Option<Translation>>,
    /// Tables. The key is the space, and the level and the index of the entry that points to the table.
    /// Indices run through all tables of a level.
    tables: BTreeMap<(u64, u8, u64), CachedTable>,
}

/// An entry of this level maps `1 << shift(level)` pages.
fn shift(level: u8) -> u32 {
    9 * u32::from(level)
}

impl Tlb {
    fn flush(&mut self, space: u64, what: Flush) {
        let is_flushed = |pages: Pages| match what {
            Flush::Range(flushed) | Flush::Tables(flushed) => pages.overlaps(flushed),
            Flush::All => true,
        };
        self.pages.retain(|&(of, page), _| of != space || !is_flushed(Pages::new(page, 1)));
        if !matches!(what, Flush::Range(_)) {
            self.tables.retain(|&(of, level, index), _| {
                of != space
                    || !is_flushed(Pages::new(Page(index << shift(level)), 1 << shift(level)))
            });
        }
    }
}

/// Where a CPU found the entry that caused a page fault: in the current tables, or in its own cache.
enum Source {
    Tables,
    Cache,
}

/// The kernel's entry in each root table. This entry points to a table that only the kernel frees.
pub(crate) const KERNEL: u64 = 0x7777_7003;

/// A machine whose CPUs run one at a time. Its frames come from a hosted machine.
pub(crate) struct Stepped<A: Architecture> {
    turns: Arc<Turns>,
    epoch: Domain<InTurns>,
    hosted: Hosted<A>,
    generations: RefCell<BTreeMap<Frame, u64>>,
    /// What instruction fetches find: the first word of each frame at the time of its last
    /// [`prepare_code`](Machine::prepare_code). A frame that was freed since must be prepared again.
    code: RefCell<BTreeMap<Frame, u64>>,
    tlbs: Vec<RefCell<Tlb>>,
    ticks: Ticks,
    /// Number of shootdowns.
    interrupts: Cell<u64>,
    interrupted: RefCell<Vec<usize>>,
    /// Number of accesses to the metadata of frames.
    metas: Cell<u64>,
    others: Cell<Option<Others>>,
}

/// When the other CPUs run, and the closure that runs them.
type Others = (At, *mut dyn FnMut());

/// The moment at which the other CPUs run.
#[derive(Debug, Clone, Copy, PartialEq)]
enum At {
    /// The first time that an operation shoots down pages, before any CPU flushes them.
    Interrupt,
    /// Each time that an operation uses the platform, as it does before each lock and each wait.
    Platform,
}

// SAFETY: only `with_machine` creates a `Stepped`. A `Stepped` is used only on the thread that called
// `with_machine`, or on a thread that takes turns with that thread.
unsafe impl<A: Architecture> Sync for Stepped<A> {}

/// Passes a machine and its three CPUs to `with`, and checks that all frames are freed at the end.
pub(crate) fn with_machine<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, [Cpu<'m, Stepped<A>>; 3]),
) {
    with_frames(512, with);
}

/// Like [`with_machine`], but the machine has this number of frames.
pub(crate) fn with_frames<A: Architecture>(
    frames: usize,
    with: impl for<'m> FnOnce(&'m Stepped<A>, [Cpu<'m, Stepped<A>>; 3]),
) {
    let turns = Arc::new(Turns::default());
    let machine = Stepped {
        epoch: Domain::new(InTurns(Arc::clone(&turns))),
        turns,
        hosted: Hosted::with_architecture(frames, 3),
        generations: RefCell::default(),
        code: RefCell::default(),
        tlbs: (0..3).map(|_| RefCell::default()).collect(),
        ticks: Ticks::new(3).unwrap(),
        interrupts: Cell::new(0),
        interrupted: RefCell::default(),
        metas: Cell::new(0),
        others: Cell::new(None),
    };
    let all = machine.hosted.free_frames();
    (0..3).for_each(|cpu| machine.ticks.cpu_online(cpu));
    // SAFETY: the machine gets one `Cpu` for each number, and the threads that act as its CPUs take turns.
    with(&machine, [0, 1, 2].map(|cpu| unsafe { Cpu::new(&machine, cpu) }));
    assert_eq!(machine.hosted.free_frames(), all, "all frames are free again");
}

/// Whether an operation waits for another CPU. An operation that waits is abandoned.
pub(crate) fn waits<R>(operation: impl FnOnce() -> R) -> bool {
    match catch_unwind(AssertUnwindSafe(operation)) {
        Ok(_) => false,
        Err(payload) if payload.is::<Waits>() => true,
        Err(payload) => resume_unwind(payload),
    }
}

impl<A: Architecture> Stepped<A> {
    /// Runs `operation`, and calls `others` at its first shootdown, before any CPU has flushed.
    pub(crate) fn meanwhile<R>(&self, others: impl FnMut(), operation: impl FnOnce() -> R) -> R {
        self.at(At::Interrupt, others, operation)
    }

    /// Runs `operation`, and calls `others` each time that the operation uses the platform.
    pub(crate) fn all_the_while<R>(
        &self,
        others: impl FnMut(),
        operation: impl FnOnce() -> R,
    ) -> R {
        self.at(At::Platform, others, operation)
    }

    fn at<R>(&self, at: At, mut others: impl FnMut(), operation: impl FnOnce() -> R) -> R {
        let mut went = false;
        let mut others = || {
            went = true;
            others();
        };
        let pointer: *mut (dyn FnMut() + '_) = &raw mut others;
        // SAFETY: only the lifetime changes. The closure is called only while `operation` runs: it is removed
        // below, and if `operation` panics, nothing uses the machine any more.
        let pointer = unsafe {
            std::mem::transmute::<*mut (dyn FnMut() + '_), *mut (dyn FnMut() + 'static)>(pointer)
        };
        self.others.set(Some((at, pointer)));
        let result = operation();
        self.others.set(None);
        assert!(went, "the other CPUs did not run during the operation");
        result
    }

    fn come_in(&self, here: At) {
        let Some((at, others)) = self.others.take() else { return };
        if at == here {
            // SAFETY: the method `at` is running, and keeps the closure until the method returns.
            unsafe { (*others)() };
        }
        if (at, here) != (At::Interrupt, At::Interrupt) {
            self.others.set(Some((at, others)));
        }
    }

    /// Simulates the timer interrupt of a CPU, which flushes its TLB and then calls `then`.
    pub(crate) fn tick(&self, cpu: &Cpu<'_, Stepped<A>>, then: impl FnOnce()) {
        self.ticks.tick(cpu.number(), || {
            *self.tlbs[cpu.number()].borrow_mut() = Tlb::default();
            then();
        });
    }

    pub(crate) fn tick_all<const COUNT: usize>(&self, cpus: [&Cpu<'_, Stepped<A>>; COUNT]) {
        cpus.iter().for_each(|cpu| self.tick(cpu, || ()));
    }

    pub(crate) fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Whether CPUs are interrupted while `operation` runs.
    pub(crate) fn interrupts<R>(&self, operation: impl FnOnce() -> R) -> bool {
        let before = self.interrupts.get();
        operation();
        self.interrupts.get() > before
    }

    /// How often `operation` accesses the metadata of a frame.
    pub(crate) fn metas<R>(&self, operation: impl FnOnce() -> R) -> u64 {
        let before = self.metas.get();
        operation();
        self.metas.get() - before
    }

    /// The CPUs that the last shootdown interrupted.
    pub(crate) fn interrupted(&self) -> Vec<usize> {
        self.interrupted.borrow().clone()
    }

    /// Makes a CPU leave a space.
    pub(crate) fn leave<'m>(&'m self, cpu: &Cpu<'m, Stepped<A>>, space: &Space<'m, Stepped<A>>) {
        // SAFETY: this thread is the CPU, whose TLB has no entries of the space after the flush.
        unsafe {
            self.flush_local(cpu.number(), space.number(), Flush::All);
            space.deactivate(cpu);
        }
    }

    /// The kernel's entry in the root table of a space.
    pub(crate) fn kernel(&self, table: Frame) -> u64 {
        self.kernel_of(table).load(Relaxed)
    }

    fn kernel_of(&self, table: Frame) -> &AtomicU64 {
        // SAFETY: this is the last word of a table, which exists as long as the space.
        unsafe { self.address(table).cast::<AtomicU64>().add(511).as_ref() }
    }

    pub(crate) fn load<'m>(
        &'m self,
        cpu: &Cpu<'m, Stepped<A>>,
        space: &Space<'m, Stepped<A>>,
        page: Page,
    ) -> Result<u64, Fault> {
        self.access(cpu, space, page, Protection::READ, |_, word| word.load(Relaxed))
    }

    /// Fetches the first word of a page as an instruction. The result may be older than what a load finds.
    pub(crate) fn fetch<'m>(
        &'m self,
        cpu: &Cpu<'m, Stepped<A>>,
        space: &Space<'m, Stepped<A>>,
        page: Page,
    ) -> Result<u64, Fault> {
        self.access(cpu, space, page, Protection::EXECUTE, |frame, _| self.code.borrow()[&frame])
    }

    pub(crate) fn store<'m>(
        &'m self,
        cpu: &Cpu<'m, Stepped<A>>,
        space: &Space<'m, Stepped<A>>,
        page: Page,
        value: u64,
    ) -> Result<(), Fault> {
        self.access(cpu, space, page, Protection::WRITE, |_, word| word.store(value, Relaxed))
    }

    fn access<'m, R>(
        &'m self,
        cpu: &Cpu<'m, Stepped<A>>,
        space: &Space<'m, Stepped<A>>,
        page: Page,
        access: Protection,
        with: impl FnOnce(Frame, &AtomicU64) -> R,
    ) -> Result<R, Fault> {
        // The number of consecutive faults that cached entries have caused.
        let mut cached_faults = 0;
        loop {
            match self.translate(cpu, space, page, access) {
                Ok(cached) => {
                    let is_stale = self.generation(cached.frame) != cached.generation;
                    assert!(
                        !is_stale,
                        "CPU {} uses a stale translation of page {page:#x}",
                        cpu.number()
                    );
                    // SAFETY: this is the first word of a frame of the machine.
                    let word = unsafe { self.address(cached.frame).cast().as_ref() };
                    return Ok(with(cached.frame, word));
                }
                Err(Source::Tables) => cached_faults = 0,
                Err(Source::Cache) => cached_faults += 1,
            }
            assert!(cached_faults < 10, "CPU {} faults on page {page:#x} forever", cpu.number());
            match space.fault(cpu, page, access) {
                Err(Fault::Retry) => self.turns.wait(),
                result => result?,
            }
        }
    }

    /// Translates a page as the hardware does, or raises a page fault.
    fn translate<'m>(
        &'m self,
        cpu: &Cpu<'m, Stepped<A>>,
        space: &Space<'m, Stepped<A>>,
        page: Page,
        access: Protection,
    ) -> Result<Translation, Source> {
        let tlb = &self.tlbs[cpu.number()];
        let of_other = tlb.borrow().pages.iter().any(|(&(of, at), cached)| {
            of != space.number() && at == page && cached.is_some_and(|cached| cached.is_global)
        });
        assert!(!of_other, "a global translation of page {page:#x} is used in another space");
        let key = (space.number(), page);
        if let Some(&cached) = tlb.borrow().pages.get(&key) {
            match cached.filter(|cached| cached.protection.contains(access)) {
                Some(cached) => return Ok(cached),
                None if !A::FAULT_DROPS_ENTRY => return Err(Source::Cache),
                None => (),
            }
        }
        tlb.borrow_mut().pages.remove(&key);
        self.walk(cpu, space, page, access)
    }

    fn walk<'m>(
        &'m self,
        cpu: &Cpu<'m, Stepped<A>>,
        space: &Space<'m, Stepped<A>>,
        page: Page,
        access: Protection,
    ) -> Result<Translation, Source> {
        space.activate(cpu);
        self.check_large(space, page);
        let tlb = &self.tlbs[cpu.number()];
        let mut table = (space.table(), self.generation(space.table()));
        for level in (0..A::LEVELS).rev() {
            let index = page.0 >> shift(level);
            let cached = tlb.borrow().tables.get(&(space.number(), level, index)).copied();
            if let Some(cached) = cached {
                table = cached.ok_or(Source::Cache)?;
                continue;
            }
            let entry = self.entry(table.0, level, page);
            let is_stale = self.generation(table.0) != table.1;
            assert!(!is_stale, "CPU {} walks a freed table of page {page:#x}", cpu.number());
            let mut tlb = tlb.borrow_mut();
            match A::read(entry, level) {
                Entry::Table(next) => {
                    table = (next, self.generation(next));
                    if A::CACHES_TABLES {
                        tlb.tables.insert((space.number(), level, index), Some(table));
                    }
                }
                Entry::Page { frame, protection, .. } | Entry::Device { frame, protection } => {
                    // The TLB caches the pieces of a large page one by one.
                    let frame = Frame(frame.0 + page.0 % (1 << shift(level)));
                    let generation = self.generation(frame);
                    assert!(
                        !protection.contains(Protection::EXECUTE) || self.is_prepared(frame),
                        "page {page:#x} is executable, and its frame is not prepared"
                    );
                    let is_global = A::is_global(entry);
                    let found = Translation { frame, protection, is_global, generation, level };
                    let is_allowed = protection.contains(access);
                    let has_other =
                        |(&(of, other), cached): (&(u64, Page), &Option<Translation>)| {
                            of == space.number()
                                && cached.is_some_and(|cached| {
                                    let shift = shift(level.max(cached.level));
                                    cached.level != level && page.0 >> shift == other.0 >> shift
                                })
                        };
                    assert!(
                        !tlb.pages.iter().any(has_other),
                        "CPU {} caches entries of two sizes around page {page:#x}",
                        cpu.number()
                    );
                    if is_allowed || !A::FAULT_DROPS_ENTRY {
                        tlb.pages.insert((space.number(), page), Some(found));
                    }
                    return if is_allowed { Ok(found) } else { Err(Source::Tables) };
                }
                _ => {
                    if A::CACHES_ABSENT && level > 0 {
                        tlb.tables.insert((space.number(), level, index), None);
                    } else if A::CACHES_ABSENT {
                        tlb.pages.insert((space.number(), page), None);
                    }
                    break;
                }
            }
        }
        Err(Source::Tables)
    }

    /// The entry of a page in a table.
    fn entry(&self, table: Frame, level: u8, page: Page) -> u64 {
        let index = (page.0 >> shift(level)) as usize % 512;
        // SAFETY: this is a word of a frame of the machine.
        unsafe { self.address(table).cast::<AtomicU64>().add(index).as_ref() }.load(Relaxed)
    }

    /// The level of the entry that maps `page` as part of a large page: 1 or 2.
    fn large_level(&self, space: &Space<'_, Stepped<A>>, page: Page) -> Option<u8> {
        let mut table = space.table();
        for level in (1..A::LEVELS).rev() {
            match A::read(self.entry(table, level, page), level) {
                Entry::Table(next) => table = next,
                Entry::Page { .. } | Entry::Device { .. } => return Some(level),
                _ => break,
            }
        }
        None
    }

    /// If `page` is in a large page, checks that no CPU has a pointer to a table of smaller pages there: such
    /// a CPU could find pages of both sizes.
    fn check_large(&self, space: &Space<'_, Stepped<A>>, page: Page) {
        let Some(level) = self.large_level(space, page) else { return };
        for (cpu, tlb) in self.tlbs.iter().enumerate() {
            let has_table = (1..=level).any(|level| {
                let key = (space.number(), level, page.0 >> shift(level));
                tlb.borrow().tables.get(&key).is_some_and(Option::is_some)
            });
            assert!(!has_table, "CPU {cpu} caches a table beside the large page of page {page:#x}");
        }
    }

    fn is_prepared(&self, frame: Frame) -> bool {
        self.code.borrow().contains_key(&frame)
    }

    fn generation(&self, frame: Frame) -> u64 {
        self.generations.borrow().get(&frame).copied().unwrap_or(0)
    }
}

// SAFETY: the frames come from the hosted machine, and each CPU of the set has flushed when `shoot_down`
// returns.
unsafe impl<A: Architecture> Machine for Stepped<A> {
    type Platform = InTurns;
    type Format = A;

    /// The MMU is in software, as on the hosted machine.
    const MAY_DROP_ACTIVE: bool = true;

    fn epoch(&self) -> &Domain<Self::Platform> {
        self.turns.point();
        self.come_in(At::Platform);
        &self.epoch
    }

    fn cpus(&self) -> usize {
        self.tlbs.len()
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        self.hosted.allocate(frames)
    }

    fn has_gigabyte_pages(&self) -> bool {
        true
    }

    fn allocate_large(&self) -> Option<Frame> {
        self.hosted.allocate_large()
    }

    unsafe fn free_large(&self, first: Frame) {
        for frame in (first.0..first.0 + 512).map(Frame) {
            self.frame_recycled(frame);
            // SAFETY: as in `free`.
            unsafe { self.hosted.address(frame).write_bytes(0xa5, PAGE) };
        }
        // SAFETY: the caller meets the same contract.
        unsafe { self.hosted.free_large(first) }
    }

    unsafe fn free(&self, frames: &[Frame]) {
        for &frame in frames {
            self.frame_recycled(frame);
            // SAFETY: nothing uses the frame. A stale read finds this pattern instead of the zeros of a new
            // page.
            unsafe { self.address(frame).write_bytes(0xa5, PAGE) };
        }
        // SAFETY: the caller meets the same contract.
        unsafe { self.hosted.free(frames) }
    }

    fn frame_recycled(&self, frame: Frame) {
        *self.generations.borrow_mut().entry(frame).or_default() += 1;
        self.code.borrow_mut().remove(&frame);
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.turns.point();
        self.hosted.address(frame)
    }

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.turns.point();
        self.metas.set(self.metas.get() + 1);
        self.hosted.frame_meta(frame)
    }

    fn begin_root(&self, table: Frame) {
        if A::HAS_KERNEL {
            self.kernel_of(table).store(KERNEL, Relaxed);
        }
    }

    fn prepare_code(&self, frame: Frame) {
        // SAFETY: this is the first word of a frame of the machine.
        let word: &AtomicU64 = unsafe { self.hosted.address(frame).cast().as_ref() };
        self.code.borrow_mut().insert(frame, word.load(Relaxed));
    }

    unsafe fn shoot_down(&self, _: usize, on: &CpuSet, space: u64, pages: Flush) {
        self.turns.point();
        self.come_in(At::Interrupt);
        self.turns.pass();
        self.interrupts.set(self.interrupts.get() + 1);
        *self.interrupted.borrow_mut() = on.iter().collect();
        for cpu in on.iter() {
            // SAFETY: this thread acts as all CPUs.
            unsafe { self.flush_local(cpu, space, pages) };
        }
    }

    unsafe fn flush_local(&self, cpu: usize, space: u64, pages: Flush) {
        self.tlbs[cpu].borrow_mut().flush(space, pages);
    }

    unsafe fn wait_while(&self, _: usize, mut condition: impl FnMut() -> bool) {
        while condition() {
            self.turns.wait();
        }
    }
}

// SAFETY: all CPUs are online from the start, and `tick` flushes the whole TLB.
unsafe impl<A: Architecture> LazyMachine for Stepped<A> {
    fn ticks(&self) -> &Ticks {
        &self.ticks
    }
}
