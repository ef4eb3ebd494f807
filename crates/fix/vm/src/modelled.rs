//! Loom models of the lock protocol. Loom explores the possible orders of memory accesses. To run the models:
//! `RUSTFLAGS="--cfg loom" cargo test -p knee-vm --release --lib modelled`.
//!
//! Tables have four entries here. A leaf covers 4 pages; the first leaf covers pages 0 to 3. A branch just
//! above the leaves covers 16 pages.

mod parts;

use std::sync::Arc;

use knee_models::random::patience;
use knee_sync::shim::{check_symmetric, thread};

use crate::error::{Fault, MapError};
use crate::model::{Of, Processor, check, check_asymmetric};
use crate::page::{Page, Pages, Protection};
use crate::tree::attributes::Attributes;
use crate::tree::extents::Extent;
use crate::tree::latch::{ExtentLatch, LatchedExtents};

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// Loom's preemption bound.
const PREEMPTIONS: usize = 3;

fn pages(start: u64, end: u64) -> Pages {
    Pages { start: Page(start), end: Page(end) }
}

/// Creates a leaf in which no page is mapped: maps a page and unmaps it.
fn leaf<const LEVELS: u8>(processor: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.map(processor, pages(0, 1), READ).unwrap();
    space.unmap(processor, pages(0, 1)).unwrap();
}

#[test]
fn two_cpus_that_map_pages_of_a_new_leaf_both_succeed() {
    check::<2>(
        PREEMPTIONS,
        |_, _| (),
        |one, space| space.map(one, pages(0, 1), READ).unwrap(),
        |other, space| space.map(other, pages(1, 3), WRITE).unwrap(),
        |cpu, space| {
            let found = [0, 1, 2, 3].map(|page| space.query(cpu, Page(page)));
            assert_eq!(found, [Some(READ), Some(WRITE), Some(WRITE), None]);
            space.audit(cpu);
        },
    );
}

/// One CPU finds no child below the root and locks the root, while the other CPU adds the child and uses
/// it.
#[test]
fn a_lookup_in_a_new_leaf_does_not_disturb_the_cpu_that_creates_it() {
    check::<2>(
        PREEMPTIONS,
        |_, _| (),
        |one, space| {
            space.query(one, Page(0));
            space.map(one, pages(0, 1), READ).unwrap();
        },
        |other, space| space.map(other, pages(1, 3), WRITE).unwrap(),
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 3),
    );
}

#[test]
fn one_of_two_overlapping_maps_succeeds() {
    check::<2>(
        PREEMPTIONS,
        leaf,
        |one, space| {
            let result = space.map(one, pages(1, 2), READ);
            assert!(matches!(result, Ok(()) | Err(MapError::Occupied)));
        },
        |other, space| {
            // The range covers two whole leaves, so the mapping is recorded in the branch above them.
            let result = space.map(other, pages(0, 8), WRITE);
            assert!(matches!(result, Ok(()) | Err(MapError::Occupied)));
        },
        |cpu, space| {
            let found = [0, 1, 4].map(|page| space.query(cpu, Page(page)));
            let ways = [[None, Some(READ), None], [Some(WRITE); 3]];
            assert!(ways.contains(&found), "{found:?}");
            space.audit(cpu);
        },
    );
}

#[test]
fn two_cpus_that_fault_on_pages_without_a_leaf_share_the_new_leaf() {
    check::<2>(
        PREEMPTIONS,
        |cpu, space| space.map(cpu, pages(0, 8), WRITE).unwrap(),
        |one, space| one.store(space, 0, 7).unwrap(),
        |other, space| other.store(space, 1, 8).unwrap(),
        |cpu, space| {
            assert_eq!([0, 1, 2].map(|page| cpu.load(space, page)), [Ok(7), Ok(8), Ok(0)]);
            assert_eq!(space.audit(cpu).present, 3);
        },
    );
}

