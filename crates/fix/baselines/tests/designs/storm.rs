//! Several CPUs at once in one space: on pages that are apart, with a model for each CPU; on pages of one
//! CPU to which others go; and on the same pages. The machine itself notices who goes to a frame that it
//! should have forgotten.

use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};
use std::sync::atomic::{AtomicU64, fence};
use std::{panic, thread};

use knee_baselines::AddressSpace;
use knee_vm::hosted::MmuContext;
use knee_vm::{Fault, MapError, Page, Pages, Protection};

use crate::choices::patience;
use crate::designs::{Design, FRAMES, MachineOf, ProcessorOf, for_each_design};
use crate::random::Random;

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

const CPUS: u64 = 3;

/// Pages of one table, of one that has tables, and of one that has those.
const LEAF: u64 = 512;
const BRANCH: u64 = 512 * LEAF;

/// Runs `work` on each CPU of a machine, in a space where `before` has done something and which `after`
/// looks at. All frames come back.
pub(crate) fn storm<D: Design>(
    before: impl for<'m> FnOnce(&ProcessorOf<'m, D>, &D::Space<'m>),
    work: impl for<'m> Fn(ProcessorOf<'m, D>, &D::Space<'m>) + Sync,
    after: impl for<'m> FnOnce(&ProcessorOf<'m, D>, &D::Space<'m>),
) {
    // To make a machine takes as long as many operations.
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
    assert_eq!(machine.free_frames(), all, "all frames come back");
}

/// What CPUs do now and then between operations.
fn pause<'m, D: Design>(cpu: &mut ProcessorOf<'m, D>, space: &D::Space<'m>, random: &mut Random) {
    match random.below(200) {
        0..3 => cpu.offline(thread::yield_now),
        3 => drop(D::audit(space, cpu)),
        4..8 => cpu.tick(),
        8..12 => cpu.leave(space),
        _ => (),
    }
}

/// Pages of one CPU, and what it knows of each: what may be done, and its first word.
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
        let (first, last) = random.places(self.pages.len());
        let range = Pages { start: self.first + first as u64, end: self.first + last as u64 + 1 };
        let (known, protection) = (&mut self.pages[first..=last], random.protection());
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
                let expected = expected.map(|()| known[0].expect("it is mapped").1);
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

/// CPUs with so many pages of their own each, from `first` on. `mapped` is mapped before they come.
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

fn cpus_with_parts_of_one_leaf_do_not_notice_each_other<D: Design>() {
    apart::<D>(Page(7 * LEAF), LEAF / CPUS, None, D::rounds(15, 3));
}

fn cpus_with_leaves_of_one_branch_do_not_notice_each_other<D: Design>() {
    apart::<D>(Page(BRANCH - 600), 400, None, D::rounds(15, 3));
}

/// It is handed down two levels, and the ends of what each CPU has are in the same leaves.
fn cpus_with_parts_of_what_was_mapped_at_once_do_not_notice_each_other<D: Design>() {
    let mapped = Pages { start: Page(3 * LEAF), end: Page(2 * BRANCH + 5) };
    apart::<D>(Page(9 * LEAF + 100), 1300, Some(mapped), D::rounds(30, 4));
    apart::<D>(Page(BRANCH - 100), 70, Some(mapped), D::rounds(15, 3));
}

/// The place of a CPU's pages: ranges begin and end there, and others go there.
type Places = Vec<Page>;

/// What one CPU says of a page that it alone changes: its state, and how often it has said so. Odd while
/// it is changing it.
#[derive(Default)]
struct Said(AtomicU64);

const STATES: [Option<Protection>; 3] = [None, Some(NONE), Some(READ)];

impl Said {
    fn state(said: u64) -> Option<Protection> {
        STATES.get(said as usize % 4).copied().unwrap_or(Some(READ | WRITE))
    }

    /// None while it changes.
    fn now(&self) -> Option<u64> {
        let said = self.0.load(Acquire);
        fence(SeqCst);
        (said >> 2).is_multiple_of(2).then_some(said)
    }

    fn is_still(&self, said: u64) -> bool {
        fence(SeqCst);
        self.0.load(Acquire) == said
    }

    fn begin(&self) {
        self.0.fetch_add(4, SeqCst);
        fence(SeqCst);
    }

    fn end(&self, state: impl FnOnce(Option<Protection>) -> Option<Protection>) {
        fence(SeqCst);
        let said = self.0.load(Acquire);
        let state = match state(Said::state(said)) {
            None => 0,
            Some(NONE) => 1,
            Some(READ) => 2,
            Some(_) => 3,
        };
        self.0.store((said / 4 + 1) * 4 + state, Release);
    }
}

