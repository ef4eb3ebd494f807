//! Several CPUs use one space at the same time. In some tests the CPUs have disjoint pages, and each CPU has
//! a model. In others, all CPUs access pages that one CPU changes, or all CPUs change the same pages. The
//! machine itself panics if a CPU accesses a frame through a stale TLB entry.

use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::{panic, thread};

use knee_baselines::AddressSpace;
use knee_models::random::Random;
use knee_vm::hosted::MmuContext;
use knee_vm::{Fault, MapError, Page, Pages, Protection};

use crate::choices::{self, patience};
use crate::designs::{Design, FRAMES, MachineOf, ProcessorOf, for_each_design};

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

const CPUS: u64 = 3;

/// The number of pages that a table of level 0 (`LEAF`) or of level 1 (`BRANCH`) covers.
const LEAF: u64 = 512;
const BRANCH: u64 = 512 * LEAF;

/// Runs `before` in a new space, then `work` on each CPU, then `after`. Checks that all frames are freed.
pub(crate) fn storm<D: Design>(
    before: impl for<'m> FnOnce(&ProcessorOf<'m, D>, &D::Space<'m>),
    work: impl for<'m> Fn(ProcessorOf<'m, D>, &D::Space<'m>) + Sync,
    after: impl for<'m> FnOnce(&ProcessorOf<'m, D>, &D::Space<'m>),
) {
    // The machine is small, because creating a large machine takes as long as many operations do.
    let machine = MachineOf::<D>::with_architecture(FRAMES / 2, CPUS as usize);
    let all = machine.free_frames();
    {
        let shared = D::shared(&machine, u64::MAX);
        let space = {
            let cpu = machine.cpu(0);
            let space = D::space(&shared, &cpu);
            before(&cpu, &space);
            space
        };
        let results: Vec<_> = thread::scope(|scope| {
            let (machine, space, work) = (&machine, &space, &work);
            let threads: Vec<_> = (0..CPUS as usize)
                .map(|number| scope.spawn(move || work(machine.cpu(number), space)))
                .collect();
            threads.into_iter().map(|thread| thread.join()).collect()
        });
        if let Some(failed) = results.into_iter().find_map(Result::err) {
            panic::resume_unwind(failed);
        }
        let cpu = machine.cpu(0);
        after(&cpu, &space);
        D::audit_all(&shared, &[&space], &cpu);
        assert_eq!(D::audit(&space, &cpu).present, space.resident());
        let everything = space.pages();
        space.unmap(&cpu, everything).unwrap();
        let left = D::audit(&space, &cpu);
        assert_eq!((left.mapped, left.present), (0, 0));
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

/// Between two operations, occasionally takes the CPU offline, audits the space, ticks, or leaves the space.
fn pause<'m, D: Design>(cpu: &mut ProcessorOf<'m, D>, space: &D::Space<'m>, random: &mut Random) {
    match random.below(200) {
        0..3 => cpu.offline(thread::yield_now),
        3 => drop(D::audit(space, cpu)),
        4..8 => cpu.tick(),
        8..12 => cpu.leave(space),
        _ => (),
    }
}

/// The pages of one CPU, with the expected protection and first word of each.
struct Own {
    first: Page,
    pages: Vec<Option<(Protection, u64)>>,
}

impl Own {
    fn step<'m, D: Design>(
        &mut self,
        cpu: &ProcessorOf<'m, D>,
        space: &D::Space<'m>,
        random: &mut Random,
    ) {
        let (first, last) = choices::places(random, self.pages.len());
        let range = Pages { start: self.first + first as u64, end: self.first + last as u64 + 1 };
        let (known, protection) = (&mut self.pages[first..=last], choices::protection(random));
        match random.below(8) {
            0 | 1 => {
                let expected = match known.iter().all(Option::is_none) {
                    true => {
                        known.fill(Some((protection, 0)));
                        Ok(())
                    }
                    false => Err(MapError::Occupied),
                };
                assert_eq!(space.map(cpu, range, protection), expected, "{range:?}");
            }
            2 => {
                known.fill(None);
                assert_eq!(space.unmap(cpu, range), Ok(()), "{range:?}");
            }
            3 => {
                let expected = match known.iter().all(Option::is_some) {
                    true => {
                        known.iter_mut().flatten().for_each(|page| page.0 = protection);
                        Ok(())
                    }
                    false => Err(MapError::Unmapped),
                };
                assert_eq!(space.protect(cpu, range, protection), expected, "{range:?}");
            }
            4 => {
                known.iter_mut().flatten().for_each(|page| page.1 = 0);
                assert_eq!(space.discard(cpu, range), Ok(()), "{range:?}");
            }
            5 | 6 => {
                let value = random.below(1 << 40);
                let expected = allows(known[0].map(|page| page.0), WRITE);
                if expected.is_ok() {
                    known[0] = known[0].map(|page| (page.0, value));
                }
                let stored = cpu.store(space, range.start.address(), value);
                assert_eq!(stored, expected, "page {:#x}", range.start);
            }
            _ => {
                let expected = allows(known[0].map(|page| page.0), READ);
                let expected = expected.map(|()| known[0].expect("the page is mapped").1);
                let loaded = cpu.load(space, range.start.address());
                assert_eq!(loaded, expected, "page {:#x}", range.start);
            }
        }
        for place in [first, last, random.below(self.pages.len() as u64) as usize] {
            let (page, known) = (self.first + place as u64, self.pages[place]);
            assert_eq!(space.query(cpu, page), known.map(|page| page.0), "page {page:#x}");
        }
    }
}

