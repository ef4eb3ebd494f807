//! Replacing mappings: `MAP_FIXED`.

#[path = "architectures/each.rs"]
mod each;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use each::on_each_architecture;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{Fault, MapError, Object, Page, Pages, Protection, Quota, Sharing, Space};
use proptest::prelude::*;

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// The tests use pages around this one, on both sides of the end of a leaf table.
const START: Page = Page(508);

on_each_architecture!(
    replaced_pages_have_new_content_and_protection,
    pages_around_the_replaced_ones_keep_their_content,
    a_page_is_mapped_throughout,
    an_object_replaces_memory_and_memory_an_object,
    large_ranges_are_replaced,
);

fn replaced_pages_have_new_content_and_protection<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 8), WRITE).unwrap();
    cpu.store(&space, START.address(), 7).unwrap();
    // Replaces mapped and unmapped pages in one call.
    space.replace(&cpu, Pages::new(START - 2, 4), READ).unwrap();
    assert_eq!(cpu.load(&space, START.address()), Ok(0));
    assert_eq!(cpu.store(&space, START.address(), 1), Err(Fault::AccessDenied));
    assert_eq!(space.query(&cpu, START - 2), Some(READ));
    assert_eq!(space.query(&cpu, START + 2), Some(WRITE));
    assert_eq!(space.audit(&cpu).mapped, 10);
    assert_eq!(space.replace(&cpu, Pages::new(START, 0), READ), Err(MapError::Empty));
    let beyond = Pages::new(space.pages().end - 1, 2);
    assert_eq!(space.replace(&cpu, beyond, READ), Err(MapError::OutOfRange));
}

fn pages_around_the_replaced_ones_keep_their_content<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let all = Pages::new(START, 8);
    space.map(&cpu, all, WRITE).unwrap();
    for page in all.iter() {
        cpu.store(&space, page.address(), page.0).unwrap();
    }
    let replaced = Pages::new(START + 2, 4);
    space.replace(&cpu, replaced, WRITE).unwrap();
    for page in all.iter() {
        let expected = if replaced.contains(page) { 0 } else { page.0 };
        assert_eq!(cpu.load(&space, page.address()), Ok(expected));
    }
}

/// Another CPU never finds the page unmapped, and never finds the old content once it has found the new
/// content.
fn a_page_is_mapped_throughout<A: Architecture>() {
    const ROUNDS: u64 = if cfg!(miri) { 10 } else { 2000 };
    let machine = Hosted::<A>::with_architecture(256, 2);
    let space = Space::new(&machine.cpu(0)).unwrap();
    space.map(&machine.cpu(0), Pages::new(START, 1), WRITE).unwrap();
    let (space, is_over) = (&space, AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let cpu = machine.cpu(1);
            while !is_over.load(Ordering::Relaxed) {
                cpu.load(space, START.address()).expect("the page is mapped");
            }
        });
        let cpu = machine.cpu(0);
        for round in 1..=ROUNDS {
            cpu.store(space, START.address(), round).unwrap();
            space.replace(&cpu, Pages::new(START, 1), WRITE).unwrap();
            assert_eq!(cpu.load(space, START.address()), Ok(0));
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

fn an_object_replaces_memory_and_memory_an_object<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let object = Object::new(&cpu, 4).unwrap();
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(START, 4);
    space.map(&cpu, pages, WRITE).unwrap();
    cpu.store(&space, START.address(), 1).unwrap();
    space.replace_with_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    assert_eq!(cpu.load(&space, START.address()), Ok(0));
    cpu.store(&space, START.address(), 2).unwrap();
    // A second mapping of the same object pages replaces the first mapping.
    space.replace_with_object(&cpu, pages, &object, 0, READ, Sharing::Private).unwrap();
    assert_eq!(cpu.load(&space, START.address()), Ok(2));
    space.replace(&cpu, pages, WRITE).unwrap();
    assert_eq!(cpu.load(&space, START.address()), Ok(0));
    let mut mappings = 0;
    object.mappings(&cpu, 0, |_, _| mappings += 1);
    assert_eq!(mappings, 0, "the object is not mapped any more");
    let wrong = space.replace_with_object(&cpu, pages, &object, u64::MAX, READ, Sharing::Shared);
    assert_eq!(wrong, Err(MapError::BeyondObject));
    assert_eq!(space.query(&cpu, START), Some(WRITE), "an operation that fails changes nothing");
}

