//! Spaces that were forked from each other, against maps of what was stored in each.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use knee_vm::hosted::{Hosted, Processor};
use knee_vm::{PAGE, Pages, Protection, Space};
use proptest::prelude::*;

/// Pages that are mapped at first: in two tables, and in one that an extent covers.
const ALL: [Pages; 2] = [Pages { start: 500, end: 524 }, Pages { start: 4000, end: 8000 }];

fn page(number: u64) -> u64 {
    match number {
        0..24 => 500 + number,
        _ => 4090 + 3 * (number - 24),
    }
}

const NUMBERS: u64 = 36;
const FAMILY: usize = 4;

#[derive(Debug, Clone)]
enum Operation {
    Store(u64, u64),
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

type Words = BTreeMap<u64, u64>;

fn check<'m>(cpu: &Processor<'m>, space: &Space<'m, Hosted>, words: &Words) {
    for page in (0..NUMBERS).map(page) {
        let word = cpu.load(space, page * PAGE as u64).expect("all is mapped");
        assert_eq!(word, words.get(&page).copied().unwrap_or(0), "page {page:#x}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn each_of_a_family_has_what_it_has_stored(
        operations in prop::collection::vec((0..FAMILY, operation()), 1..80)
    ) {
        let machine = Hosted::new(4096, 1);
        let all = machine.free_frames();
        {
            let cpu = machine.cpu(0);
            let adam = Space::new(&cpu).unwrap();
            for pages in ALL {
                adam.map(&cpu, pages, Protection::READ_WRITE).unwrap();
            }
            let mut family: [Option<(Space<'_, Hosted>, Words)>; FAMILY] = Default::default();
            family[0] = Some((adam, Words::new()));
            for (who, operation) in operations {
                let Some((space, words)) = &mut family[who] else { continue };
                match operation {
                    Operation::Store(page, value) => {
                        cpu.store(space, page * PAGE as u64, value).unwrap();
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
                    // And back: what was taken away comes again.
                    Operation::Protect(pages, protection) => {
                        space.protect(&cpu, pages, protection).unwrap();
                        space.protect(&cpu, pages, Protection::READ_WRITE).unwrap();
                    }
                    Operation::Replace(pages) => {
                        space.unmap(&cpu, pages).unwrap();
                        space.map(&cpu, pages, Protection::READ_WRITE).unwrap();
                        words.retain(|page, _| !pages.contains(*page));
                    }
                    Operation::End if who > 0 => family[who] = None,
                    Operation::End => (),
                }
                for (space, words) in family.iter().flatten() {
                    check(&cpu, space, words);
                }
            }
        }
        prop_assert_eq!(machine.free_frames(), all, "all frames come back");
    }
}

/// Two CPUs write to a space, each to pages of its own, and read those of the other; a third forks it. In
/// the fork nothing changes, and nobody sees a page go back.
#[test]
fn a_space_is_forked_while_others_write_to_it() {
    const PAGES: u64 = 40;
    const FORKS: usize = 30;
    let machine = Hosted::new(8192, 3);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(2);
        let space = Space::new(&cpu).unwrap();
        let pages = Pages::new(490, PAGES);
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
                        for page in pages.start..pages.end {
                            let address = page * PAGE as u64;
                            if page % 2 == number {
                                cpu.store(space, address, round).unwrap();
                                assert_eq!(cpu.load(space, address), Ok(round));
                            } else {
                                let word = cpu.load(space, address).unwrap();
                                let before = seen.insert(page, word).unwrap_or(0);
                                assert!(word >= before, "page {page:#x} went back");
                            }
                        }
                    }
                });
            }
            for _ in 0..FORKS {
                let fork = space.fork(&cpu).unwrap();
                let load = |page: u64| cpu.load(&fork, page * PAGE as u64).unwrap();
                let first: Vec<u64> = (pages.start..pages.end).map(load).collect();
                let again: Vec<u64> = (pages.start..pages.end).map(load).collect();
                assert_eq!(first, again);
                // What the fork writes is its own.
                for page in (pages.start..pages.end).step_by(3) {
                    cpu.store(&fork, page * PAGE as u64, u64::MAX).unwrap();
                }
            }
            over.store(true, Relaxed);
            drop(cpu);
        });
    }
    assert_eq!(machine.free_frames(), all, "all frames come back");
}
