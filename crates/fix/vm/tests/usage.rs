//! Accessed and dirty pages.

#[path = "architectures/each.rs"]
mod each;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;

use each::{ARCHITECTURES, on_architecture, on_each_architecture};
use knee_models::disk::Disk;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{Fault, MapError, Object, Page, Pages, Protection, Sharing, Space, Usage};
use proptest::prelude::*;

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;
const START: Page = Page(510);
const NONE: Usage = Usage::empty();
const BOTH: Usage = Usage::ACCESSED.union(Usage::DIRTY);

on_each_architecture!(
    usage_is_set_by_accesses_and_cleared_on_request,
    another_cpu_sets_the_usage_again,
    a_clean_page_is_dirty_after_each_way_to_write_it,
    a_store_after_the_page_was_cleaned_is_noticed,
    pages_of_an_object_are_dirty_while_they_are_writable,
    a_fork_inherits_the_usage_of_swapped_pages,
);

proptest! {
    // A mutant must not leave a file in the source tree.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_dirty_log_includes_swapped_pages(
        steps in prop::collection::vec((0_u64..4, 1_u64..4, 0..6), 1..60),
        architecture in 0..ARCHITECTURES
    ) {
        on_architecture!(architecture, agrees_with_flags(&steps))?;
    }
}

/// The usage of each page that is present or swapped out, without the accessed bit.
type Flags = BTreeMap<u64, Usage>;

/// Compares the usage of the present and swapped pages with a model. A step has a page, a number of pages,
/// and the number of an operation.
fn agrees_with_flags<A: Architecture>(steps: &[(u64, u64, i32)]) -> Result<(), TestCaseError> {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let space = Space::with_swap(&cpu, None, Disk::default().swap(4)).unwrap();
    space.map(&cpu, Pages::new(START, 4), WRITE).unwrap();
    let mut expected = Flags::new();
    for &(index, count, operation) in steps {
        let pages = Pages::new(START + index, count.min(4 - index));
        let range = index..index + pages.count();
        let address = pages.start.address();
        match operation {
            0 | 1 => {
                cpu.store(&space, address, 1).unwrap();
                expected.insert(index, Usage::DIRTY);
            }
            2 => {
                cpu.load(&space, address).unwrap();
                let usage = expected.entry(index).or_insert(Usage::DIRTY);
                if usage.contains(Usage::SWAPPED) {
                    *usage = Usage::DIRTY; // It is a new page.
                }
            }
            3 => {
                space.swap_out(&cpu, pages).unwrap();
                expected.range_mut(range).for_each(|(_, usage)| *usage |= Usage::SWAPPED);
            }
            4 => {
                space.usage(&cpu, pages, Usage::DIRTY | Usage::SWAPPED, |_, _| ()).unwrap();
                expected.range_mut(range).for_each(|(_, usage)| usage.remove(Usage::DIRTY));
            }
            _ => {
                space.discard(&cpu, pages).unwrap();
                expected.retain(|index, _| !range.contains(index));
            }
        }
        let found = take(&cpu, &space, NONE);
        prop_assert!(found.is_sorted_by_key(|(index, _)| *index));
        let found: Flags =
            found.into_iter().map(|(index, usage)| (index, usage - Usage::ACCESSED)).collect();
        prop_assert_eq!(&found, &expected);
    }
    Ok(())
}

fn a_fork_inherits_the_usage_of_swapped_pages<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let space = Space::with_swap(&cpu, None, Disk::default().swap(4)).unwrap();
    space.map(&cpu, Pages::new(START, 4), WRITE).unwrap();
    (0..2).for_each(|index| cpu.store(&space, (START + index).address(), 1).unwrap());
    assert_eq!(space.swap_out(&cpu, Pages::new(START, 1)), Ok(1));
    take(&cpu, &space, Usage::DIRTY);
    assert_eq!(space.swap_out(&cpu, Pages::new(START + 1, 1)), Ok(1));
    cpu.store(&space, (START + 1).address(), 1).unwrap();
    assert_eq!(space.swap_out(&cpu, Pages::new(START + 1, 1)), Ok(1));
    let copy = space.fork(&cpu).unwrap();
    let dirty = Usage::SWAPPED | Usage::DIRTY;
    assert_eq!(take(&cpu, &copy, Usage::DIRTY), [(0, Usage::SWAPPED), (1, dirty)]);
    // Each space has a log of its own.
    assert_eq!(take(&cpu, &copy, NONE), [(0, Usage::SWAPPED), (1, Usage::SWAPPED)]);
    assert_eq!(take(&cpu, &space, NONE), [(0, Usage::SWAPPED), (1, dirty)]);
}

