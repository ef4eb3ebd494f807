//! Each CPU stores to its own frame through a page of 1 GiB, while one CPU at a time removes this page.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::SeqCst};

use knee_vm::{Fault, Frame, Machine, MemoryType, Object, Page, Pages, Protection, Sharing};

use super::{Options, new_space};
use crate::access::{load, store};
use crate::cpu::{self, current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::board;
use crate::{arch, frames};

/// The number of 4 KiB pages in 1 GiB.
const GIB: u64 = 1 << 18;
/// Where the space maps the first GiB of memory.
const PAGES: Pages = Pages { start: Page(4 * GIB), end: Page(5 * GIB) };

/// Runs the storm. The device is the memory of the machine, and each CPU accesses only a frame that it has
/// allocated.
pub(super) fn gigabyte(options: &Options) {
    let mut own: Vec<Frame> = (0..=cpu::count()).map(|_| Frame(0)).collect();
    assert_eq!(board().allocate(&mut own), own.len());
    let page = |frame: Frame| PAGES.start + (frame.0 - arch::MEMORY);
    // The storm protects and discards only the page of the last frame, which belongs to no CPU.
    let changed = Pages::new(page(own[cpu::count()]), 1);
    let (first, access) = (Frame(arch::MEMORY), Protection::READ_WRITE);
    // SAFETY: programs access only the frames in `own`, which this function frees at the end. The kernel's
    // mapping of them is also write-back.
    let object = unsafe { Object::of_device(current(), first, GIB, MemoryType::WriteBack, access) };
    let (object, space) = (object.expect("there is memory"), new_space());
    space
        .map_object(current(), PAGES, &object, 0, access, Sharing::Shared)
        .expect("the pages are free");
    for &frame in &own {
        assert_eq!(store(&space, page(frame).address().0 + 8, 0), Ok(()));
    }
    assert_eq!(space.resident(), GIB + 1, "a page of 1 GiB, beside the page of the code");
    let is_changing = AtomicBool::new(false);
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        let address = page(own[number]).address().0 + 8;
        for round in 1..=options.rounds {
            // While another CPU revokes the device, accesses fail.
            let found = load(&space, address);
            assert!(matches!(found, Err(Fault::BeyondEnd)) || found == Ok(round - 1), "{found:?}");
            while let Err(fault) = store(&space, address, round) {
                assert_eq!(fault, Fault::BeyondEnd);
            }
            if random.below(8) > 0 || is_changing.swap(true, SeqCst) {
                continue;
            }
            let at = changed.start.address().0 + 8;
            let result = match random.below(5) {
                0 => space.protect(current(), changed, Protection::READ).and_then(|()| {
                    assert_eq!(store(&space, at, 0), Err(Fault::AccessDenied));
                    space.protect(current(), changed, access)
                }),
                1 => {
                    object.resize(current(), 0).expect("0 is below the capacity");
                    assert_eq!(store(&space, address, 0), Err(Fault::BeyondEnd));
                    object.resize(current(), GIB).expect("this is the capacity");
                    Ok(())
                }
                2 => space.fork(current()).map(|copy| {
                    let copy = alloc::boxed::Box::new(copy);
                    assert_eq!(load(&copy, address), Ok(round), "the copy shares the device");
                    drop_space(copy);
                }),
                3 => space.discard(current(), changed),
                _ => {
                    space.prune(current(), PAGES);
                    Ok(())
                }
            };
            assert_eq!(result, Ok(()));
            is_changing.store(false, SeqCst);
        }
    });
    drop_space(space);
    drop(object);
    own.iter().for_each(|&frame| frames::mark(frame));
    // SAFETY: nothing maps the frames any more.
    unsafe { board().free(&own) };
}