/// One CPU hands an extent down from a branch to a leaf, while another CPU looks the extent up.
#[test]
fn an_extent_that_is_handed_down_to_a_leaf_is_found() {
    check::<2>(
        2,
        |cpu, space| space.map(cpu, pages(0, 8), READ).unwrap(),
        |one, space| space.protect(one, pages(1, 2), NONE).unwrap(),
        |other, space| {
            assert_eq!(other.load(space, 2), Ok(0));
            assert_eq!(space.query(other, Page(3)), Some(READ));
        },
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 8),
    );
}

/// The root stores the extent of a leaf's pages. One CPU hands the extent down to the branch between the root
/// and the leaf. The other CPU looks the extent up while it holds only the leaf's lock.
#[test]
fn an_extent_that_is_handed_down_to_a_branch_is_found() {
    check::<3>(
        // With three preemptions, the check takes ten minutes.
        1 + patience(2) as usize,
        |cpu, space| {
            leaf(cpu, space);
            space.map(cpu, pages(0, 32), READ).unwrap();
        },
        |one, space| space.protect(one, pages(4, 12), NONE).unwrap(),
        |other, space| assert_eq!(other.load(space, 2), Ok(0)),
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 32),
    );
}

/// Like the previous model, but the other CPU looks the extent up without a lock, because there is no leaf
/// yet.
#[test]
fn an_extent_that_is_handed_down_to_a_branch_is_found_without_a_leaf() {
    check::<3>(
        2,
        |cpu, space| space.map(cpu, pages(0, 32), READ).unwrap(),
        |one, space| space.protect(one, pages(4, 12), NONE).unwrap(),
        |other, space| assert_eq!(other.load(space, 2), Ok(0)),
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 32),
    );
}

/// If a CPU finds a node that another CPU has just added, the node is already initialized.
#[test]
fn a_new_branch_is_found_initialized() {
    check::<3>(
        2,
        |_, _| (),
        |one, space| space.map(one, pages(0, 8), READ).unwrap(),
        |other, space| {
            let found = space.query(other, Page(1));
            assert!(found.is_none() || found == Some(READ));
            let fault = space.fault(other, Page(1), READ);
            assert!(fault == Ok(()) || fault == Err(Fault::Unmapped) && found.is_none());
        },
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 8),
    );
}

/// Operations whose ranges have nodes in common lock these nodes in the same order.
#[test]
fn operations_on_overlapping_ranges_exclude_each_other() {
    check::<2>(
        PREEMPTIONS,
        |cpu, space| {
            leaf(cpu, space);
            space.map(cpu, pages(0, 8), WRITE).unwrap();
        },
        |one, space| {
            let result = space.protect(one, pages(2, 6), READ);
            assert!(matches!(result, Ok(()) | Err(MapError::Unmapped)));
        },
        |other, space| space.unmap(other, pages(0, 8)).unwrap(),
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 0),
    );
}

/// Maps page 0 and makes it present.
fn come<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.map(cpu, pages(0, 1), READ).unwrap();
    space.populate(cpu, pages(0, 1)).unwrap();
}

/// Unmaps page 0 and stores to page 2, which may reuse the frame of page 0.
fn go<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.unmap(cpu, pages(0, 1)).unwrap();
    space.map(cpu, pages(2, 3), WRITE).unwrap();
    cpu.store(space, 2, 7).unwrap();
}

/// Loads page 0: the load must find the page's content, or fault.
fn look<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    let found = cpu.load(space, 0);
    assert!(found == Ok(0) || found == Err(Fault::Unmapped), "{found:?}");
}

/// If a CPU activates a space while a page is being unmapped, the CPU receives the shootdown, or finds the
/// page unmapped.
#[test]
fn a_cpu_that_activates_a_space_does_not_keep_unmapped_pages() {
    check::<2>(
        PREEMPTIONS,
        come,
        go,
        |other, space| {
            look(other, space);
            look(other, space);
        },
        |_, _| (),
    );
}

