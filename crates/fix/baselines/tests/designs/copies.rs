//! Forked spaces, each compared with a map of the words that were stored in it.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use knee_baselines::AddressSpace;
use knee_models::random::Random;
use knee_vm::{Page, Pages, Protection, VirtAddr};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::choices::patience;
use crate::designs::{Design, MachineOf, ProcessorOf, for_each_design};
use crate::storm::storm;

/// The pages that are mapped at first: a range that spans two tables, and a range that one extent covers.
const ALL: [Pages; 2] = [Pages::new(Page(500), 24), Pages::new(Page(4000), 4000)];

fn page(number: u64) -> Page {
    Page(match number {
        0..24 => 500 + number,
        _ => 4090 + 3 * (number - 24),
    })
}

const NUMBERS: u64 = 36;
const FAMILY: usize = 4;

#[derive(Debug, Clone)]
enum Operation {
    Store(Page, u64),
    Fork(usize),
    Discard(Pages),
    Protect(Pages, Protection),
    Replace(Pages),
    End,
}

fn pages() -> impl Strategy<Value = Pages> {
    (0..NUMBERS, 1_u64..6).prop_map(|(number, count)| {
        let start = page(number);
        let of = ALL.into_iter().find(|all| all.contains(start)).unwrap();
        Pages::new(start, count).and(of)
    })
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        6 => (0..NUMBERS, 1_u64..).prop_map(|(number, value)| Operation::Store(page(number), value)),
        2 => (0..FAMILY).prop_map(Operation::Fork),
        1 => pages().prop_map(Operation::Discard),
        1 => (pages(), prop_oneof![Just(Protection::READ), Just(Protection::NONE)])
            .prop_map(|(pages, protection)| Operation::Protect(pages, protection)),
        1 => pages().prop_map(Operation::Replace),
        1 => Just(Operation::End),
    ]
}

type Words = BTreeMap<Page, u64>;

fn check<'m, D: Design>(cpu: &ProcessorOf<'m, D>, space: &D::Space<'m>, words: &Words) {
    for page in (0..NUMBERS).map(page) {
        let word = cpu.load(space, page.address()).expect("all pages are mapped");
        assert_eq!(word, words.get(&page).copied().unwrap_or(0), "page {page:#x}");
    }
}

