//! Compares a space with a map of pages: which pages are mapped, their protections and their contents.

#[path = "architectures/each.rs"]
mod each;

use std::fs;
use std::path::Path;
use std::sync::Arc;

use each::{ARCHITECTURES, on_architecture};
use knee_models::disk::Disk;
use knee_models::space::{Model, Operation, apply, family, operation};
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{Fault, MapError, Page, Pages, Protection, Quota, Space};
use proptest::prelude::*;

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_space_agrees_with_a_map_of_pages(
        operations in prop::collection::vec(operation(), 1..80),
        has_large_pages in prop::bool::weighted(0.1),
        architecture in 0..ARCHITECTURES
    ) {
        on_architecture!(architecture, agrees_with_a_map_of_pages(&operations, has_large_pages))?;
    }

    #[test]
    fn spaces_and_their_forks_agree_with_the_model(
        text in prop::collection::vec(any::<u8>(), 4..320),
        architecture in 0..ARCHITECTURES
    ) {
        on_architecture!(architecture, family(&text));
    }
}

/// Compares a space with its model after each operation.
fn agrees_with_a_map_of_pages<A: Architecture>(
    operations: &[Operation],
    has_large_pages: bool,
) -> Result<(), TestCaseError> {
    // With large pages, even unused pages may take frames, because a large page contains the pages around a
    // used page.
    let frames = if has_large_pages { 1 << 14 } else { 1 << 12 };
    let machine = Hosted::<A>::with_architecture(frames, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let swap = Disk::default().swap(64);
        let space = Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap();
        space.set_large_pages(has_large_pages);
        let mut model = Model::default();
        for operation in operations {
            prop_assert_eq!(apply(&cpu, &space, operation), model.apply(operation));
            model.check(&cpu, &space);
        }
        drop(space);
        prop_assert_eq!(swap.used(), 0, "all slots are free");
    }
    prop_assert_eq!(machine.free_frames(), all, "all frames are freed");
    Ok(())
}

/// The corpus has inputs with which the fuzzer reached new code, and inputs that once failed.
#[test]
fn the_fuzzers_corpus_agrees_with_the_model() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus/vm_space");
    let mut texts = 0;
    for file in fs::read_dir(corpus).unwrap() {
        let text = fs::read(file.unwrap().path()).unwrap();
        (0..ARCHITECTURES).for_each(|architecture| on_architecture!(architecture, family(&text)));
        texts += 1;
    }
    assert!(texts > 0, "the corpus of the fuzz target vm_space is empty");
}

/// Hardware cannot allow stores to a page and deny loads. If a space allowed only stores to a page, the
/// page-table entry would deny all accesses, and a store would fault forever.
#[test]
fn writable_pages_are_readable() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(Page(7), 2);
    for protection in [WRITE, Protection::EXECUTE] {
        space.map(&cpu, pages, protection).unwrap();
        assert_eq!(space.query(&cpu, Page(7)), Some(protection | READ));
        assert_eq!(cpu.load(&space, Page(7).address()), Ok(0));
        space.protect(&cpu, pages, Protection::NONE).unwrap();
        space.protect(&cpu, pages, WRITE).unwrap();
        assert_eq!(cpu.store(&space, Page(7).address(), 1), Ok(()));
        space.unmap(&cpu, pages).unwrap();
    }
    assert_eq!(space.query(&cpu, Page(u64::MAX)), None);
}

#[test]
fn each_reason_for_a_failed_change_has_its_own_error() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let (none, end) = (Pages::new(Page(7), 0), space.pages().end);
    let beyond = [Pages::new(end - 1, 2), Pages::new(Page(u64::MAX - 1), 1)];
    let (pages, hole) = (Pages::new(Page(100), 4), Pages::new(Page(102), 4));
    space.map(&cpu, pages, WRITE).unwrap();
    space.map(&cpu, Pages::new(Page(200), 1), Protection::GUARD).unwrap();

    let map = |pages| space.map(&cpu, pages, WRITE);
    let protect = |pages, protection| space.protect(&cpu, pages, protection);
    assert_eq!(map(none), Err(MapError::Empty));
    assert_eq!(map(Pages { start: Page(9), end: Page(3) }), Err(MapError::Empty));
    assert_eq!(beyond.map(map), [Err(MapError::OutOfRange); 2]);
    assert_eq!(map(hole), Err(MapError::Occupied));
    assert_eq!(protect(none, READ), Err(MapError::Empty));
    assert_eq!(protect(hole, READ), Err(MapError::Unmapped));
    assert_eq!(protect(Pages::new(Page(200), 1), READ), Err(MapError::Unmapped));
    assert_eq!(protect(pages, Protection::GUARD), Err(MapError::Guard));
    let remap = |old, new| space.remap(&cpu, old, new);
    assert_eq!(remap(pages, Pages::new(Page(101), 4)), Err(MapError::Overlap));
    assert_eq!(remap(hole, Pages::new(Page(300), 4)), Err(MapError::Unmapped));
    assert_eq!(remap(pages, none), Err(MapError::Empty));
    assert_eq!(remap(pages, beyond[0]), Err(MapError::OutOfRange));
    // Moving a range that contains unmapped pages is an error, even if there is room for the new range.
    assert_eq!(space.remap_anywhere(&cpu, hole, 8), Err(MapError::Unmapped));
    assert_eq!(space.map_anywhere(&cpu, end.0, WRITE), Err(MapError::NoAddressSpace));
}

#[test]
#[should_panic(expected = "the quota has shares for 1 CPUs, and the machine has 2")]
fn a_quota_of_a_smaller_machine_is_rejected() {
    let (small, large) = (Hosted::new(64, 1), Hosted::new(64, 2));
    let quota = Arc::new(Quota::new(&small, 9).unwrap());
    let _ = Space::with_quota(&large.cpu(0), quota);
}

/// Any thread may print a space, but only the CPU that owns per-CPU state may read this state.
#[test]
fn debug_prints_a_space_in_one_line_without_per_cpu_state() {
    let machine = Hosted::new(64, 2);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = space.map_anywhere(&cpu, 3, WRITE).unwrap();
    space.populate(&cpu, pages).unwrap();
    let number = space.number();
    let expected =
        format!("Space {{ number: {number}, pages: {:?}, resident: 3, .. }}", space.pages());
    assert_eq!(format!("{space:?}"), expected);
}

#[test]
fn a_range_whose_end_overflows_is_rejected() {
    assert_eq!(
        Pages::checked(Page(u64::MAX), 0),
        Some(Pages { start: Page(u64::MAX), end: Page(u64::MAX) })
    );
    assert_eq!(Pages::checked(Page(u64::MAX), 1), None);
    let panic = std::panic::catch_unwind(|| Pages::new(Page(u64::MAX), 2)).unwrap_err();
    let said = panic.downcast_ref::<&str>().unwrap();
    assert!(said.contains("overflows"), "{said}");
}

#[test]
fn populate_reports_the_first_page_that_cannot_be_read() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(Page(11), 1), Protection::GUARD).unwrap();
    assert_eq!(space.populate(&cpu, Pages::new(Page(11), 1)), Err(Fault::Guard));
    let end = space.pages().end;
    assert_eq!(space.populate(&cpu, Pages::new(end, 1)), Err(Fault::Unmapped));
    assert_eq!(space.populate(&cpu, Pages { start: Page(9), end: Page(3) }), Ok(()));
}
