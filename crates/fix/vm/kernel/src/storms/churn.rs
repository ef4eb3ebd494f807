//! Each CPU maps, uses and unmaps its own ranges, in a space that all CPUs share.

use knee_vm::{Fault, Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;

/// The maximum number of pages in a range.
const MOST: u64 = 24;

/// The first page of a CPU's range at a fixed address. The ranges of all CPUs are in the same leaf tables.
fn fixed(cpu: usize, random: u64) -> Page {
    Page(0x1_0000 + 32 * cpu as u64 + 512 * (random % 4))
}

pub(super) fn churn(options: &Options) {
    let space = new_space();
    on_each_cpu(&|number| {
        let (cpu, mut random) = (current(), options.random(number));
        for round in 0..options.rounds {
            let count = 1 + random.below(MOST);
            let pages = if random.below(2) == 0 {
                space.map_anywhere(cpu, count, Protection::READ_WRITE).expect("there is memory")
            } else {
                let pages = Pages::new(fixed(number, random.below(4)), count);
                space.map(cpu, pages, Protection::READ_WRITE).expect("the pages are free");
                pages
            };
            let word = |page: Page| {
                (page.address().0 + 8 * (1 + page.0 % 3), round << 32 | page.0 << 8 | number as u64)
            };
            let used: alloc::vec::Vec<Page> =
                pages.iter().filter(|_| random.below(3) == 0).collect();
            for &page in &used {
                let (address, value) = word(page);
                assert_eq!(load(&space, address), Ok(0), "a new page is not zero: {page:?}");
                assert_eq!(store(&space, address, value), Ok(()));
            }
            for &page in &used {
                let (address, value) = word(page);
                assert_eq!(load(&space, address), Ok(value), "{page:?} lost its content");
            }
            if random.below(4) == 0 {
                space.discard(cpu, pages).expect("the pages are mapped");
                for &page in &used {
                    assert_eq!(
                        load(&space, word(page).0),
                        Ok(0),
                        "{page:?} has old content after a discard"
                    );
                }
            }
            space.unmap(cpu, pages).expect("there is memory");
            for &page in &used {
                assert_eq!(
                    load(&space, word(page).0),
                    Err(Fault::Unmapped),
                    "{page:?} is still accessible after an unmap"
                );
            }
        }
    });
    drop_space(space);
}
