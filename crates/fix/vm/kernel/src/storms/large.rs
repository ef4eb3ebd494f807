//! Each CPU stores to its own words of large pages, while all CPUs split, promote, fork, unmap and reclaim
//! them.

use alloc::boxed::Box;

use knee_vm::{Fault, MapError, Page, Pages, Protection, Usage};

use super::{Options, new_space_with_swap};
use crate::access::{load, store};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;

/// The number of 4 KiB pages in a large page.
const LARGE: u64 = 512;

/// The number of slots of the swap area.
const SLOTS: u64 = 32;

/// Two large pages.
const ALL: Pages = Pages::new(Page(0xc_0000), 2 * LARGE);

pub(super) fn large(options: &Options) {
    let (space, swap) = new_space_with_swap(SLOTS);
    space.set_large_pages(true);
    space.map(current(), ALL, Protection::READ_WRITE).expect("the pages are free");
    assert_eq!(store(&space, ALL.start.address().0, 1), Ok(()));
    assert_eq!(
        space.resident(),
        LARGE + 1,
        "the fault made a large page, beside the page of the code"
    );
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        // Each CPU has a page of its own in each large page. Any CPU may unmap and map the last page of
        // `ALL`.
        let own = [ALL.start + number as u64, ALL.start + LARGE + number as u64];
        let common = Pages::new(ALL.end - 1, 1);
        let mut words = [0; 2];
        for round in 1..=options.rounds.div_ceil(4) {
            let which = random.below(2) as usize;
            let (page, address) = (own[which], own[which].address().0 + 8);
            assert_eq!(load(&space, address), Ok(words[which]), "{page:?} has lost a store");
            assert_eq!(store(&space, address, round), Ok(()));
            words[which] = round;
            let one = Pages::new(page, 1);
            let result = match random.below(16) {
                0 => space.promote(current(), ALL).map(drop),
                1 => space.unmap(current(), common).and_then(|()| {
                    match space.map(current(), common, Protection::READ_WRITE) {
                        Err(MapError::Occupied) => Ok(()),
                        other => other,
                    }
                }),
                2 => space.fork(current()).map(|copy| {
                    let copy = Box::new(copy);
                    assert_eq!(load(&copy, address), Ok(round), "the copy lacks a store");
                    assert_eq!(store(&copy, address, 0), Ok(()));
                    drop_space(copy);
                }),
                3 => space.usage(current(), one, Usage::ACCESSED, |_, _| ()),
                4 => space.discard(current(), one).map(|()| words[which] = 0),
                5 => space.protect(current(), one, Protection::READ).and_then(|()| {
                    assert_eq!(store(&space, address, 0), Err(Fault::AccessDenied));
                    space.protect(current(), one, Protection::READ_WRITE)
                }),
                6 => {
                    let count = space.reclaim(current(), 2).expect("the device does not fail");
                    assert!(count <= 2, "reclaim has freed {count} of 2 pages");
                    Ok(())
                }
                _ => {
                    let result = store(&space, common.start.address().0 + 8, round);
                    assert!(matches!(result, Ok(()) | Err(Fault::Unmapped)), "{result:?}");
                    Ok(())
                }
            };
            assert_eq!(result, Ok(()));
        }
    });
    drop_space(space);
    assert_eq!(swap.used(), 0, "slots were not freed");
}