/// Each CPU changes pages of its own, and all go to all of them: whoever goes to a page while nobody
/// changes it has to find it as its owner has said that it is.
fn visited<D: Design>(places: [Places; CPUS as usize], rounds: u64, steps: u64) {
    for round in 0..rounds * patience() {
        let said: Vec<Vec<Said>> =
            places.iter().map(|places| places.iter().map(|_| Said::default()).collect()).collect();
        storm::<D>(
            |_, _| (),
            |mut cpu, space| {
                let number = cpu.number();
                let mut random = Random::new(1 + round * CPUS + number as u64);
                for step in 0..steps {
                    if random.below(4) == 0 {
                        change::<D>(&cpu, space, &mut random, &places[number], &said[number]);
                    }
                    let owner = random.below(CPUS) as usize;
                    let place = random.below(places[owner].len() as u64) as usize;
                    let (page, said) = (places[owner][place], &said[owner][place]);
                    let Some(now) = said.now() else { continue };
                    let state = Said::state(now);
                    let (found, expected) = match random.below(3) {
                        0 => (cpu.load(space, page.address()).map(drop), allows(state, READ)),
                        1 => (cpu.store(space, page.address(), step), allows(state, WRITE)),
                        _ => {
                            let found = space.query(&cpu, page);
                            (found.map(drop).ok_or(Fault::Unmapped), allows(state, NONE))
                        }
                    };
                    if said.is_still(now) {
                        assert_eq!(found, expected, "page {page:#x}, which is {state:?}");
                    }
                    pause::<D>(&mut cpu, space, &mut random);
                }
            },
            |cpu, space| {
                for (page, said) in places.iter().flatten().zip(said.iter().flatten()) {
                    let now = said.now().expect("nobody changes it");
                    assert_eq!(space.query(cpu, *page), Said::state(now), "page {page:#x}");
                }
                D::audit(space, cpu);
            },
        );
    }
}

/// Changes some of one's own pages.
fn change<'m, D: Design>(
    cpu: &ProcessorOf<'m, D>,
    space: &D::Space<'m>,
    random: &mut Random,
    places: &[Page],
    said: &[Said],
) {
    let (first, last) = random.places(places.len());
    let (pages, said) =
        (Pages { start: places[first], end: places[last] + 1 }, &said[first..=last]);
    let protection = random.protection();
    // What is between places was mapped with some of them, and goes with others.
    said.iter().for_each(Said::begin);
    match random.below(4) {
        0 | 1 => {
            let result = space.map(cpu, pages, protection);
            assert!(matches!(result, Ok(()) | Err(MapError::Occupied)));
            said.iter().for_each(|said| {
                said.end(|old| if result.is_ok() { Some(protection) } else { old })
            });
        }
        2 => {
            let result = space.protect(cpu, pages, protection);
            assert!(matches!(result, Ok(()) | Err(MapError::Unmapped)));
            said.iter().for_each(|said| {
                said.end(|old| if result.is_ok() { Some(protection) } else { old })
            });
        }
        _ => {
            space.unmap(cpu, pages).unwrap();
            said.iter().for_each(|said| said.end(|_| None));
        }
    }
    if protection == READ {
        // Nobody writes where it is forbidden.
        let words = || places.iter().map(|&page| cpu.load(space, page.address()).ok());
        let before: Vec<_> = words().collect();
        for ((word, before), page) in words().zip(before).zip(places) {
            let is_read_only = space.query(cpu, *page) == Some(READ);
            assert!(!is_read_only || word == before, "page {page:#x} was written");
        }
    }
}

fn pages_of_one_leaf_are_found_as_their_owners_say<D: Design>() {
    visited::<D>(
        [0, 1, 2].map(|cpu| (0..20).map(|page| Page(5 * LEAF + 20 * cpu + page)).collect()),
        D::rounds(5, 3),
        D::rounds(3000, 2000),
    );
}

/// Ranges that are said by one branch, by the one above, and by leaves that CPUs share.
fn pages_of_what_is_handed_down_are_found_as_their_owners_say<D: Design>() {
    let steps = [0, 1, 2, 3, 412, 413, 510, 1024, 1025, 5000, 5001, BRANCH - 2, BRANCH - 1];
    let places = |cpu: u64| steps.iter().map(|step| Page(100 + cpu * BRANCH + step)).collect();
    visited::<D>([0, 1, 2].map(places), D::rounds(10, 2), D::rounds(3000, 1500));
}

/// What is known of a page that all change, for each CPU.
#[derive(Default)]
struct Stores {
    /// The last value that it has stored, once that is over.
    done: [AtomicU64; CPUS as usize],
    /// Values up to this one were gone when somebody had unmapped the page.
    gone: [AtomicU64; CPUS as usize],
}