fn allows(page: Option<Protection>, access: Protection) -> Result<(), Fault> {
    match page {
        None => Err(Fault::Unmapped),
        Some(protection) if !protection.contains(access) => Err(Fault::AccessDenied),
        Some(_) => Ok(()),
    }
}

/// Each CPU changes pages of its own; `each` is the number of these pages for one CPU. CPU 0's pages begin at
/// `first`, and the other CPUs' pages follow. The pages in `mapped` are mapped before the CPUs start.
fn apart<D: Design>(first: Page, each: u64, mapped: Option<Pages>, rounds: u64) {
    for round in 0..rounds * patience() {
        let counted = AtomicU64::new(0);
        storm::<D>(
            |cpu, space| {
                if let Some(pages) = mapped {
                    space.map(cpu, pages, READ | WRITE).unwrap();
                }
            },
            |mut cpu, space| {
                let number = cpu.number() as u64;
                let mut random = Random::new(1 + round * CPUS + number);
                let new = mapped.map(|_| (READ | WRITE, 0));
                let mut own = Own { first: first + number * each, pages: vec![new; each as usize] };
                for _ in 0..150 {
                    own.step::<D>(&cpu, space, &mut random);
                    pause::<D>(&mut cpu, space, &mut random);
                }
                counted.fetch_add(own.pages.iter().flatten().count() as u64, SeqCst);
            },
            |cpu, space| {
                let others = mapped.map_or(0, |pages| pages.count() - CPUS * each);
                assert_eq!(D::audit(space, cpu).mapped, counted.load(SeqCst) + others);
            },
        );
    }
}

fn cpus_with_parts_of_one_leaf_do_not_interfere<D: Design>() {
    apart::<D>(Page(7 * LEAF), LEAF / CPUS, None, D::rounds(15, 3));
}

fn cpus_with_leaves_of_one_branch_do_not_interfere<D: Design>() {
    apart::<D>(Page(BRANCH - 600), 400, None, D::rounds(15, 3));
}

/// The CPUs split the extent, which moves parts of it down two levels. The ranges of adjacent CPUs meet
/// inside a leaf.
fn cpus_with_parts_of_one_extent_do_not_interfere<D: Design>() {
    let mapped = Pages { start: Page(3 * LEAF), end: Page(2 * BRANCH + 5) };
    apart::<D>(Page(9 * LEAF + 100), 1300, Some(mapped), D::rounds(30, 4));
    apart::<D>(Page(BRANCH - 100), 70, Some(mapped), D::rounds(15, 3));
}

/// The pages at which the ranges of one CPU begin and end. Other CPUs access these pages too.
type Places = Vec<Page>;

/// A version and the state of a page, published by the only CPU that changes the page. The version is odd
/// during a change.
#[derive(Default)]
struct Published(AtomicU64);

