//! One CPU copies the dirty pages of a space, as a live migration does, while all others store to the space
//! and swap its pages out.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_vm::{Page, Pages, Protection, Usage};

use super::{Options, new_space_with_swap};
use crate::access::{load, store};
use crate::arch::MOST_CPUS;
use crate::cpu::{count, current, drop_space};
use crate::jobs::on_each_cpu;

/// The number of pages of each CPU.
const PAGES: u64 = 4;

pub(super) fn usage(options: &Options) {
    let all = Pages::new(Page(0xc_0000), PAGES * count() as u64);
    let (space, swap) = new_space_with_swap(all.count());
    space.map(current(), all, Protection::READ_WRITE).expect("the pages are free");
    let address = |page: Page| page.address().0 + 8;
    // For each page, the last word that its CPU has stored.
    let stored: [AtomicU64; PAGES as usize * MOST_CPUS] = [const { AtomicU64::new(0) }; _];
    let at = |page: Page| &stored[(page - all.start) as usize];
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        let mut copy = alloc::vec![0; all.count() as usize];
        for round in 1..=options.rounds {
            // The last CPU copies, and the others store. If there is only one CPU, it stores, and no CPU
            // copies.
            if number + 1 < count() || count() == 1 {
                let page = all.start + number as u64 * PAGES + random.below(PAGES);
                assert_eq!(store(&space, address(page), round), Ok(()));
                at(page).store(round, SeqCst);
                if random.below(32) == 0 {
                    let result = space.swap_out(current(), Pages::new(page, 1));
                    result.expect("the device does not fail");
                }
                continue;
            }
            let before: Vec<u64> = all.iter().map(|page| at(page).load(SeqCst)).collect();
            let mut dirty = Vec::with_capacity(all.count() as usize);
            let collect = |page, usage: Usage| {
                if usage.contains(Usage::DIRTY) {
                    dirty.push(page);
                }
            };
            space.usage(current(), all, Usage::DIRTY, collect).expect("the pages are in the space");
            for page in dirty {
                copy[(page - all.start) as usize] =
                    load(&space, address(page)).expect("it is mapped");
            }
            for (index, (&copied, before)) in copy.iter().zip(before).enumerate() {
                assert!(copied >= before, "page {index}: the store of {before} was not noticed");
            }
        }
    });
    drop_space(space);
    assert_eq!(swap.used(), 0, "slots were not freed");
}
