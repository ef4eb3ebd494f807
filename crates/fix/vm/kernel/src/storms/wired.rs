//! Pages that must stay present while all CPUs reclaim: pinned pages of one space, and all pages of another
//! space, which no CPU reclaims.

use alloc::boxed::Box;
use core::array;

use knee_vm::{Fault, Page, Pages, PinnedPage, Protection};

use super::{Options, new_space_with_swap};
use crate::access::{load, store};
use crate::cpu::{count, current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::{Board, Space};

/// The number of pages of each CPU in each of the two spaces.
const PAGES: u64 = 4;

/// A page of a CPU, and what the CPU remembers of it.
struct Own {
    page: Page,
    /// The CPU's last store.
    word: u64,
    pinned: Option<PinnedPage<'static, Board>>,
}

impl Own {
    fn address(&self) -> u64 {
        self.page.address().0 + 8
    }

    fn check(&self, space: &Space) {
        assert_eq!(load(space, self.address()), Ok(self.word), "{:?} lost a store", self.page);
    }

    /// If the page is pinned, checks that it has stayed in its frame.
    fn check_frame(&self, space: &Space) {
        let Some(pinned) = &self.pinned else { return };
        // Another pin is the way to find out which frame a page has now.
        let now = space.pin(current(), self.page, Protection::WRITE);
        let now = now.expect("a pinned page is present").frame();
        assert_eq!(now, pinned.frame(), "{:?} did not stay in its frame", self.page);
    }
}

pub(super) fn wired(options: &Options) {
    // The pages are in two leaf tables.
    let all = Pages::new(Page(0x13_0000 - PAGES), PAGES * count() as u64);
    // There are slots for the pages of a space, and for the old slots that each CPU's copy may still use.
    let slots = all.count() * (1 + count() as u64);
    let (space, swap) = new_space_with_swap(slots);
    let (kept, kept_swap) = new_space_with_swap(slots);
    for space in [&space, &kept] {
        space.map(current(), all, Protection::READ_WRITE).expect("the pages are free");
    }
    // Make the code present.
    assert_eq!(load(&kept, 0), Err(Fault::Unmapped));
    let resident = all.count() + 1;
    on_each_cpu(&|number| {
        let (cpu, mut random) = (current(), options.random(number));
        let mut own: [Own; PAGES as usize] = array::from_fn(|index| Own {
            page: all.start + number as u64 * PAGES + index as u64,
            word: 0,
            pinned: None,
        });
        // All CPUs populate the same pages.
        kept.populate(cpu, all).expect("there is memory");
        let check_kept = || assert_eq!(kept.resident(), resident, "a populated page is absent");
        for round in 1..=options.rounds {
            let index = random.below(PAGES) as usize;
            let one = &mut own[index];
            match random.below(16) {
                0 => _ = space.reclaim(cpu, 8).expect("the device does not fail"),
                1 => _ = space.swap_out(cpu, all).expect("the device does not fail"),
                2 | 3 => match space.pin(cpu, one.page, Protection::WRITE) {
                    Ok(pinned) => {
                        one.check_frame(&space);
                        one.pinned = Some(pinned);
                    }
                    Err(fault) => assert_eq!(fault, Fault::Retry),
                },
                4 => one.pinned = None,
                5 => match space.populate(cpu, all) {
                    Ok(()) | Err(Fault::Retry) => (),
                    Err(fault) => panic!("{fault}"),
                },
                6 => {
                    let copy = Box::new(space.fork(cpu).expect("there is memory"));
                    one.check(&copy);
                    drop_space(copy);
                }
                7 => check_kept(),
                8..12 => {
                    one.word = round;
                    assert_eq!(store(&space, one.address(), round), Ok(()));
                    assert_eq!(store(&kept, one.address(), round), Ok(()));
                }
                _ => {
                    one.check(&space);
                    one.check(&kept);
                }
            }
            own[index].check_frame(&space);
        }
        for one in &own {
            one.check_frame(&space);
            one.check(&space);
            one.check(&kept);
        }
        check_kept();
    });
    [space, kept].into_iter().for_each(drop_space);
    assert_eq!((swap.used(), kept_swap.used()), (0, 0), "slots were not freed");
}