/// Like the previous model, but the CPU leaves the space after each load, and receives no shootdowns until
/// it activates the space again.
#[test]
fn a_cpu_that_activates_a_space_again_does_not_keep_unmapped_pages() {
    check::<2>(
        2,
        come,
        go,
        |other, space| {
            for _ in 0..2 {
                look(other, space);
                other.leave(space);
            }
        },
        |_, _| (),
    );
}

/// A page is mapped again only after all CPUs have flushed its old mapping.
#[test]
fn a_page_that_is_mapped_again_has_no_old_content() {
    check::<2>(
        2,
        |cpu, space| space.map(cpu, pages(0, 1), WRITE).unwrap(),
        |one, space| {
            one.store(space, 0, 7).unwrap();
            space.unmap(one, pages(0, 1)).unwrap();
        },
        |other, space| {
            let before = other.load(space, 0);
            if space.map(other, pages(0, 1), WRITE).is_ok() {
                assert_eq!(other.load(space, 0), Ok(0), "{before:?} before");
            }
        },
        |_, _| (),
    );
}

/// One CPU accesses a page while another CPU discards it. The access gets the old page or the new one, and no
/// frame is lost.
#[test]
fn a_page_that_is_discarded_can_be_faulted_in_again() {
    check::<2>(
        PREEMPTIONS,
        |cpu, space| {
            space.map(cpu, pages(0, 1), WRITE).unwrap();
            cpu.store(space, 0, 7).unwrap();
        },
        |one, space| {
            space.discard(one, pages(0, 1)).unwrap();
            assert_eq!(one.load(space, 0), Ok(0));
        },
        |other, space| {
            for _ in 0..2 {
                let found = other.load(space, 0);
                assert!(found == Ok(7) || found == Ok(0), "{found:?}");
            }
        },
        |cpu, space| assert_eq!(cpu.load(space, 0), Ok(0)),
    );
}

/// If a leaf is removed from the tree after a CPU has found it, the CPU starts over.
#[test]
fn mapping_in_a_leaf_that_is_pruned_uses_its_replacement() {
    check::<2>(
        PREEMPTIONS,
        leaf,
        |one, space| {
            space.prune(one, pages(0, 16));
        },
        |other, space| {
            space.map(other, pages(1, 2), WRITE).unwrap();
            other.store(space, 1, 7).unwrap();
        },
        |cpu, space| {
            assert_eq!(cpu.load(space, 1), Ok(7));
            space.audit(cpu);
        },
    );
}

/// Like the previous model, but the other CPU faults on a page that is already mapped, instead of mapping a
/// page.
#[test]
fn a_fault_in_a_leaf_that_is_pruned_uses_its_replacement() {
    check::<2>(
        PREEMPTIONS,
        |cpu, space| {
            leaf(cpu, space);
            space.map(cpu, pages(2, 6), WRITE).unwrap();
        },
        |one, space| {
            space.prune(one, pages(0, 16));
        },
        |other, space| {
            other.store(space, 2, 7).unwrap();
            assert_eq!(other.load(space, 2), Ok(7));
        },
        |cpu, space| {
            assert_eq!(cpu.load(space, 2), Ok(7));
            space.audit(cpu);
        },
    );
}

/// A fork copies the space at one moment: before or after a concurrent unmap, never halfway through it.
#[test]
fn a_fork_copies_all_pages_of_a_concurrent_unmap_or_none() {
    check::<2>(
        2,
        |cpu, space| {
            space.map(cpu, pages(0, 2), READ).unwrap();
            space.populate(cpu, pages(0, 2)).unwrap();
        },
        |one, space| {
            let copy = space.fork(one).unwrap();
            let found = [0, 1].map(|page| copy.query(one, Page(page)));
            assert!(found == [Some(READ); 2] || found == [None; 2], "{found:?}");
            assert_eq!(copy.audit(one).present, 2 * u64::from(found[0].is_some()));
        },
        |other, space| space.unmap(other, pages(0, 2)).unwrap(),
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 0),
    );
}