type On<'m, A> = Space<'m, Hosted<A>>;

/// Returns the usage of the present and swapped pages, and clears the bits in `clear`.
fn take<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &On<'m, A>,
    clear: Usage,
) -> Vec<(u64, Usage)> {
    let mut found = Vec::new();
    space
        .usage(cpu, Pages::new(START, 4), clear, |page, usage| found.push((page - START, usage)))
        .unwrap();
    found
}

fn usage_is_set_by_accesses_and_cleared_on_request<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 4), WRITE).unwrap();
    assert_eq!(take(&cpu, &space, NONE), []);
    cpu.store(&space, START.address(), 1).unwrap();
    cpu.load(&space, (START + 2).address()).unwrap();
    // A new page counts as accessed and dirty, even if it was only read.
    assert_eq!(take(&cpu, &space, NONE), [(0, BOTH), (2, BOTH)]);
    assert_eq!(take(&cpu, &space, BOTH), [(0, BOTH), (2, BOTH)]);
    assert_eq!(take(&cpu, &space, NONE), [(0, NONE), (2, NONE)]);
    assert_eq!(cpu.load(&space, START.address()), Ok(1));
    assert_eq!(take(&cpu, &space, Usage::ACCESSED), [(0, Usage::ACCESSED), (2, NONE)]);
    cpu.store(&space, (START + 2).address(), 2).unwrap();
    assert_eq!(take(&cpu, &space, Usage::ACCESSED), [(0, NONE), (2, BOTH)]);
    assert_eq!(take(&cpu, &space, Usage::DIRTY), [(0, NONE), (2, Usage::DIRTY)]);
    assert_eq!(take(&cpu, &space, NONE), [(0, NONE), (2, NONE)]);
    let empty = space.usage(&cpu, Pages::new(START, 0), BOTH, |_, _| ());
    let beyond = space.usage(&cpu, Pages::new(space.pages().end, 1), BOTH, |_, _| ());
    assert_eq!((empty, beyond), (Err(MapError::Empty), Err(MapError::OutOfRange)));
}

fn another_cpu_sets_the_usage_again<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 2);
    let (cpu, mut other) = (machine.cpu(0), machine.cpu(1));
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 1), WRITE).unwrap();
    // The other CPU caches the entry. The other CPU is offline during the flush, so CPU 0 does not wait for
    // it.
    other.store(&space, START.address(), 1).unwrap();
    other.offline(|| assert_eq!(take(&cpu, &space, BOTH), [(0, BOTH)]));
    other.load(&space, START.address()).unwrap();
    assert_eq!(take(&cpu, &space, NONE), [(0, Usage::ACCESSED)]);
    other.store(&space, START.address(), 2).unwrap();
    assert_eq!(take(&cpu, &space, NONE), [(0, BOTH)]);
}

