//! The pages of a space are swapped out to a RAM disk, while all CPUs use, copy, move and unmap them.

use alloc::boxed::Box;

use knee_vm::{Fault, Page, Pages, Protection};

use super::{Options, new_space_with_swap};
use crate::access::{load, store};
use crate::cpu::{count, current, drop_space};
use crate::jobs::on_each_cpu;

/// The number of pages that all CPUs use.
const PAGES: u64 = 24;

/// The number of slots: too few for all pages and their copies.
const SLOTS: u64 = 40;

pub(super) fn swap(options: &Options) {
    let (space, swap) = new_space_with_swap(SLOTS);
    // The pages are in two leaf tables.
    let all = Pages::new(Page(0xe_0000 - PAGES / 2), PAGES);
    // Each CPU has a page of its own, and moves this page between two addresses.
    let own = |number: usize, is_there: bool| {
        Pages::new(Page(0xf_0000 + 2 * number as u64 + if is_there { 0x1000 } else { 0 }), 1)
    };
    space.map(current(), all, Protection::READ_WRITE).expect("the pages are free");
    for number in 0..count() {
        let result = space.map(current(), own(number, false), Protection::READ_WRITE);
        result.expect("the page is free");
    }
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        // Each CPU has its own word in each page, and remembers the value that it has stored there.
        let mut words = [0; PAGES as usize];
        let (mut is_there, mut moving) = (false, 0);
        for round in 1..=options.rounds {
            let index = random.below(PAGES);
            let page = all.start + index;
            let address = page.address().0 + 8 * (1 + number as u64);
            let word = &mut words[index as usize];
            match random.below(28) {
                0 => {
                    let count = 1 + random.below(PAGES);
                    let pages = Pages::new(page, count).and(all);
                    space.swap_out(current(), pages).expect("the device does not fail");
                }
                1 => {
                    let count = space.reclaim(current(), 4).expect("the device does not fail");
                    assert!(count <= 4, "reclaim has freed {count} of 4 pages");
                }
                2 => {
                    let copy = Box::new(space.fork(current()).expect("there is memory"));
                    assert_eq!(load(&copy, address), Ok(*word), "a copy has lost a store");
                    copy.swap_out(current(), copy.pages()).expect("the device does not fail");
                    assert_eq!(store(&copy, address, round + 1), Ok(()));
                    drop_space(copy);
                }
                3 => {
                    let old = own(number, is_there);
                    is_there = !is_there;
                    let new = own(number, is_there);
                    space.remap(current(), old, new).expect("there is memory");
                    let at = |pages: Pages| pages.start.address().0 + 8;
                    assert_eq!(load(&space, at(new)), Ok(moving), "a moved page lost a store");
                    assert_eq!(load(&space, at(old)), Err(Fault::Unmapped));
                    if random.below(4) == 0 {
                        space.discard(current(), new).expect("there is memory");
                        assert_eq!(load(&space, at(new)), Ok(0), "a page has discarded content");
                    }
                    moving = round;
                    assert_eq!(store(&space, at(new), moving), Ok(()));
                    space.swap_out(current(), new).expect("the device does not fail");
                }
                4..16 => {
                    *word = round;
                    assert_eq!(store(&space, address, *word), Ok(()));
                }
                _ => assert_eq!(load(&space, address), Ok(*word), "{page:?} has lost a store"),
            }
        }
    });
    drop_space(space);
    assert_eq!(swap.used(), 0, "slots were not freed");
}