/// If a copy contains a store, it also contains all earlier stores, even those that made their pages present.
#[test]
fn a_copy_that_contains_a_store_contains_all_earlier_stores() {
    check::<2>(
        2,
        |cpu, space| space.map(cpu, pages(0, 2), WRITE).unwrap(),
        |one, space| {
            let copy = space.fork(one).unwrap();
            let found = [0, 1].map(|page| one.load(&copy, page).unwrap());
            // The store to page 0 came before the store to page 1.
            assert!([[0, 0], [7, 0], [7, 8]].contains(&found), "{found:?}");
            assert_eq!([0, 1].map(|page| one.load(&copy, page).unwrap()), found);
        },
        |other, space| {
            other.store(space, 0, 7).unwrap();
            other.store(space, 1, 8).unwrap();
        },
        |cpu, space| assert_eq!([0, 1].map(|page| cpu.load(space, page)), [Ok(7), Ok(8)]),
    );
}

/// Maps pages 0, 1 and 4, and stores to page 0, so that only page 0 is present. Page 4 is in another leaf.
fn fill_page_0<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.map(cpu, pages(0, 1), WRITE).unwrap();
    cpu.store(space, 0, 7).unwrap();
    space.map(cpu, pages(1, 2), WRITE).unwrap();
    // The leaf of page 4 exists, but has no table.
    space.map(cpu, pages(4, 5), WRITE).unwrap();
}

/// Unmaps page 0. The next allocation then returns the frame of page 0.
fn recycle_page_0<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.unmap(cpu, pages(0, 1)).unwrap();
}

/// First tries to load an unmapped page, which activates the space on the CPU, and then loads `page`. If the
/// load of `page` itself activated the space, the full fence of the activation would hide a missing ordering
/// on the entry of `page`.
fn load_while_active<const LEVELS: u8>(
    cpu: &Processor<LEVELS>,
    space: &Of<LEVELS>,
    page: u64,
) -> Result<u64, Fault> {
    assert_eq!(cpu.load(space, 3), Err(Fault::Unmapped));
    cpu.load(space, page)
}

#[test]
fn a_present_page_is_found_initialized() {
    check_asymmetric::<2>(
        PREEMPTIONS,
        fill_page_0,
        |one, space| {
            recycle_page_0(one, space);
            space.fault(one, Page(1), READ).unwrap();
        },
        |other, space| assert_eq!(load_while_active(other, space, 1), Ok(0)),
        |_, _| (),
    );
}

#[test]
fn a_protected_page_is_found_initialized() {
    check_asymmetric::<2>(
        PREEMPTIONS,
        fill_page_0,
        |one, space| {
            recycle_page_0(one, space);
            space.fault(one, Page(1), WRITE).unwrap();
            space.protect(one, pages(1, 2), READ).unwrap();
        },
        |other, space| assert_eq!(load_while_active(other, space, 1), Ok(0)),
        |_, _| (),
    );
}

/// The frames of unmapped pages are reused: one for the new leaf's table, and one for the page that this
/// table maps.
#[test]
fn a_new_table_is_found_empty() {
    check_asymmetric::<2>(
        PREEMPTIONS,
        |cpu, space| {
            fill_page_0(cpu, space);
            cpu.store(space, 1, 7).unwrap();
        },
        |one, space| {
            space.unmap(one, pages(0, 2)).unwrap();
            space.fault(one, Page(4), READ).unwrap();
        },
        |other, space| assert_eq!(load_while_active(other, space, 4), Ok(0)),
        |_, _| (),
    );
}

/// The frames of unmapped pages are reused: one for the new branch's table, and one for the page below it.
#[test]
fn a_new_table_of_a_branch_is_found_empty() {
    check_asymmetric::<3>(
        2,
        |cpu, space| {
            fill_page_0(cpu, space);
            cpu.store(space, 1, 7).unwrap();
            // The root itself stores the extent of these pages, and has no child for them.
            space.map(cpu, pages(16, 48), READ).unwrap();
        },
        |one, space| {
            space.unmap(one, pages(0, 2)).unwrap();
            space.fault(one, Page(16), READ).unwrap();
        },
        |other, space| assert_eq!(load_while_active(other, space, 16), Ok(0)),
        |_, _| (),
    );
}

