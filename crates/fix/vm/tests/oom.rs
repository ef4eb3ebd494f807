//! Makes each allocation fail in turn. The failed operation must have changed nothing, and must succeed when
//! it is repeated with enough memory. No memory may be leaked.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex};

use knee_sync::epoch::Domain;
use knee_vm::hosted::Hosted;
use knee_vm::{
    Cpu, CpuSet, Entry, Fault, Flush, Format, Frame, FrameMeta, Machine, MapError, Object,
    OutOfMemory, PAGE, Page, Pager, PagerError, Pages, Protection, Sharing, Space, Swap, X86_64,
};

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

thread_local! {
    /// The number of frames that this thread can still allocate.
    static FRAMES: Cell<u64> = const { Cell::new(u64::MAX) };
    /// The number of heap allocations that will still succeed on this thread.
    static ALLOCATIONS: Cell<u64> = const { Cell::new(u64::MAX) };
}

/// Takes one frame or allocation from the budget `left`, or returns false if the budget is 0. `u64::MAX` is
/// an unlimited budget.
fn take(left: &'static std::thread::LocalKey<Cell<u64>>) -> bool {
    match left.get() {
        u64::MAX => true,
        0 => false,
        more => {
            left.set(more - 1);
            true
        }
    }
}

/// The system's allocator, which fails once `ALLOCATIONS` is used up.
struct Scarce;

