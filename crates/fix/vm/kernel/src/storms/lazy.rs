//! A lazy space: until its next tick, a CPU may find the old content of an unmapped page, but never the
//! content of another page.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_vm::{Fault, Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;

const PAGES: u64 = 8;

pub(super) fn lazy(options: &Options) {
    let space = new_space();
    space.set_lazy(true);
    let locks: [AtomicU64; PAGES as usize] = Default::default();
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        for round in 0..options.rounds {
            let index = random.below(PAGES);
            let page = Page(0x8_0000 + index);
            let address = page.address().0 + 8 * (1 + index);
            let tag = |round: u64| index << 48 | round << 8 | 1;
            if random.below(3) > 0 {
                match load(&space, address) {
                    Ok(0) | Err(Fault::Unmapped) => (),
                    Ok(word) => {
                        assert!(word >> 48 == index && word & 1 == 1, "{page:?} has {word:#x}")
                    }
                    Err(fault) => panic!("{fault}"),
                }
                continue;
            }
            let lock = &locks[index as usize];
            if lock.compare_exchange(0, 1, SeqCst, SeqCst).is_err() {
                continue;
            }
            let pages = Pages::new(page, 1);
            space.map(current(), pages, Protection::READ_WRITE).expect("the page is free");
            // A page that is mapped again never has old content, because `map` makes all CPUs flush it first.
            assert_eq!(load(&space, address), Ok(0), "{page:?} has old content");
            assert_eq!(store(&space, address, tag(round)), Ok(()));
            assert_eq!(load(&space, address), Ok(tag(round)), "{page:?} lost a store");
            space.unmap(current(), pages).expect("there is memory");
            assert_eq!(
                load(&space, address),
                Err(Fault::Unmapped),
                "the CPU that unmapped the page has not flushed it"
            );
            lock.store(0, SeqCst);
        }
    });
    space.settle(current());
    // The page with the user-mode code stays mapped and resident.
    assert_eq!(space.resident(), 1, "an unmapped page is still resident after `settle`");
    drop_space(space);
}