#[test]
fn a_moved_page_is_found_with_its_content() {
    check_asymmetric::<2>(
        2,
        |cpu, space| {
            space.map(cpu, pages(0, 1), WRITE).unwrap();
            cpu.store(space, 0, 7).unwrap();
        },
        |one, space| {
            one.store(space, 0, 8).unwrap();
            space.remap(one, pages(0, 1), pages(2, 3)).unwrap();
        },
        |other, space| {
            let found = load_while_active(other, space, 2);
            assert!(found == Ok(8) || found == Err(Fault::Unmapped), "{found:?}");
        },
        |_, _| (),
    );
}

/// Returns an extent that depends on `number` in every field.
fn extent(number: u64) -> Extent {
    let protection = Protection::from_bits_retain(number as u8);
    Extent {
        pages: Pages::new(Page(100 * number), number),
        attributes: Attributes::anonymous(protection),
    }
}

/// The latch starts with the extents `first`. One thread changes the extents with `write`, while another
/// thread reads them. The reader must find one of the lists in `ways`.
fn check_latched(
    first: &'static [u64],
    write: impl Fn(&LatchedExtents) + Sync + Send + Copy + 'static,
    ways: &'static [&'static [u64]],
) {
    check_symmetric(PREEMPTIONS, move || {
        let latched = Arc::new(LatchedExtents::new());
        replace(&latched, first);
        let writer = thread::spawn({
            let latched = Arc::clone(&latched);
            move || write(&latched)
        });
        let found: Vec<_> = latched.read(|extents| extents.iter().collect()).unwrap();
        let is = |way: &&&[u64]| found.iter().copied().eq(way.iter().map(|&number| extent(number)));
        assert!(ways.iter().any(|way| is(&way)), "{found:?}");
        writer.join().unwrap();
    });
}

/// Replaces the latch with a new one that has these extents.
fn replace(latched: &LatchedExtents, numbers: &[u64]) {
    let copies = Box::new(ExtentLatch::with_room(2).unwrap());
    // SAFETY: no other thread has the new latch, and only one thread at a time calls this.
    unsafe {
        copies.write(numbers.iter().map(|&number| extent(number)));
        // Leak the old latch, because the model has no epoch that could free it after its last reader has
        // finished.
        let _old = latched.replace(copies);
    }
}

fn write(latched: &LatchedExtents, numbers: &[u64]) {
    // SAFETY: only one thread at a time calls this.
    unsafe { latched.latch().unwrap().write(numbers.iter().map(|&number| extent(number))) };
}

/// The second write changes the copy that the reader may be reading.
#[test]
fn a_reader_finds_the_extents_of_one_moment() {
    check_latched(
        &[1],
        |latched| {
            write(latched, &[2]);
            write(latched, &[3]);
        },
        &[&[1], &[2], &[3]],
    );
}

#[test]
fn a_reader_finds_the_extents_of_the_old_or_the_new_latch() {
    check_latched(&[1], |latched| replace(latched, &[2, 3]), &[&[1], &[2, 3]]);
}

/// A child gets the extents before its parent loses them. The last write changes the copy of the parent's
/// extents that the reader may be reading.
#[test]
fn extents_that_are_handed_down_are_found_in_the_parent_or_the_child() {
    check_symmetric(PREEMPTIONS, || {
        let both = Arc::new([LatchedExtents::new(), LatchedExtents::new()]);
        replace(&both[0], &[1]);
        replace(&both[1], &[]);
        let writer = thread::spawn({
            let both = Arc::clone(&both);
            move || {
                write(&both[1], &[1]);
                write(&both[0], &[]);
                write(&both[0], &[2]);
            }
        });
        let page = extent(1).pages.start;
        let mut found =
            both.iter().filter_map(|one| one.read(|extents| extents.find(page)).flatten());
        assert_eq!(found.next(), Some(extent(1).attributes));
        writer.join().unwrap();
    });
}