const STATES: [Option<Protection>; 3] = [None, Some(NONE), Some(READ)];

impl Published {
    fn state(published: u64) -> Option<Protection> {
        STATES.get(published as usize % 4).copied().unwrap_or(Some(READ | WRITE))
    }

    /// Returns the version and state, or `None` during a change.
    fn now(&self) -> Option<u64> {
        let published = self.0.load(Acquire);
        fence(SeqCst);
        (published >> 2).is_multiple_of(2).then_some(published)
    }

    fn is_still(&self, published: u64) -> bool {
        fence(SeqCst);
        self.0.load(Acquire) == published
    }

    fn begin(&self) {
        self.0.fetch_add(4, SeqCst);
        fence(SeqCst);
    }

    fn end(&self, state: impl FnOnce(Option<Protection>) -> Option<Protection>) {
        fence(SeqCst);
        let published = self.0.load(Acquire);
        let state = match state(Published::state(published)) {
            None => 0,
            Some(NONE) => 1,
            Some(READ) => 2,
            Some(_) => 3,
        };
        self.0.store((published / 4 + 1) * 4 + state, Release);
    }
}

/// Each CPU changes its own pages, and all CPUs access all pages. An access without a concurrent change must
/// find the page in the state that its owner has published.
fn visited<D: Design>(places: [Places; CPUS as usize], rounds: u64, steps: u64) {
    for round in 0..rounds * patience() {
        let published: Vec<Vec<Published>> = places
            .iter()
            .map(|places| places.iter().map(|_| Published::default()).collect())
            .collect();
        storm::<D>(
            |_, _| (),
            |mut cpu, space| {
                let number = cpu.number();
                let mut random = Random::new(1 + round * CPUS + number as u64);
                for step in 0..steps {
                    if random.below(4) == 0 {
                        change::<D>(&cpu, space, &mut random, &places[number], &published[number]);
                    }
                    let owner = random.below(CPUS) as usize;
                    let place = random.below(places[owner].len() as u64) as usize;
                    let (page, published) = (places[owner][place], &published[owner][place]);
                    let Some(now) = published.now() else { continue };
                    let state = Published::state(now);
                    let (found, expected) = match random.below(3) {
                        0 => (cpu.load(space, page.address()).map(drop), allows(state, READ)),
                        1 => (cpu.store(space, page.address(), step), allows(state, WRITE)),
                        _ => {
                            let found = space.query(&cpu, page);
                            (found.map(drop).ok_or(Fault::Unmapped), allows(state, NONE))
                        }
                    };
                    if published.is_still(now) {
                        assert_eq!(found, expected, "page {page:#x}, which is {state:?}");
                    }
                    pause::<D>(&mut cpu, space, &mut random);
                }
            },
            |cpu, space| {
                for (page, published) in places.iter().flatten().zip(published.iter().flatten()) {
                    let now = published.now().expect("all changes are complete");
                    assert_eq!(space.query(cpu, *page), Published::state(now), "page {page:#x}");
                }
                D::audit(space, cpu);
            },
        );
    }
}

/// Changes some of a CPU's own pages.
fn change<'m, D: Design>(
    cpu: &ProcessorOf<'m, D>,
    space: &D::Space<'m>,
    random: &mut Random,
    places: &[Page],
    published: &[Published],
) {
    let (first, last) = choices::places(random, places.len());
    let (pages, published) =
        (Pages { start: places[first], end: places[last] + 1 }, &published[first..=last]);
    let protection = choices::protection(random);
    // The operation changes all pages from `first` to `last`, so the published states of all of them change.
    published.iter().for_each(Published::begin);
    match random.below(4) {
        0 | 1 => {
            let result = space.map(cpu, pages, protection);
            assert!(matches!(result, Ok(()) | Err(MapError::Occupied)));
            published.iter().for_each(|page| {
                page.end(|old| if result.is_ok() { Some(protection) } else { old })
            });
        }
        2 => {
            let result = space.protect(cpu, pages, protection);
            assert!(matches!(result, Ok(()) | Err(MapError::Unmapped)));
            published.iter().for_each(|page| {
                page.end(|old| if result.is_ok() { Some(protection) } else { old })
            });
        }
        _ => {
            space.unmap(cpu, pages).unwrap();
            published.iter().for_each(|page| page.end(|_| None));
        }
    }
    if protection == READ {
        // No CPU can write to a read-only page.
        let words = || places.iter().map(|&page| cpu.load(space, page.address()).ok());
        let before: Vec<_> = words().collect();
        for ((word, before), page) in words().zip(before).zip(places) {
            let is_read_only = space.query(cpu, *page) == Some(READ);
            assert!(!is_read_only || word == before, "page {page:#x} was written");
        }
    }
}