impl Stores {
    /// Calls `with`, after which these are pages of zeros or were in between, if it succeeds.
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

/// All CPUs change all pages: what was in a page before it was unmapped is never seen again, and what is
/// in a page was stored there.
fn shared<D: Design>(places: Places, rounds: u64, steps: u64) {
    for round in 0..rounds * patience() {
        let all: Vec<_> = places.iter().map(|_| Stores::default()).collect();
        storm::<D>(
            |_, _| (),
            |mut cpu, space| {
                let number = cpu.number();
                let mut random = Random::new(1 + round * CPUS + number as u64);
                for step in 1..=steps {
                    let (first, last) = random.places(places.len());
                    let pages = Pages { start: places[first], end: places[last] + 1 };
                    let (at, stores) = (pages.start.address(), &all[first]);
                    match random.below(16) {
                        0..3 => {
                            // Before that nothing was mapped.
                            let protection = random.protection();
                            let result = Stores::clear(&all[first..=last], || {
                                space.map(&cpu, pages, protection)
                            });
                            assert!(matches!(result, Ok(()) | Err(MapError::Occupied)));
                        }
                        3 => {
                            let result = space.protect(&cpu, pages, random.protection());
                            assert!(matches!(result, Ok(()) | Err(MapError::Unmapped)));
                        }
                        4 => {
                            // Who is lazy has it gone when it is mapped again.
                            let all = if D::FORGETS_AT_ONCE { &all[first..=last] } else { &[] };
                            Stores::clear(all, || space.unmap(&cpu, pages)).unwrap();
                        }
                        5 => {
                            Stores::clear(&all[first..=last], || space.discard(&cpu, pages))
                                .unwrap();
                        }
                        6..10 => {
                            // The CPU, the place, and the how manieth.
                            let value = (number as u64) << 56 | (first as u64) << 40 | step;
                            if cpu.store(space, at, value).is_ok() {
                                stores.done[number].store(step, Release);
                            }
                        }
                        _ => {
                            let gone = stores.gone.each_ref().map(|gone| gone.load(SeqCst));
                            let Ok(value @ 1..) = cpu.load(space, at) else { continue };
                            let (by, of) = (value >> 56, value >> 40 & 0xffff);
                            assert_eq!(of, first as u64, "page {:#x} has another's", pages.start);
                            let (stored, gone) = (value & 0xff_ffff_ffff, gone[by as usize]);
                            assert!(
                                stored > gone,
                                "page {:#x}: {stored} of CPU {by} was gone at {gone}",
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
                // What lingers is present, and not mapped any more.
                assert!(found.present <= found.mapped || !D::FORGETS_AT_ONCE);
            },
        );
    }
}

fn pages_of_one_leaf_have_what_was_stored_since_they_were_mapped<D: Design>() {
    shared::<D>((LEAF - 8..LEAF + 8).map(Page).collect(), D::rounds(10, 2), D::rounds(3000, 1500));
}

fn pages_of_what_is_handed_down_have_what_was_stored_since_they_were_mapped<D: Design>() {
    let near = (0..4).map(|page| 2 * LEAF + page);
    let far = [9 * LEAF + 3, BRANCH - 1, BRANCH, BRANCH + LEAF, 2 * BRANCH, 3 * BRANCH + 7];
    shared::<D>(near.chain(far).map(Page).collect(), D::rounds(10, 2), D::rounds(3000, 1500));
}

/// A fault looks at what branches say while another CPU moves it from one to the next.
fn what_is_handed_down_meanwhile_is_found<D: Design>() {
    let (all, page, other) = (Pages::new(Page(100), BRANCH), Page(101), Page(5 * LEAF));
    let (said, is_over) = (Said::default(), AtomicU64::new(0));
    storm::<D>(
        |_, _| (),
        |cpu, space| {
            if cpu.number() == 0 {
                for _ in 0..D::rounds(2000, 200) * patience() {
                    said.begin();
                    space.map(&cpu, all, READ).unwrap();
                    said.end(|_| Some(READ));
                    space.protect(&cpu, Pages::new(other, 1), NONE).unwrap();
                    said.begin();
                    space.unmap(&cpu, all).unwrap();
                    said.end(|_| None);
                }
                is_over.store(1, Release);
            }
            while is_over.load(Acquire) == 0 {
                cpu.handle_ipis();
                let Some(now) = said.now() else { continue };
                let faults = cpu.number() == 1;
                let found = match faults {
                    true => space.fault(&cpu, page, READ).is_ok(),
                    false => space.query(&cpu, page).is_some(),
                };
                if said.is_still(now) {
                    assert_eq!(found, Said::state(now).is_some(), "fault: {faults}");
                }
            }
        },
        |_, _| (),
    );
}

for_each_design!(cpus_with_parts_of_one_leaf_do_not_notice_each_other, Lazy);
for_each_design!(cpus_with_leaves_of_one_branch_do_not_notice_each_other, Lazy);
for_each_design!(cpus_with_parts_of_what_was_mapped_at_once_do_not_notice_each_other, Lazy);
for_each_design!(pages_of_one_leaf_are_found_as_their_owners_say);
for_each_design!(pages_of_what_is_handed_down_are_found_as_their_owners_say);
for_each_design!(pages_of_one_leaf_have_what_was_stored_since_they_were_mapped, Lazy);
for_each_design!(pages_of_what_is_handed_down_have_what_was_stored_since_they_were_mapped, Lazy);
for_each_design!(what_is_handed_down_meanwhile_is_found);