fn a_clean_page_is_dirty_after_each_way_to_write_it<A: Architecture>() {
    type Write<A> = for<'m> fn(&Processor<'m, A>, &On<'m, A>);
    let ways: [(&str, Write<A>, bool); 6] = [
        ("nothing", |_, _| (), false),
        ("a load", |cpu, space| _ = cpu.load(space, START.address()).unwrap(), false),
        ("a store", |cpu, space| cpu.store(space, START.address(), 2).unwrap(), true),
        (
            "a write by the kernel",
            |cpu, space| space.write(cpu, START.address(), &[1]).unwrap(),
            true,
        ),
        (
            "a store after the page was protected twice",
            |cpu, space| {
                space.protect(cpu, Pages::new(START, 1), READ).unwrap();
                space.protect(cpu, Pages::new(START, 1), WRITE).unwrap();
                cpu.store(space, START.address(), 2).unwrap();
            },
            true,
        ),
        (
            "a store that breaks the sharing with a copy",
            |cpu, space| {
                let copy = space.fork(cpu).unwrap();
                assert_eq!(take(cpu, &copy, NONE)[0].1 & Usage::DIRTY, NONE);
                cpu.store(space, START.address(), 2).unwrap();
                assert_eq!(take(cpu, &copy, NONE)[0].1 & Usage::DIRTY, NONE);
                cpu.store(&copy, START.address(), 2).unwrap();
                assert_eq!(take(cpu, &copy, NONE)[0].1 & Usage::DIRTY, Usage::DIRTY);
                cpu.leave(&copy);
            },
            true,
        ),
    ];
    for (way, write, is_dirty) in ways {
        let machine = Hosted::<A>::with_architecture(128, 1);
        let cpu = machine.cpu(0);
        let space = Space::new(&cpu).unwrap();
        space.map(&cpu, Pages::new(START, 1), WRITE).unwrap();
        cpu.store(&space, START.address(), 1).unwrap();
        take(&cpu, &space, BOTH);
        write(&cpu, &space);
        let found = take(&cpu, &space, NONE)[0].1.contains(Usage::DIRTY);
        assert_eq!(found, is_dirty, "after {way}");
    }
}

/// One CPU stores increasing numbers, and the other copies each dirty page, as a live migration does. No
/// store is missing from the copy.
fn a_store_after_the_page_was_cleaned_is_noticed<A: Architecture>() {
    const ROUNDS: u64 = if cfg!(miri) { 10 } else { 500 };
    let machine = Hosted::<A>::with_architecture(256, 2);
    let pages = Pages::new(START, 4);
    let space = Space::new(&machine.cpu(0)).unwrap();
    space.map(&machine.cpu(0), pages, WRITE).unwrap();
    let (space, is_over) = (&space, AtomicBool::new(false));
    let stored: [AtomicU64; 4] = Default::default();
    thread::scope(|scope| {
        scope.spawn(|| {
            let cpu = machine.cpu(1);
            for value in 1.. {
                let index = value % 4;
                cpu.store(space, (START + index).address(), value).unwrap();
                stored[index as usize].store(value, SeqCst);
                if is_over.load(SeqCst) {
                    break;
                }
            }
        });
        /// Stops the other thread when this thread returns or panics.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, SeqCst);
            }
        }
        let _over = Over(&is_over);
        let cpu = machine.cpu(0);
        let mut copy = [0; 4];
        for _ in 0..ROUNDS {
            // Wait until the other CPU has stored to each page, so that its TLB has writable entries.
            let first = stored.each_ref().map(|value| value.load(SeqCst));
            while stored.iter().zip(first).any(|(value, first)| value.load(SeqCst) == first) {
                cpu.handle_ipis();
                thread::yield_now();
            }
            let before = stored.each_ref().map(|value| value.load(SeqCst));
            let mut dirty = Vec::new();
            let collect = |page: Page, usage: Usage| {
                if usage.contains(Usage::DIRTY) {
                    dirty.push(page);
                }
            };
            space.usage(&cpu, pages, Usage::DIRTY, collect).unwrap();
            for page in dirty {
                copy[(page - START) as usize] = cpu.load(space, page.address()).unwrap();
            }
            for (copied, stored) in copy.iter().zip(before) {
                assert!(*copied >= stored, "a store of {stored} was not noticed");
            }
        }
    });
}

fn pages_of_an_object_are_dirty_while_they_are_writable<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let object = Object::new(&cpu, 4).unwrap();
    let space = Space::new(&cpu).unwrap();
    space.map_object(&cpu, Pages::new(START, 4), &object, 0, WRITE, Sharing::Shared).unwrap();
    cpu.store(&space, START.address(), 1).unwrap();
    assert_eq!(take(&cpu, &space, BOTH), [(0, BOTH)]);
    cpu.load(&space, START.address()).unwrap();
    assert_eq!(take(&cpu, &space, NONE), [(0, Usage::ACCESSED)]);
    cpu.store(&space, START.address(), 2).unwrap();
    assert_eq!(take(&cpu, &space, NONE), [(0, BOTH)]);
    assert_eq!(cpu.load(&space, (START + 4).address()), Err(Fault::Unmapped));
}