fn pages_of_one_leaf_are_found_as_published<D: Design>() {
    visited::<D>(
        [0, 1, 2].map(|cpu| (0..20).map(|page| Page(5 * LEAF + 20 * cpu + page)).collect()),
        D::rounds(5, 3),
        D::rounds(3000, 2000),
    );
}

/// Some ranges are extents in a table of level 1 or 2. Other ranges lie in leaves that several CPUs use.
fn pages_of_split_extents_are_found_as_published<D: Design>() {
    let steps = [0, 1, 2, 3, 412, 413, 510, 1024, 1025, 5000, 5001, BRANCH - 2, BRANCH - 1];
    let places = |cpu: u64| steps.iter().map(|step| Page(100 + cpu * BRANCH + step)).collect();
    visited::<D>([0, 1, 2].map(places), D::rounds(10, 2), D::rounds(3000, 1500));
}

/// The history of a page that all CPUs change, with one element for each CPU.
#[derive(Default)]
struct Stores {
    /// The last value whose store has completed.
    done: [AtomicU64; CPUS as usize],
    /// All values up to this one have been removed, by an `unmap` or a `discard`.
    gone: [AtomicU64; CPUS as usize],
}

impl Stores {
    /// Calls `with`, which discards the contents of these pages. If `with` succeeds, records that all values
    /// that were stored before the call have been removed.
    fn clear(all: &[Stores], with: impl FnOnce() -> Result<(), MapError>) -> Result<(), MapError> {
        let read = |stores: &Stores| stores.done.each_ref().map(|done| done.load(Acquire));
        let before: Vec<_> = all.iter().map(read).collect();
        with()?;
        for (stores, before) in all.iter().zip(before) {
            for (gone, before) in stores.gone.iter().zip(before) {
                gone.fetch_max(before, SeqCst);
            }
        }
        Ok(())
    }
}

/// All CPUs change all pages. After an unmap, no load returns a value that was stored before the unmap. A
/// load returns zero or a value that was stored to the same page.
fn shared<D: Design>(places: Places, rounds: u64, steps: u64) {
    for round in 0..rounds * patience() {
        let all: Vec<_> = places.iter().map(|_| Stores::default()).collect();
        storm::<D>(
            |_, _| (),
            |mut cpu, space| {
                let number = cpu.number();
                let mut random = Random::new(1 + round * CPUS + number as u64);
                for step in 1..=steps {
                    let (first, last) = choices::places(&mut random, places.len());
                    let pages = Pages { start: places[first], end: places[last] + 1 };
                    let (at, stores) = (pages.start.address(), &all[first]);
                    match random.below(16) {
                        0..3 => {
                            // If `map` succeeds, the pages were unmapped before.
                            let protection = choices::protection(&mut random);
                            let result = Stores::clear(&all[first..=last], || {
                                space.map(&cpu, pages, protection)
                            });
                            assert!(matches!(result, Ok(()) | Err(MapError::Occupied)));
                        }
                        3 => {
                            let result =
                                space.protect(&cpu, pages, choices::protection(&mut random));
                            assert!(matches!(result, Ok(()) | Err(MapError::Unmapped)));
                        }
                        4 => {
                            // In a lazy space, a CPU may still load the old contents through its TLB after
                            // `unmap`, so the values count as gone only when the pages are mapped again.
                            let all = if D::FLUSHES_AT_ONCE { &all[first..=last] } else { &[] };
                            Stores::clear(all, || space.unmap(&cpu, pages)).unwrap();
                        }
                        5 => {
                            Stores::clear(&all[first..=last], || space.discard(&cpu, pages))
                                .unwrap();
                        }
                        6..10 => {
                            // The value consists of the CPU number, the index of the page and the step.
                            let value = (number as u64) << 56 | (first as u64) << 40 | step;
                            if cpu.store(space, at, value).is_ok() {
                                stores.done[number].store(step, Release);
                            }
                        }
                        _ => {
                            let gone = stores.gone.each_ref().map(|gone| gone.load(SeqCst));
                            let Ok(value @ 1..) = cpu.load(space, at) else { continue };
                            let (by, of) = (value >> 56, value >> 40 & 0xffff);
                            assert_eq!(
                                of, first as u64,
                                "page {:#x} contains another page's value",
                                pages.start
                            );
                            let (stored, gone) = (value & 0xff_ffff_ffff, gone[by as usize]);
                            assert!(
                                stored > gone,
                                "page {:#x} contains value {stored} of CPU {by}, \
                                 whose values up to {gone} were discarded",
                                pages.start
                            );
                        }
                    }
                    pause::<D>(&mut cpu, space, &mut random);
                }
            },
            |cpu, space| {
                let found = D::audit(space, cpu);
                let mapped = places.iter().filter(|page| space.query(cpu, **page).is_some());
                assert!(mapped.count() as u64 <= found.mapped);
                // A page that was unmapped lazily still counts as present, but not as mapped.
                assert!(found.present <= found.mapped || !D::FLUSHES_AT_ONCE);
            },
        );
    }
}