// SAFETY: the system's allocator handles the request, or the allocation fails.
unsafe impl GlobalAlloc for Scarce {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller meets the contract of `GlobalAlloc::alloc`.
        if take(&ALLOCATIONS) { unsafe { System.alloc(layout) } } else { null_mut() }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller meets the contract of `GlobalAlloc::dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static HEAP: Scarce = Scarce;

/// A hosted machine that allocates one frame per call, and none once `FRAMES` is used up. Its only CPU has
/// no TLB.
struct Small(Hosted);

// SAFETY: as for the hosted machine; the only CPU caches nothing.
unsafe impl Machine for Small {
    type Platform = <Hosted as Machine>::Platform;
    type Format = X86_64;

    fn epoch(&self) -> &Domain<Self::Platform> {
        self.0.epoch()
    }

    fn cpus(&self) -> usize {
        1
    }

    fn allocate(&self, frames: &mut [Frame]) -> usize {
        if take(&FRAMES) { self.0.allocate(&mut frames[..1]) } else { 0 }
    }

    unsafe fn free(&self, frames: &[Frame]) {
        frames.iter().for_each(|frame| {
            let bytes = self.address(*frame);
            // SAFETY: nothing uses the frame. A stale read finds this pattern instead of the zeros of a new
            // page.
            unsafe { bytes.write_bytes(0xa5, knee_vm::PAGE) };
        });
        // SAFETY: the caller meets the contract of `Machine::free`.
        unsafe { self.0.free(frames) }
    }

    fn address(&self, frame: Frame) -> NonNull<u8> {
        self.0.address(frame)
    }

    fn begin_root(&self, _table: Frame) {}

    fn frame_meta(&self, frame: Frame) -> &FrameMeta {
        self.0.frame_meta(frame)
    }

    unsafe fn shoot_down(&self, _: usize, _: &CpuSet, _: u64, _: Flush) {}

    unsafe fn flush_local(&self, _: usize, _: u64, _: Flush) {}
}

#[derive(Debug, Clone, Copy)]
enum Operation {
    Map(Pages, Protection),
    /// A private mapping of an object.
    MapObject(Pages, Protection),
    /// Moves one or two pages to a range that begins at this page.
    Remap(Pages, Page),
    Unmap(Pages),
    Protect(Pages, Protection),
    Discard(Pages),
    /// Raises a fault for a store, and stores this number.
    Fault(Page, u64),
    /// Forks the space. The copy lives until the end of the trace.
    Fork,
}

/// Pages where ranges begin and end: in one table, in its neighbours, and in other branches.
const PLACES: [Page; 16] = [
    Page(500),
    Page(501),
    Page(502),
    Page(509),
    Page(511),
    Page(512),
    Page(514),
    Page(1023),
    Page(1024),
    Page(7 * 512 + 5),
    Page(512 * 512 - 1),
    Page(512 * 512),
    Page(512 * 512 + 1),
    Page(2 * 512 * 512 + 9),
    Page(5 * 512 * 512),
    Page(512 * 512 * 512 + 3),
];

/// Returns pseudorandom operations, from an xorshift generator.
fn trace(seed: u64) -> Vec<Operation> {
    let mut random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut below = move |end: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) as usize % end
    };
    (1..40)
        .map(|number| {
            let first = below(PLACES.len());
            let most = if below(3) == 0 { PLACES.len() } else { 3 };
            let last = (first + below(most)).min(PLACES.len() - 1);
            let pages = Pages { start: PLACES[first], end: PLACES[last] + 1 };
            let protection = [NONE, READ, READ | WRITE, READ | WRITE][below(4)];
            match below(16) {
                12 | 13 => Operation::MapObject(pages, protection),
                14 | 15 => {
                    let old = Pages::new(pages.start, 1 + below(2) as u64);
                    Operation::Remap(old, PLACES[below(PLACES.len())])
                }
                0..3 => Operation::Map(pages, protection),
                3..5 => Operation::Unmap(pages),
                5..7 => Operation::Protect(pages, protection),
                7 => Operation::Discard(pages),
                8 if below(2) == 0 => Operation::Fork,
                _ => Operation::Fault(pages.start, number),
            }
        })
        .collect()
}

/// Why an operation failed. Both variants are failures: `Ok` is the error of an operation that changes
/// mappings, and `Err` is the fault of an access.
type Wrong = Result<MapError, Fault>;

/// The protections and first words of the checked pages.
#[derive(Debug, Clone, Default, PartialEq)]
struct State {
    mapped: BTreeMap<Page, Protection>,
    words: BTreeMap<Page, u64>,
}

/// The checked pages: each page of [`PLACES`], and the page after it.
fn pages() -> impl Iterator<Item = Page> {
    PLACES.iter().flat_map(|&page| [page, page + 1])
}

impl State {
    fn apply(&mut self, operation: Operation) -> Result<(), Wrong> {
        let of = |range: Pages| pages().filter(move |&page| range.contains(page));
        match operation {
            Operation::Map(range, protection) | Operation::MapObject(range, protection) => {
                if of(range).any(|page| self.mapped.contains_key(&page)) {
                    return Err(Ok(MapError::Occupied));
                }
                self.mapped.extend(of(range).map(|page| (page, protection)));
            }
            Operation::Unmap(range) => {
                self.mapped.retain(|&page, _| !range.contains(page));
                self.words.retain(|&page, _| !range.contains(page));
            }
            Operation::Protect(range, protection) => {
                if of(range).any(|page| !self.mapped.contains_key(&page)) {
                    return Err(Ok(MapError::Unmapped));
                }
                self.mapped.extend(of(range).map(|page| (page, protection)));
            }
            Operation::Remap(old, to) => {
                let new = Pages::new(to, old.count());
                let is_mapped = |page| self.mapped.contains_key(&page);
                if old.start != to && old.overlaps(new) {
                    return Err(Ok(MapError::Overlap));
                }
                if !old.iter().all(is_mapped) {
                    return Err(Ok(MapError::Unmapped));
                }
                if old.start != to && new.iter().any(is_mapped) {
                    return Err(Ok(MapError::Occupied));
                }
                for (page, there) in old.iter().zip(new.iter()) {
                    let protection = self.mapped.remove(&page).expect("the page is mapped");
                    self.mapped.insert(there, protection);
                    if let Some(word) = self.words.remove(&page) {
                        self.words.insert(there, word);
                    }
                }
            }
            Operation::Fork => (),
            Operation::Discard(range) => self.words.retain(|&page, _| !range.contains(page)),
            Operation::Fault(page, number) => match self.mapped.get(&page) {
                None => return Err(Err(Fault::Unmapped)),
                Some(protection) if !protection.contains(WRITE) => {
                    return Err(Err(Fault::AccessDenied));
                }
                Some(_) => drop(self.words.insert(page, number)),
            },
        }
        Ok(())
    }

    /// The state of a space.
    fn of<'m>(cpu: &Cpu<'m, Small>, space: &Space<'m, Small>) -> State {
        let mapped = pages().filter_map(|page| Some((page, space.query(cpu, page)?))).collect();
        let word = |page| Some((page, word(cpu.machine(), space, page)?.load(Relaxed)));
        State { mapped, words: pages().filter_map(word).collect() }
    }
}

/// The first word of a page that is present.
fn word<'a>(machine: &'a Small, space: &Space<'_, Small>, page: Page) -> Option<&'a AtomicU64> {
    let mut frame = space.table();
    for level in (0..X86_64::LEVELS).rev() {
        let slot = (page.0 >> (9 * u32::from(level))) as usize % 512;
        // SAFETY: tables exist as long as the space, and no other thread uses the space.
        let entry = unsafe { machine.address(frame).cast::<AtomicU64>().add(slot).as_ref() };
        frame = match X86_64::read(entry.load(Relaxed), level) {
            Entry::Table(next) => next,
            Entry::Page { frame, .. } | Entry::ProtNone(frame) | Entry::FlushPending(frame) => {
                frame
            }
            Entry::Absent | Entry::Device { .. } | Entry::Swapped { .. } => return None,
        };
    }
    // SAFETY: the memory of a frame exists as long as the machine, and only this thread accesses it.
    Some(unsafe { machine.address(frame).cast().as_ref() })
}

fn apply<'m>(
    cpu: &Cpu<'m, Small>,
    space: &Space<'m, Small>,
    object: &Object<'m, Small>,
    operation: Operation,
    copies: &mut Vec<Space<'m, Small>>,
) -> Result<(), Wrong> {
    match operation {
        Operation::Map(pages, protection) => space.map(cpu, pages, protection).map_err(Ok),
        Operation::MapObject(pages, protection) => {
            let first = pages.start.0;
            space.map_object(cpu, pages, object, first, protection, Sharing::Private).map_err(Ok)
        }
        Operation::Remap(old, to) => space.remap(cpu, old, Pages::new(to, old.count())).map_err(Ok),
        Operation::Unmap(pages) => space.unmap(cpu, pages).map_err(Ok),
        Operation::Protect(pages, protection) => space.protect(cpu, pages, protection).map_err(Ok),
        Operation::Discard(pages) => space.discard(cpu, pages).map_err(Ok),
        Operation::Fork => {
            copies.push(space.fork(cpu).map_err(Ok)?);
            Ok(())
        }
        Operation::Fault(page, number) => {
            space.fault(cpu, page, WRITE).map_err(Err)?;
            word(cpu.machine(), space, page).expect("the page is present").store(number, Relaxed);
            Ok(())
        }
    }
}

/// Calls `with` with a budget of `count` frames or allocations, and sets `count` to the rest of this budget.
fn limited<R>(
    left: &'static std::thread::LocalKey<Cell<u64>>,
    count: &mut u64,
    with: impl FnOnce() -> R,
) -> R {
    left.set(*count);
    let result = with();
    *count = left.replace(u64::MAX);
    result
}

/// Runs a trace with `count` frames or allocations until the first failure, and with unlimited memory
/// afterwards. Returns which operation failed: 1 is the first operation of the trace, and 0 is the creation
/// of the space and the object.
fn run(
    trace: &[Operation],
    left: &'static std::thread::LocalKey<Cell<u64>>,
    mut count: u64,
) -> Option<usize> {
    let machine = Small(Hosted::new(512, 1));
    let all = machine.0.free_frames();
    let mut failed = None;
    {
        // SAFETY: no other `Cpu` has this number.
        let cpu = unsafe { Cpu::new(&machine, 0) };
        let begin = || Ok((Space::new(&cpu)?, Object::new(&cpu, 1 << 28)?));
        let (space, object) = match limited(left, &mut count, begin) {
            Ok(both) => both,
            Err(OutOfMemory) => {
                failed = Some(0);
                count = u64::MAX;
                begin().expect("there is memory again")
            }
        };
        let mut state = State::default();
        // Reserve memory for the copies now: later, the test's own allocations would fail as well.
        let (mut copies, mut states) = (Vec::with_capacity(trace.len()), Vec::new());
        for (place, &operation) in trace.iter().enumerate() {
            let mut result =
                limited(left, &mut count, || apply(&cpu, &space, &object, operation, &mut copies));
            if matches!(result, Err(Ok(MapError::OutOfMemory) | Err(Fault::OutOfMemory))) {
                assert_eq!(failed, None, "{operation:?} fails while there is memory");
                check(&cpu, &space, &state, operation);
                failed = Some(place + 1);
                count = u64::MAX;
                result = apply(&cpu, &space, &object, operation, &mut copies);
            }
            assert_eq!(result, state.apply(operation), "{operation:?}");
            check(&cpu, &space, &state, operation);
            if matches!(operation, Operation::Fork) {
                states.push(state.clone());
            }
        }
        for (copy, state) in copies.iter().zip(&states) {
            check(&cpu, copy, state, Operation::Fork);
        }
    }
    assert_eq!(machine.0.free_frames(), all, "all frames are free again");
    failed
}

fn check<'m>(cpu: &Cpu<'m, Small>, space: &Space<'m, Small>, state: &State, operation: Operation) {
    assert_eq!(&State::of(cpu, space), state, "after {operation:?}");
    space.audit(cpu);
}

/// Runs each trace repeatedly, each time with more memory, until nothing fails. Checks that each kind of
/// operation that may need memory has failed at least once.
fn every_place(left: &'static std::thread::LocalKey<Cell<u64>>) {
    let mut kinds = [false; 8];
    for seed in 1..12 {
        let trace = trace(seed);
        for count in 0.. {
            let failed = std::thread::scope(|scope| {
                scope.spawn(|| run(&trace, left, count)).join().unwrap()
            });
            match failed {
                None => break,
                Some(0) => kinds[0] = true,
                Some(place) => match trace[place - 1] {
                    Operation::Map(..) => kinds[1] = true,
                    Operation::Unmap(_) => kinds[2] = true,
                    Operation::Protect(..) => kinds[3] = true,
                    Operation::Fault(..) => kinds[4] = true,
                    Operation::Fork => kinds[5] = true,
                    Operation::MapObject(..) => kinds[6] = true,
                    Operation::Remap(..) => kinds[7] = true,
                    Operation::Discard(_) => panic!("`discard` allocates nothing"),
                },
            }
        }
    }
    assert_eq!(
        kinds, [true; 8],
        "one of these never ran out of memory: new, map, unmap, protect, fault, fork, object, remap"
    );
}

#[test]
fn an_operation_that_gets_no_frame_changes_nothing() {
    every_place(&FRAMES);
}

#[test]
fn an_operation_that_gets_no_heap_memory_changes_nothing() {
    every_place(&ALLOCATIONS);
}

/// A swap device that has allocated its memory in advance.
struct Disk(Mutex<Vec<[u8; PAGE]>>);

impl Pager for Disk {
    fn page_in(&self, slot: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        *page = self.0.lock().unwrap()[slot as usize];
        Ok(())
    }

    fn page_out(&self, slot: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        self.0.lock().unwrap()[slot as usize] = *page;
        Ok(())
    }
}

/// A swap device that rejects all pages.
struct Rejecting;

impl Pager for Rejecting {
    fn page_in(&self, _: u64, _: &mut [u8; PAGE]) -> Result<(), PagerError> {
        unreachable!("the device has no pages")
    }

    fn page_out(&self, _: u64, _: &[u8; PAGE]) -> Result<(), PagerError> {
        Err(PagerError::Failed)
    }
}

#[test]
fn pages_that_the_device_rejects_come_back_without_an_allocation() {
    let machine = Small(Hosted::new(128, 1));
    // SAFETY: it is the only `Cpu` with this number.
    let cpu = unsafe { Cpu::new(&machine, 0) };
    let swap = Arc::new(Swap::new(8, Box::new(Rejecting)).unwrap());
    let space = Space::with_swap(&cpu, None, swap).unwrap();
    let pages = Pages::new(Page(508), 8);
    space.map(&cpu, pages, READ | WRITE).unwrap();
    pages.iter().for_each(|page| space.fault(&cpu, page, WRITE).unwrap());
    cpu.drain();
    let (mut frames, mut allocations) = (9, 9);
    limited(&FRAMES, &mut frames, || {
        limited(&ALLOCATIONS, &mut allocations, || {
            assert_eq!(space.swap_out(&cpu, pages), Err(PagerError::Failed));
            assert_eq!(space.reclaim(&cpu, 8), Err(PagerError::Failed));
        });
    });
    assert_eq!((frames, allocations), (9, 9));
    assert_eq!(space.resident(), 8);
    space.audit(&cpu);
}

#[test]
fn reclaim_frees_frames_when_there_is_no_memory() {
    let machine = Small(Hosted::new(128, 1));
    let all = machine.0.free_frames();
    {
        // SAFETY: no other `Cpu` has this number.
        let cpu = unsafe { Cpu::new(&machine, 0) };
        let disk = Disk(Mutex::new(vec![[0; PAGE]; 80]));
        let swap = Arc::new(Swap::new(80, Box::new(disk)).unwrap());
        let space = Space::with_swap(&cpu, None, swap).unwrap();
        // The pages are in two leaf tables, so a branch stores the mapping.
        let pages = Pages::new(Page(512 - 40), 80);
        space.map(&cpu, pages, READ | WRITE).unwrap();
        let store = |page: Page| {
            space.fault(&cpu, page, WRITE)?;
            word(&machine, &space, page).expect("the page is present").store(page.0, Relaxed);
            Ok::<(), Fault>(())
        };
        pages.iter().try_for_each(store).unwrap();
        cpu.drain();
        // There is no free memory, so a page can be swapped in only if another page has been swapped out.
        let (mut frames, mut allocations) = (0, 0);
        limited(&FRAMES, &mut frames, || {
            limited(&ALLOCATIONS, &mut allocations, || {
                assert_eq!(space.reclaim(&cpu, 70), Ok(70));
                cpu.drain();
                assert_eq!(space.resident(), 10);
            });
        });
        for page in pages.iter() {
            space.fault(&cpu, page, READ).unwrap();
            let word = word(&machine, &space, page).expect("the page is present");
            assert_eq!(word.load(Relaxed), page.0);
        }
        space.audit(&cpu);
    }
    assert_eq!(machine.0.free_frames(), all, "all frames are free again");
}
