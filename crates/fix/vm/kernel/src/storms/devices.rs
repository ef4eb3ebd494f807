//! All CPUs store to device memory, while one CPU at a time revokes it.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use knee_vm::{Fault, Frame, Machine, MemoryType, Object, Page, Pages, Protection, Sharing};

use super::{Options, new_space};
use crate::access::{load, store, write};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;
use crate::machine::board;
use crate::{arch, frames, remote};

/// The pages at which the space maps the device: two at the end of a leaf table, and two in the next one.
const PAGES: Pages = Pages { start: Page(0xd_0000 - 2), end: Page(0xd_0000 + 2) };

/// Runs the storm. The device's memory is a frame that nothing else uses.
pub(super) fn devices(options: &Options) {
    let space = new_space();
    let mut memory = [Frame(0)];
    assert_eq!(board().allocate(&mut memory), 1);
    let access = Protection::READ_WRITE;
    // SAFETY: the frame belongs to this function, which frees it at the end. The kernel's direct mapping of
    // the frame is write-back, like the object.
    let object =
        unsafe { Object::of_device(current(), memory[0], 1, MemoryType::WriteBack, access) };
    let object = object.expect("there is memory");
    for page in PAGES.iter() {
        space
            .map_object(current(), Pages::new(page, 1), &object, 0, access, Sharing::Shared)
            .expect("the page is free");
    }
    // SAFETY: the frame is memory, which the kernel and programs access as atomic words.
    let word = unsafe { &*arch::direct(memory[0]).cast::<AtomicU64>().add(1) };
    // No program may load the pattern of free frames, so overwrite the pattern.
    word.store(0, SeqCst);
    let is_revoking = AtomicBool::new(false);
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        for _ in 0..options.rounds {
            let address = (PAGES.start + random.below(PAGES.count())).address().0 + 8;
            let result = match random.below(8) {
                0 if !is_revoking.swap(true, SeqCst) => {
                    object.resize(current(), 0).expect("0 is below the capacity");
                    let last = word.load(SeqCst);
                    for _ in 0..500 {
                        remote::handle();
                        assert_eq!(word.load(SeqCst), last, "a CPU stores to a revoked device");
                    }
                    assert_eq!(store(&space, address, 0), Err(Fault::BeyondEnd));
                    object.resize(current(), 1).expect("1 is the capacity");
                    is_revoking.store(false, SeqCst);
                    continue;
                }
                1 => space.discard(current(), PAGES).map_err(|_| Fault::OutOfMemory),
                2 => load(&space, address).map(drop),
                _ => write(&space, address, 0).map(drop),
            };
            assert!(matches!(result, Ok(()) | Err(Fault::BeyondEnd)), "{result:?}");
        }
    });
    drop_space(space);
    drop(object);
    frames::mark(memory[0]);
    // SAFETY: nothing maps the frame any more.
    unsafe { board().free(&memory) };
}