/// Large ranges are stored in branches, and some leaves below those branches have present pages.
fn large_ranges_are_replaced<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let all = Pages::new(Page(100), 512 * 700);
    space.map(&cpu, all, WRITE).unwrap();
    let places = [all.start, all.start + 512 * 300, all.end - 1];
    for page in places {
        cpu.store(&space, page.address(), 1).unwrap();
    }
    let middle = Pages { start: all.start + 512 * 200, end: all.start + 512 * 400 };
    space.replace(&cpu, middle, READ).unwrap();
    assert_eq!(places.map(|page| cpu.load(&space, page.address())), [Ok(1), Ok(0), Ok(1)]);
    assert_eq!(cpu.store(&space, places[1].address(), 1), Err(Fault::AccessDenied));
    space.replace(&cpu, all, WRITE).unwrap();
    assert_eq!(places.map(|page| cpu.load(&space, page.address())), [Ok(0); 3]);
    assert_eq!(space.audit(&cpu).mapped, all.count());
}

#[test]
fn only_pages_that_were_not_mapped_are_charged() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let quota = Arc::new(Quota::new(&machine, 10).unwrap());
    let space = Space::with_quota(&cpu, Arc::clone(&quota)).unwrap();
    space.map(&cpu, Pages::new(START, 8), WRITE).unwrap();
    space.replace(&cpu, Pages::new(START, 10), WRITE).unwrap();
    assert_eq!(quota.used(), 10);
    assert_eq!(space.replace(&cpu, Pages::new(START, 11), WRITE), Err(MapError::QuotaExceeded));
    assert_eq!((quota.used(), space.audit(&cpu).mapped), (10, 10));
    space.replace(&cpu, Pages::new(START, 6), Protection::GUARD).unwrap();
    assert_eq!(quota.used(), 4);
    assert_eq!(cpu.load(&space, START.address()), Err(Fault::Guard));
    space.replace(&cpu, Pages::new(START, 8), READ).unwrap();
    assert_eq!(quota.used(), 10);
}

/// Returns a page of the model by its number. The pages are in two branches and several leaves.
fn page(number: u64) -> Page {
    Page(512 * 512 - 20 + number + if number >= 30 { 512 } else { 0 })
}

proptest! {
    #[test]
    fn mappings_agree_with_a_map_of_pages(
        operations in prop::collection::vec((0_u64..60, 0_u64..60, 0_usize..4, 0_u8..5), 1..50)
    ) {
        let machine = Hosted::new(1024, 1);
        let cpu = machine.cpu(0);
        let quota = Arc::new(Quota::new(&machine, 1400).unwrap());
        let space = Space::with_quota(&cpu, Arc::clone(&quota)).unwrap();
        let mut model: BTreeMap<Page, (Protection, u64)> = BTreeMap::new();
        for (nr, (one, other, kind, operation)) in operations.into_iter().enumerate() {
            let pages = Pages { start: page(one.min(other)), end: page(one.max(other)) + 1 };
            let protection = [READ, WRITE, Protection::NONE, Protection::GUARD][kind];
            match operation {
                0..3 => {
                    let result = space.replace(&cpu, pages, protection);
                    let charged = |(_, (protection, _)): &(&Page, &(Protection, u64))| *protection != Protection::GUARD;
                    let kept = model.iter().filter(|(page, _)| !pages.contains(**page)).filter(charged).count();
                    let wanted = if protection == Protection::GUARD { 0 } else { pages.count() };
                    if kept as u64 + wanted > quota.limit() {
                        prop_assert_eq!(result, Err(MapError::QuotaExceeded));
                    } else {
                        prop_assert_eq!(result, Ok(()));
                        model.extend(pages.iter().map(|page| (page, (protection, 0))));
                    }
                }
                3 => {
                    space.unmap(&cpu, pages).unwrap();
                    model.retain(|page, _| !pages.contains(*page));
                }
                _ => {
                    let stored = cpu.store(&space, pages.start.address(), nr as u64);
                    let expected = match model.get_mut(&pages.start) {
                        None => Err(Fault::Unmapped),
                        Some((Protection::GUARD, _)) => Err(Fault::Guard),
                        Some((protection, _)) if *protection != WRITE => Err(Fault::AccessDenied),
                        Some((_, word)) => { *word = nr as u64; Ok(()) }
                    };
                    prop_assert_eq!(stored, expected);
                }
            }
            for number in 0..60 {
                let found = space.query(&cpu, page(number));
                prop_assert_eq!(found, model.get(&page(number)).map(|(protection, _)| *protection));
            }
            let mapped = model.values().filter(|(protection, _)| *protection != Protection::GUARD).count();
            prop_assert_eq!((space.audit(&cpu).mapped, quota.used()), (mapped as u64, mapped as u64));
        }
        for (page, (protection, word)) in model {
            if protection.contains(READ) {
                prop_assert_eq!(cpu.load(&space, page.address()), Ok(word));
            }
        }
    }
}
