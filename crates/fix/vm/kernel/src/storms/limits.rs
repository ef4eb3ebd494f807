//! Two spaces have one limit in common. Each CPU maps and unmaps pages of both, up to its part of the limit.

use alloc::boxed::Box;
use alloc::sync::Arc;

use knee_vm::{MapError, Page, Pages, Protection, Quota, Space as VmSpace};

use super::Options;
use crate::access::{load, map_code, store};
use crate::cpu::{count, current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::board;

/// Each CPU's part of the limit, in pages.
const PART: u64 = 24;

/// The number of ranges of a CPU. Each range has at most [`MOST`] pages.
const RANGES: u64 = 8;
const MOST: u64 = 7;

/// A range of pages that a CPU maps. The page after the longest possible range is a guard, which the limit
/// does not count.
fn start(cpu: usize, range: u64) -> Page {
    Page(0x11_0000 - 300 + (cpu as u64 * RANGES + range) * (MOST + 1))
}

pub(super) fn limits(options: &Options) {
    // The code is one more page in each of the two spaces.
    let limit = PART * count() as u64 + 2;
    let quota = Arc::new(Quota::new(board(), limit).expect("there is memory"));
    let spaces = [(); 2].map(|()| {
        let space = VmSpace::with_quota(current(), Arc::clone(&quota));
        let space = Box::new(space.expect("there is memory"));
        map_code(&space);
        space
    });
    on_each_cpu(&|number| {
        let (cpu, mut random) = (current(), options.random(number));
        // For each range in each space, the number of its pages that are mapped.
        let mut mapped = [[0; RANGES as usize]; 2];
        for round in 1..=options.rounds {
            let (which, range) = (random.below(2) as usize, random.below(RANGES));
            let (space, start) = (&spaces[which], start(number, range));
            let used: u64 = mapped.iter().flatten().sum();
            let pages = &mut mapped[which][range as usize];
            match random.below(4) {
                // The other CPUs use no more than their parts, so this CPU can use its whole part.
                0 | 1 if *pages == 0 => {
                    *pages = (1 + random.below(MOST)).min(PART - used);
                    if *pages > 0 {
                        let result =
                            space.map(cpu, Pages::new(start, *pages), Protection::READ_WRITE);
                        assert_eq!(result, Ok(()), "{used} of {PART} pages were used");
                        let guard = Pages::new(start + MOST, 1);
                        assert_eq!(space.map(cpu, guard, Protection::GUARD), Ok(()));
                        let address = start.address().0 + 8;
                        assert_eq!(store(space, address, round), Ok(()));
                        assert_eq!(load(space, address), Ok(round));
                    }
                }
                // One page more than all other CPUs can have left over.
                2 => {
                    let too_many =
                        Pages::new(Page(0x12_0000 + number as u64 * 0x1000), limit - 1 - used);
                    let result = space.map(cpu, too_many, Protection::READ_WRITE);
                    assert_eq!(result, Err(MapError::QuotaExceeded), "{used} pages were used");
                    assert_eq!(space.query(cpu, too_many.start), None);
                }
                // Unmap the first pages of the range, or all.
                _ if *pages > 0 => {
                    let first = 1 + random.below(*pages);
                    space.unmap(cpu, Pages::new(start, first)).expect("there is memory");
                    if first < *pages {
                        let rest = Pages::new(start + first, *pages - first);
                        space.discard(cpu, rest).expect("the pages are mapped");
                    }
                    space.unmap(cpu, Pages::new(start, MOST + 1)).expect("there is memory");
                    *pages = 0;
                }
                _ => (),
            }
        }
        for (space, mapped) in spaces.iter().zip(mapped) {
            for (range, pages) in (0..).zip(mapped).filter(|(_, pages)| *pages > 0) {
                let pages = Pages::new(start(number, range), pages);
                space.unmap(cpu, pages).expect("there is memory");
            }
        }
    });
    assert_eq!(quota.used(), 2, "the limit counts pages that are not mapped");
    spaces.into_iter().for_each(drop_space);
    assert_eq!(quota.used(), 0, "the limit counts pages of dropped spaces");
}