fn pages_of_one_leaf_contain_stores_since_they_were_mapped<D: Design>() {
    shared::<D>((LEAF - 8..LEAF + 8).map(Page).collect(), D::rounds(10, 2), D::rounds(3000, 1500));
}

fn pages_of_split_extents_contain_stores_since_they_were_mapped<D: Design>() {
    let near = (0..4).map(|page| 2 * LEAF + page);
    let far = [9 * LEAF + 3, BRANCH - 1, BRANCH, BRANCH + LEAF, 2 * BRANCH, 3 * BRANCH + 7];
    shared::<D>(near.chain(far).map(Page).collect(), D::rounds(10, 2), D::rounds(3000, 1500));
}

/// A fault reads extents while another CPU splits them and thereby moves them down a level.
fn a_fault_finds_an_extent_that_is_split_meanwhile<D: Design>() {
    let (all, page, other) = (Pages::new(Page(100), BRANCH), Page(101), Page(5 * LEAF));
    let (published, is_over) = (Published::default(), AtomicU64::new(0));
    storm::<D>(
        |_, _| (),
        |cpu, space| {
            if cpu.number() == 0 {
                for _ in 0..D::rounds(2000, 200) * patience() {
                    published.begin();
                    space.map(&cpu, all, READ).unwrap();
                    published.end(|_| Some(READ));
                    space.protect(&cpu, Pages::new(other, 1), NONE).unwrap();
                    published.begin();
                    space.unmap(&cpu, all).unwrap();
                    published.end(|_| None);
                }
                is_over.store(1, Release);
            }
            while is_over.load(Acquire) == 0 {
                cpu.handle_ipis();
                let Some(now) = published.now() else { continue };
                let faults = cpu.number() == 1;
                let found = match faults {
                    true => space.fault(&cpu, page, READ).is_ok(),
                    false => space.query(&cpu, page).is_some(),
                };
                if published.is_still(now) {
                    assert_eq!(found, Published::state(now).is_some(), "fault: {faults}");
                }
            }
        },
        |_, _| (),
    );
}

for_each_design!(cpus_with_parts_of_one_leaf_do_not_interfere, Lazy);
for_each_design!(cpus_with_leaves_of_one_branch_do_not_interfere, Lazy);
for_each_design!(cpus_with_parts_of_one_extent_do_not_interfere, Lazy);
for_each_design!(pages_of_one_leaf_are_found_as_published);
for_each_design!(pages_of_split_extents_are_found_as_published);
for_each_design!(pages_of_one_leaf_contain_stores_since_they_were_mapped, Lazy);
for_each_design!(pages_of_split_extents_contain_stores_since_they_were_mapped, Lazy);
for_each_design!(a_fault_finds_an_extent_that_is_split_meanwhile);
