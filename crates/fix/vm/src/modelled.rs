//! Every order of the lock protocol's accesses: `RUSTFLAGS="--cfg loom" cargo test -p knee-vm --release
//! --lib modelled`.
//!
//! Tables have four entries here: pages 0 to 3 are those of one leaf, and a branch above leaves has 16.

mod parts;

use std::sync::Arc;

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

/// Switches that no CPU asks for.
const PREEMPTIONS: usize = 3;

fn pages(start: u64, end: u64) -> Pages {
    Pages { start: Page(start), end: Page(end) }
}

/// A leaf that nothing is mapped in, as all its pages were unmapped.
fn leaf<const LEVELS: u8>(processor: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.map(processor, pages(0, 1), READ).unwrap();
    space.unmap(processor, pages(0, 1)).unwrap();
}

#[test]
fn two_who_map_pages_of_a_new_leaf_both_do() {
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

/// One finds no child below the root and locks that, while the other adds the child and uses it.
#[test]
fn who_looks_for_pages_of_a_new_leaf_does_not_disturb_who_makes_it() {
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
fn of_two_who_map_a_page_one_does() {
    check::<2>(
        PREEMPTIONS,
        leaf,
        |one, space| {
            let result = space.map(one, pages(1, 2), READ);
            assert!(matches!(result, Ok(()) | Err(MapError::Occupied)));
        },
        |other, space| {
            // In two leaves, so that the branch above says it.
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
fn two_who_fault_where_there_is_no_leaf_share_the_one_that_is_made() {
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

/// What a branch says goes to its child, while others look for it.
#[test]
fn what_is_handed_down_to_a_leaf_is_found() {
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

/// A leaf whose pages are said by the root, which hands them to the branch between: whoever looks has the
/// lock of the leaf only.
#[test]
fn what_is_handed_down_to_a_branch_is_found() {
    check::<3>(
        PREEMPTIONS,
        |cpu, space| {
            leaf(cpu, space);
            space.map(cpu, pages(0, 32), READ).unwrap();
        },
        |one, space| space.protect(one, pages(4, 12), NONE).unwrap(),
        |other, space| assert_eq!(other.load(space, 2), Ok(0)),
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 32),
    );
}

/// The same for who looks without any lock, as there is no leaf yet.
#[test]
fn what_is_handed_down_to_a_branch_is_found_where_there_is_no_leaf() {
    check::<3>(
        2,
        |cpu, space| space.map(cpu, pages(0, 32), READ).unwrap(),
        |one, space| space.protect(one, pages(4, 12), NONE).unwrap(),
        |other, space| assert_eq!(other.load(space, 2), Ok(0)),
        |cpu, space| assert_eq!(space.audit(cpu).mapped, 32),
    );
}

/// Nodes that others have made are found as they were made.
#[test]
fn a_branch_that_somebody_makes_is_seen_whole() {
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

/// Two ranges that have nodes in common are locked in one order.
#[test]
fn who_changes_pages_of_two_leaves_excludes_who_changes_those_of_one() {
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

/// A page that is there.
fn come<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.map(cpu, pages(0, 1), READ).unwrap();
    space.populate(cpu, pages(0, 1)).unwrap();
}

/// It goes, and what it had is somebody else's.
fn go<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.unmap(cpu, pages(0, 1)).unwrap();
    space.map(cpu, pages(2, 3), WRITE).unwrap();
    cpu.store(space, 2, 7).unwrap();
}

/// Who looks finds it as it was, or gone.
fn look<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    let found = cpu.load(space, 0);
    assert!(found == Ok(0) || found == Err(Fault::Unmapped), "{found:?}");
}

/// A CPU that comes to a space is told of what goes, or finds it gone.
#[test]
fn who_comes_to_a_space_does_not_keep_what_is_unmapped() {
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

/// As above, for one that leaves it in between, and is not told of what goes meanwhile.
#[test]
fn who_comes_back_to_a_space_does_not_keep_what_is_unmapped() {
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

/// Pages are mapped again when those before have been forgotten.
#[test]
fn who_maps_pages_again_finds_no_old_content() {
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

/// What is discarded while another goes there is one page or the other, and no frame is lost.
#[test]
fn a_page_that_is_discarded_comes_again() {
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

/// A CPU that has found a leaf looks again if the leaf is taken out of the tree in the meantime.
#[test]
fn who_maps_in_a_leaf_that_goes_does_so_in_the_next() {
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

/// As above, but the other CPU faults on a page that is already mapped, rather than mapping one.
#[test]
fn who_goes_to_a_page_of_a_leaf_that_goes_finds_it_in_the_next() {
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

/// A copy is the space at one moment: before pages were unmapped, or after, whatever of that others have come to.
#[test]
fn a_copy_has_all_pages_that_are_unmapped_meanwhile_or_none() {
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

/// If a copy has a write, it also has those that came before. This includes the first write to a page.
#[test]
fn a_copy_has_what_was_written_before() {
    check::<2>(
        2,
        |cpu, space| space.map(cpu, pages(0, 2), WRITE).unwrap(),
        |one, space| {
            let copy = space.fork(one).unwrap();
            let found = [0, 1].map(|page| one.load(&copy, page).unwrap());
            // The first was written before the second.
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

/// Page 0 has content; page 4, of another leaf, is mapped and not present.
fn fill_page_0<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.map(cpu, pages(0, 1), WRITE).unwrap();
    cpu.store(space, 0, 7).unwrap();
    space.map(cpu, pages(1, 2), WRITE).unwrap();
    // The leaf of page 4 is there, and has no table.
    space.map(cpu, pages(4, 5), WRITE).unwrap();
}

/// Page 0 goes, and the frame that comes next is its frame.
fn recycle_page_0<const LEVELS: u8>(cpu: &Processor<LEVELS>, space: &Of<LEVELS>) {
    space.unmap(cpu, pages(0, 1)).unwrap();
}

/// Looks at a page when the space is active on the CPU already: to activate it executes a full fence, which would
/// order what the entry's ordering has to.
fn load_while_active<const LEVELS: u8>(
    cpu: &Processor<LEVELS>,
    space: &Of<LEVELS>,
    page: u64,
) -> Result<u64, Fault> {
    assert_eq!(cpu.load(space, 3), Err(Fault::Unmapped));
    cpu.load(space, page)
}

#[test]
fn a_page_is_found_as_it_was_when_it_came() {
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
fn a_page_that_is_protected_is_found_as_it_was_when_it_came() {
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

/// Both frames of the leaf that comes are frames of pages that went: its table, and its page.
#[test]
fn a_table_is_found_empty() {
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

/// The frames of the branch's table and of the page are those of pages that went.
#[test]
fn a_table_of_a_branch_is_found_empty() {
    check_asymmetric::<3>(
        2,
        |cpu, space| {
            fill_page_0(cpu, space);
            cpu.store(space, 1, 7).unwrap();
            // The root has these, and no child for them.
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
fn a_page_that_is_moved_is_found_as_it_was() {
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

/// An extent that no other one is like in any part.
fn extent(number: u64) -> Extent {
    let protection = Protection::from_bits_retain(number as u8);
    Extent {
        pages: Pages::new(Page(100 * number), number),
        attributes: Attributes::anonymous(protection),
    }
}

/// While extents are those that `first` says, and somebody changes them by `write`, another reads them: they are in
/// one of these `ways`.
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

/// Puts other copies there, of these extents.
fn replace(latched: &LatchedExtents, numbers: &[u64]) {
    let copies = Box::new(ExtentLatch::with_room(2).unwrap());
    // SAFETY: nobody else knows them, and one at a time comes here.
    unsafe {
        copies.write(numbers.iter().map(|&number| extent(number)));
        // There is no epoch here.
        let _old = latched.replace(copies);
    }
}

fn write(latched: &LatchedExtents, numbers: &[u64]) {
    // SAFETY: one at a time comes here.
    unsafe { latched.latch().unwrap().write(numbers.iter().map(|&number| extent(number))) };
}

/// The second write is to the copy that the reader may be in.
#[test]
fn extents_are_found_as_they_were_at_one_moment() {
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
fn extents_that_are_replaced_are_found_as_they_were_or_are() {
    check_latched(&[1], |latched| replace(latched, &[2, 3]), &[&[1], &[2, 3]]);
}

/// A child has extents before they are gone from its parent, which is written to once more: into the copy that the
/// reader may be in.
#[test]
fn extents_that_are_handed_down_are_found_above_or_below() {
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
