//! Memory runs out. A failed operation changes nothing, and a retry succeeds once enough frames are
//! free.

use alloc::vec::Vec;

use knee_vm::{Fault, Frame, Machine, MapError, Page, Pages, Protection};

use super::{Options, new_space};
use crate::access::{load, store};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::board;

/// The number of frames that the storm leaves free.
const LEFT: usize = 400;

/// The number of free frames that each CPU has in its own list when the storm takes the other frames.
const OWN: usize = 200;

pub(super) fn memory(options: &Options) {
    on_each_cpu(&|_| {
        let mut frames = [Frame(0); OWN];
        assert_eq!(board().allocate(&mut frames), OWN, "memory has run out before the storm");
        // SAFETY: the frames were allocated above, and nothing uses them.
        unsafe { board().free(&frames) };
    });
    // Take all other frames.
    let mut taken: Vec<Frame> = Vec::new();
    taken.resize(board().free_frames() - LEFT, Frame(0));
    let count = board().allocate(&mut taken);
    assert_eq!(count, taken.len());
    let space = new_space();
    let failures = core::sync::atomic::AtomicU64::new(0);
    let fails = || failures.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    on_each_cpu(&|number| {
        let (cpu, mut random) = (current(), options.random(number));
        let mut own: Vec<(Pages, u64)> = Vec::new();
        for round in 0..options.rounds {
            match random.below(4) {
                0 | 1 => {
                    // Each range is in its own leaf table.
                    let start = Page((0x100 + 2 * number as u64) << 20 | (round % 256) << 9);
                    let pages = Pages::new(start, 1 + random.below(64));
                    if own.iter().any(|(other, _)| other.overlaps(pages)) {
                        continue;
                    }
                    match space.map(cpu, pages, Protection::READ_WRITE) {
                        Ok(()) => {
                            let mut stored = 0;
                            for page in pages.iter() {
                                match store(&space, page.address().0 + 8, round + 1) {
                                    Ok(()) => stored += 1,
                                    Err(Fault::OutOfMemory) => {
                                        fails();
                                        break;
                                    }
                                    Err(fault) => panic!("{fault}"),
                                }
                            }
                            own.push((Pages::new(pages.start, stored), round + 1));
                            if stored < pages.count() {
                                let rest = Pages { start: pages.start + stored, end: pages.end };
                                unmap(&space, rest, &fails);
                            }
                        }
                        Err(MapError::OutOfMemory) => _ = fails(),
                        Err(error) => panic!("{error}"),
                    }
                }
                2 if !own.is_empty() => {
                    let index = random.below(own.len() as u64) as usize;
                    let (pages, value) = own[index];
                    for page in pages.iter() {
                        assert_eq!(load(&space, page.address().0 + 8), Ok(value), "{page:?}");
                    }
                    own.swap_remove(index);
                    if !pages.is_empty() {
                        unmap(&space, pages, &fails);
                    }
                }
                3 if random.below(8) == 0 => match space.fork(cpu) {
                    Ok(copy) => drop_space(alloc::boxed::Box::new(copy)),
                    Err(MapError::OutOfMemory) => _ = fails(),
                    Err(error) => panic!("{error}"),
                },
                _ => _ = space.prune(cpu, space.pages()),
            }
        }
        // All pages that are still mapped have kept their content.
        for (pages, value) in own {
            for page in pages.iter() {
                assert_eq!(load(&space, page.address().0 + 8), Ok(value), "{page:?}");
            }
        }
    });
    assert!(failures.into_inner() > 0, "memory never ran out");
    drop_space(space);
    // SAFETY: this storm has allocated the frames, and nothing uses them.
    unsafe { board().free(&taken) };
}

/// Unmaps pages. An unmap may allocate: if memory runs out, this function retries until other CPUs have freed
/// some memory.
fn unmap(space: &crate::machine::Space, pages: Pages, fails: &dyn Fn() -> u64) {
    while let Err(error) = space.unmap(current(), pages) {
        assert_eq!(error, MapError::OutOfMemory);
        fails();
        current().drain();
        crate::remote::handle();
    }
}
