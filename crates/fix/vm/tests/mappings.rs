//! Lists the mappings of a space while another CPU changes them. `model.rs` and `objects.rs` compare
//! lists of mappings with models.

#[path = "architectures/each.rs"]
mod each;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use each::on_each_architecture;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{Page, Pages, Protection, Space};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// The list is sorted, shows unchanged pages exactly, and shows each changed page in a state that the page
/// had at some moment.
fn unchanged_mappings_are_listed_exactly_during_other_changes<A: Architecture>() {
    const ROUNDS: u64 = if cfg!(miri) { 10 } else { 1000 };
    let machine = Hosted::<A>::with_architecture(1024, 2);
    let space = Space::new(&machine.cpu(0)).unwrap();
    // Pages across two tables, an extent that begins in the middle of a table, and a page far away.
    let stable = [
        (Pages::new(Page(100), 500), READ),
        (Pages::new(Page(2000), 10_000), WRITE),
        (Pages::new(Page(1 << 30), 1), READ),
    ];
    // Pages directly after the first range, with its protection; pages on both sides of the second range; and
    // a separate gibibyte.
    let changed = [
        (Pages::new(Page(600), 50), READ),
        (Pages::new(Page(1990), 10), WRITE),
        (Pages::new(Page(12_000), 600), WRITE),
        (Pages::new(Page(1 << 20), 1 << 18), READ),
    ];
    for (pages, protection) in stable {
        space.map(&machine.cpu(0), pages, protection).unwrap();
    }
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let cpu = machine.cpu(1);
            for round in 0..ROUNDS {
                let (pages, protection) = changed[round as usize % changed.len()];
                space.map(&cpu, pages, protection).unwrap();
                cpu.load(&space, pages.start.address()).unwrap();
                space.protect(&cpu, Pages::new(pages.start + 2, 3), Protection::NONE).unwrap();
                space.unmap(&cpu, pages).unwrap();
                if round % 64 == 0 {
                    space.prune(&cpu, space.pages());
                }
            }
            is_over.store(true, Relaxed);
        });
        let cpu = machine.cpu(0);
        while !is_over.load(Relaxed) {
            cpu.handle_ipis();
            let listed: Vec<_> = space.mappings(&cpu).collect();
            for pair in listed.windows(2) {
                assert!(pair[0].pages.end <= pair[1].pages.start, "{pair:?}");
            }
            for (pages, protection) in stable {
                let found = listed.iter().find(|mapping| mapping.pages.covers(pages));
                assert_eq!(found.map(|mapping| mapping.protection), Some(protection), "{pages:?}");
            }
            for mapping in listed {
                let all = || stable.iter().chain(&changed);
                let is_known = |page| all().any(|(pages, _)| pages.contains(page));
                assert!(is_known(mapping.pages.start) && is_known(mapping.pages.end - 1));
            }
        }
    });
}

/// The iterator holds no lock between its steps.
fn a_loop_over_mappings_may_unmap_them<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    for number in 0..20 {
        space.map(&cpu, Pages::new(Page(100 * number), 3), WRITE).unwrap();
        cpu.store(&space, Page(100 * number).address(), number).unwrap();
    }
    let mut count = 0;
    for mapping in space.mappings(&cpu) {
        space.unmap(&cpu, mapping.pages).unwrap();
        count += 1;
    }
    assert_eq!((count, space.mappings(&cpu).count(), space.resident()), (20, 0, 0));
}

/// After an iterator has returned `None`, it returns `None` forever, even if another mapping was made.
fn the_end_of_the_list_stays_its_end<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(Page(1), 1), READ).unwrap();
    let mut mappings = space.mappings(&cpu);
    assert!(mappings.next().is_some());
    space.map(&cpu, Pages::new(Page(9), 1), READ).unwrap();
    if mappings.next().is_none() {
        assert_eq!(mappings.next(), None);
    }
}

on_each_architecture!(
    the_end_of_the_list_stays_its_end,
    unchanged_mappings_are_listed_exactly_during_other_changes,
    a_loop_over_mappings_may_unmap_them,
);
