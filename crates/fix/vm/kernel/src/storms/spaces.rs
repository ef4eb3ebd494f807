//! CPUs create spaces, switch between them and drop them. The spaces have different content at the same
//! addresses.

use knee_vm::{Fault, Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store};
use crate::arch::MOST_CPUS;
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;

/// The number of spaces that all CPUs use.
const COMMON: usize = 3;

pub(super) fn spaces(options: &Options) {
    let common: [_; COMMON] = core::array::from_fn(|_| new_space());
    let start = Page(0x9_0000);
    let address = |index: u64| (start + index).address().0 + 8;
    for (index, space) in common.iter().enumerate() {
        // Space `index` leaves the first `index` pages unmapped.
        let pages =
            Pages { start: start + index as u64, end: start + MOST_CPUS as u64 + COMMON as u64 };
        space.map(current(), pages, Protection::READ_WRITE).expect("the pages are free");
    }
    let check = |number: usize, index: usize, value: u64| {
        let (space, own) = (&common[index], (COMMON + number) as u64);
        let found = load(space, address(own));
        assert_eq!(found, Ok(value), "CPU {number}, space {index}");
        // Page `index - 1` is mapped in space `index - 1`, but not in this space.
        if index > 0 {
            assert_eq!(
                load(space, address(index as u64 - 1)),
                Err(Fault::Unmapped),
                "space {index}"
            );
        }
    };
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        let mut values = [0; COMMON];
        for round in 0..options.rounds {
            let index = random.below(COMMON as u64) as usize;
            if random.below(8) == 0 {
                let space = new_space();
                let pages = Pages::new(start, MOST_CPUS as u64);
                space.map(current(), pages, Protection::READ_WRITE).expect("the pages are free");
                let own = address(random.below(MOST_CPUS as u64));
                assert_eq!(load(&space, own), Ok(0), "a page of a new space");
                assert_eq!(store(&space, own, round), Ok(()));
                check(number, index, values[index]);
                assert_eq!(load(&space, own), Ok(round), "a page of a new space");
                drop_space(space);
            } else {
                values[index] = round << 8 | index as u64;
                let own = address((COMMON + number) as u64);
                assert_eq!(store(&common[index], own, values[index]), Ok(()));
            }
            let other = random.below(COMMON as u64) as usize;
            check(number, other, values[other]);
        }
    });
    common.into_iter().for_each(drop_space);
}
