//! Each CPU pins pages, and writes to their frames as a device would, while other CPUs unmap, fork and evict.

use core::sync::atomic::{AtomicU64, Ordering::SeqCst};

use knee_sync::shim::is_mutant;
use knee_vm::{Fault, MapError, Object, Page, Pages, Protection, Sharing};

use super::Options;
use crate::access::{self, load};
use crate::cpu::{current, drop_space};
use crate::jobs::on_each_cpu;
use crate::remote;

/// Private pages, in two leaf tables. An object of the same size is mapped directly after the private pages.
const PRIVATE: Pages = Pages { start: Page(0xe_0000 - 1), end: Page(0xe_0000 + 1) };

pub(super) fn pins(options: &Options) {
    let space = super::new_space();
    let count = PRIVATE.count();
    let object = Object::new(current(), count).expect("there is memory");
    let all = Pages { start: PRIVATE.start, end: PRIVATE.end + count };
    let map = |page: Page| {
        let (pages, access) = (Pages::new(page, 1), Protection::READ_WRITE);
        match PRIVATE.contains(page) {
            true => space.map(current(), pages, access),
            false => {
                let index = page - PRIVATE.end;
                space.map_object(current(), pages, &object, index, access, Sharing::Shared)
            }
        }
    };
    all.iter().for_each(|page| map(page).expect("the pages are free"));
    on_each_cpu(&|number| {
        let mut random = options.random(number);
        for round in 0..options.rounds {
            let page = all.start + random.below(all.count());
            let pages = Pages::new(page, 1);
            let result = match random.below(8) {
                0 => space.unmap(current(), pages).and_then(|()| match map(page) {
                    Err(MapError::Occupied) => Ok(()),
                    other => other,
                }),
                1 => space.discard(current(), pages),
                2 => {
                    object.discard(current(), 0..count);
                    Ok(())
                }
                3 => match space.fork(current()) {
                    Ok(copy) => {
                        let copy = alloc::boxed::Box::new(copy);
                        let _ = access::store(&copy, page.address().0 + 8, 1);
                        drop_space(copy);
                        Ok(())
                    }
                    Err(error) => Err(error),
                },
                _ => {
                    let Ok(pinned) = space.pin(current(), page, Protection::WRITE) else {
                        continue;
                    };
                    // Each CPU writes to its own word of the page. Word 1 is for stores to copies.
                    let word = pinned.address().cast::<AtomicU64>();
                    // SAFETY: the pin keeps the frame allocated, and the word is in the frame.
                    let word = unsafe { &*word.as_ptr().add(2 + number) };
                    word.store(round, SeqCst);
                    for _ in 0..random.below(2000) {
                        remote::handle();
                    }
                    assert_eq!(word.load(SeqCst), round, "the frame has another user");
                    let address = page.address().0 + 8 * (2 + number as u64);
                    match load(&space, address) {
                        Ok(found) => assert_eq!(found, round, "{page:?} has another frame"),
                        // Another CPU may have unmapped a page of the object, and not mapped it again yet.
                        Err(Fault::Unmapped) if !PRIVATE.contains(page) => (),
                        Err(fault) => panic!("{page:?}: {fault}"),
                    }
                    Ok(())
                }
            };
            assert!(matches!(result, Ok(()) | Err(MapError::Pinned)), "{result:?}");
        }
    });
    let late = is_mutant!("kernel_device_writes_late").then(|| {
        let pinned = space.pin(current(), PRIVATE.start, Protection::WRITE);
        pinned.expect("the page is mapped").address().cast::<u64>()
    });
    drop_space(space);
    if let Some(word) = late {
        current().drain();
        // SAFETY: word 1 of this frame is in memory, and does not link free frames. The frame is free, so this
        // store is the planted mistake: the check after the storm must notice it.
        unsafe { word.add(1).write_volatile(1) };
    }
}