fn each_space_of_a_family_contains_its_own_stores<D: Design>() {
    let config = ProptestConfig { cases: D::rounds(200, 25) as u32, ..ProptestConfig::default() };
    let operations = prop::collection::vec((0..FAMILY, operation()), 1..80);
    let result = TestRunner::new(config).run(&operations, |operations| {
        let machine = MachineOf::<D>::with_architecture(4096, 1);
        let all = machine.free_frames();
        {
            let cpu = machine.cpu(0);
            let shared = D::shared(&machine, u64::MAX);
            let first = D::space(&shared, &cpu);
            for pages in ALL {
                first.map(&cpu, pages, Protection::READ_WRITE).unwrap();
            }
            let mut family: [Option<(D::Space<'_>, Words)>; FAMILY] = Default::default();
            family[0] = Some((first, Words::new()));
            for (member, operation) in operations {
                let Some((space, words)) = &mut family[member] else { continue };
                match operation {
                    Operation::Store(page, value) => {
                        cpu.store(space, page.address(), value).unwrap();
                        words.insert(page, value);
                    }
                    Operation::Fork(place) => {
                        let child = (space.fork(&cpu).unwrap(), words.clone());
                        family[place] = Some(child);
                    }
                    Operation::Discard(pages) => {
                        space.discard(&cpu, pages).unwrap();
                        words.retain(|page, _| !pages.contains(*page));
                    }
                    // The protection is restored at once, so that later faults can grant the revoked rights
                    // again.
                    Operation::Protect(pages, protection) => {
                        space.protect(&cpu, pages, protection).unwrap();
                        space.protect(&cpu, pages, Protection::READ_WRITE).unwrap();
                    }
                    Operation::Replace(pages) => {
                        space.unmap(&cpu, pages).unwrap();
                        space.map(&cpu, pages, Protection::READ_WRITE).unwrap();
                        words.retain(|page, _| !pages.contains(*page));
                    }
                    Operation::End if member > 0 => family[member] = None,
                    Operation::End => (),
                }
                for (space, words) in family.iter().flatten() {
                    check::<D>(&cpu, space, words);
                    assert_eq!(D::audit(space, &cpu).present, space.resident());
                }
                let spaces: Vec<_> = family.iter().flatten().map(|(space, _)| space).collect();
                D::audit_all(&shared, &spaces, &cpu);
            }
        }
        prop_assert_eq!(machine.free_frames(), all, "all frames are free again");
        Ok(())
    });
    result.unwrap();
}

for_each_design!(each_space_of_a_family_contains_its_own_stores, Lazy);

/// Sets a flag when it is dropped.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Two CPUs use a space: each writes to its own pages, and reads the pages of the other CPU. A third CPU
/// forks the space. The fork does not change, and no CPU sees an older value after a newer value.
fn a_space_is_forked_during_writes<D: Design>() {
    const PAGES: u64 = 40;
    const FORKS: usize = 60;
    let machine = MachineOf::<D>::with_architecture(8192, 3);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(2);
        let shared = D::shared(&machine, u64::MAX);
        let space = D::space(&shared, &cpu);
        let pages = Pages::new(Page(490), PAGES);
        space.map(&cpu, pages, Protection::READ_WRITE).unwrap();
        let over = AtomicBool::new(false);
        thread::scope(|scope| {
            for number in 0..2 {
                let (machine, space, over) = (&machine, &space, &over);
                scope.spawn(move || {
                    let cpu = machine.cpu(number as usize);
                    let mut seen = BTreeMap::new();
                    for round in 1.. {
                        if over.load(Relaxed) {
                            break;
                        }
                        for page in pages.iter() {
                            let address = page.address();
                            if page.0 % 2 == number {
                                cpu.store(space, address, round).unwrap();
                                assert_eq!(cpu.load(space, address), Ok(round));
                            } else {
                                let word = cpu.load(space, address).unwrap();
                                let before = seen.insert(page, word).unwrap_or(0);
                                assert!(word >= before, "page {page:#x} has an older value");
                            }
                        }
                    }
                });
            }
            // Stops the other CPUs even if this thread panics.
            let _over = Over(&over);
            for _ in 0..FORKS {
                let fork = space.fork(&cpu).unwrap();
                let load = |page: Page| cpu.load(&fork, page.address()).unwrap();
                let first: Vec<u64> = pages.iter().map(load).collect();
                let again: Vec<u64> = pages.iter().map(load).collect();
                assert_eq!(first, again);
                // Writes to the fork must not change the original space.
                for page in pages.iter().step_by(3) {
                    cpu.store(&fork, page.address(), u64::MAX).unwrap();
                }
            }
            drop(cpu);
        });
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

for_each_design!(a_space_is_forked_during_writes, Lazy);

/// CPU 1 stores to an absent page and then to page 0, again and again. A fork that contains the second of
/// these stores also contains the first.
fn a_fork_is_a_snapshot_of_one_moment<D: Design>() {
    const TABLE: u64 = 512;
    let rounds = D::rounds(1000, 500);
    let all = Pages::new(Page(0), 2 * TABLE + rounds);
    for _ in 0..D::rounds(4, 2) * patience() {
        let (is_over, forks) = (AtomicBool::new(false), AtomicBool::new(false));
        storm::<D>(
            |cpu, space| space.map(cpu, all, Protection::READ_WRITE).unwrap(),
            |cpu, space| {
                if cpu.number() == 1 {
                    let _over = Over(&is_over);
                    while !forks.load(Relaxed) {
                        cpu.handle_ipis();
                    }
                    for round in 1..rounds {
                        cpu.store(space, Page(TABLE + round).address(), round).unwrap();
                        cpu.store(space, VirtAddr(0), round).unwrap();
                    }
                }
                while cpu.number() == 0 && !is_over.load(Relaxed) {
                    forks.store(true, Relaxed);
                    let copy = space.fork(&cpu).unwrap();
                    let last = cpu.load(&copy, VirtAddr(0)).unwrap();
                    let before = cpu.load(&copy, Page(TABLE + last).address()).unwrap();
                    assert_eq!(before, last, "the copy contains only the second of two stores");
                    D::audit(&copy, &cpu);
                }
            },
            |_, _| (),
        );
    }
}

for_each_design!(a_fork_is_a_snapshot_of_one_moment);

/// Each CPU changes its own space and accesses the spaces of the others. At first, all spaces share the same
/// pages.
fn a_family_diverges_on_all_cpus<D: Design>() {
    const PAGES: u64 = 24;
    let pages = Pages::new(Page(505), PAGES);
    for round in 0..10 * patience() {
        let machine = MachineOf::<D>::with_architecture(8192, 3);
        let all = machine.free_frames();
        {
            let shared = D::shared(&machine, u64::MAX);
            let family: Vec<_> = {
                let cpu = machine.cpu(0);
                let first = D::space(&shared, &cpu);
                first.map(&cpu, pages, Protection::READ_WRITE).unwrap();
                for page in pages.iter() {
                    cpu.store(&first, page.address(), page.0).unwrap();
                }
                let [one, other] = [0, 1].map(|_| first.fork(&cpu).unwrap());
                vec![first, one, other]
            };
            thread::scope(|scope| {
                for number in 0..3 {
                    let (machine, family) = (&machine, &family);
                    scope.spawn(move || {
                        let cpu = machine.cpu(number);
                        let mut random = Random::new(1 + 3 * round + number as u64);
                        for _ in 0..400 {
                            let page = pages.start + random.below(PAGES);
                            let own = &family[number];
                            match random.below(8) {
                                0 => own.unmap(&cpu, Pages::new(page, 1)).unwrap(),
                                1 => own.discard(&cpu, Pages::new(page, 1)).unwrap(),
                                2 => drop(cpu.store(own, page.address(), page.0)),
                                3 => drop(own.map(&cpu, Pages::new(page, 1), Protection::READ)),
                                _ => {
                                    let other = &family[random.below(3) as usize];
                                    if let Ok(word) = cpu.load(other, page.address()) {
                                        assert!(
                                            word == 0 || word == page.0,
                                            "{page:?} contains {word}"
                                        );
                                    }
                                }
                            }
                        }
                    });
                }
            });
            let cpu = machine.cpu(0);
            let spaces: Vec<_> = family.iter().collect();
            D::audit_all(&shared, &spaces, &cpu);
        }
        assert_eq!(machine.free_frames(), all, "all frames are free again");
    }
}

for_each_design!(a_family_diverges_on_all_cpus, Lazy);
