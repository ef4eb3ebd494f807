//! One CPU at a time replaces pages that all CPUs access.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_vm::{Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store, watch};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;

/// Runs the storm. After each replacement, the CPU stores the new version to all pages.
pub(super) fn replace(options: &Options) {
    const PAGES: u64 = 6;
    let space = new_space();
    // The pages are in two leaf tables.
    let pages = Pages::new(Page(0xb_0000 - PAGES / 2), PAGES);
    space.map(current(), pages, Protection::READ_WRITE).expect("the pages are free");
    // The version of the pages, which is odd while a CPU replaces them. While the version is even, the
    // version equals the word that the storm uses in each page.
    let version = AtomicU64::new(0);
    let address = |index: u64| (pages.start + index).address().0 + 8;
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        for _ in 0..options.rounds {
            let index = random.below(PAGES);
            let before = version.load(SeqCst);
            let take = || version.compare_exchange(before, before + 1, SeqCst, SeqCst).is_ok();
            if random.below(8) == 0 && before.is_multiple_of(2) && take() {
                space.replace(current(), pages, Protection::READ_WRITE).expect("there is memory");
                for index in 0..PAGES {
                    assert_eq!(load(&space, address(index)), Ok(0), "a new page is not zero");
                    assert_eq!(store(&space, address(index), before + 2), Ok(()));
                }
                version.store(before + 2, SeqCst);
                continue;
            }
            let word = match random.below(8) {
                0 => watch(&space, address(index), before),
                _ => load(&space, address(index)),
            };
            let word = word.expect("the page is mapped throughout");
            let after = version.load(SeqCst);
            if before == after && before.is_multiple_of(2) {
                assert_eq!(word, before, "page {index}");
            } else {
                let is_right = word == 0 || (before & !1..=after + 1).contains(&word);
                assert!(is_right, "page {index} has {word} between {before} and {after}");
            }
        }
    });
    drop_space(space);
}
