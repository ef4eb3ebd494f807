//! Pages that devices access.

#[path = "architectures/each.rs"]
mod each;

use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::thread;

use each::on_each_architecture;
use knee_models::random::Random;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, MapError, MemoryType, Object, PAGE, Page, Pager, PagerError, Pages, PinnedPage,
    Protection, ResizeError, Sharing, Space, Usage,
};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;
/// The first page of most tests, just before the end of a leaf table.
const START: Page = Page(510);

on_each_architecture!(
    a_device_and_the_program_access_the_same_frame,
    pinned_pages_cannot_be_unmapped,
    pinned_pages_may_be_moved_and_protected,
    a_fork_copies_pinned_pages,
    pinning_breaks_sharing,
    pinned_pages_are_dirty,
    an_object_keeps_pinned_pages,
    invalid_pins_are_reported,
    every_write_of_a_device_arrives,
    an_object_is_evicted_and_truncated_beside_a_device,
);

/// The word that a device accesses.
fn word<'a, A: Architecture>(page: &'a PinnedPage<'_, Hosted<A>>) -> &'a AtomicU64 {
    // SAFETY: the frame is RAM and stays allocated until the pin ends, and all accesses are atomic.
    unsafe { page.address().cast().as_ref() }
}

fn a_device_and_the_program_access_the_same_frame<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 1), WRITE).unwrap();
    cpu.store(&space, START.address(), 1).unwrap();
    let pinned = space.pin(&cpu, START, WRITE).unwrap();
    assert_eq!(word(&pinned).swap(2, SeqCst), 1);
    assert_eq!(cpu.load(&space, START.address()), Ok(2));
    cpu.store(&space, START.address(), 3).unwrap();
    assert_eq!(word(&pinned).load(SeqCst), 3);
    assert_eq!(Some(pinned.frame()), space.frame(&cpu, START));
}

fn pinned_pages_cannot_be_unmapped<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let all = Pages::new(START, 4);
    space.map(&cpu, all, WRITE).unwrap();
    all.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
    // The second pin of a page is independent of the first.
    let first = space.pin(&cpu, START + 3, READ).unwrap();
    let second = space.pin(&cpu, START + 3, WRITE).unwrap();
    let object = Object::new(&cpu, 4).unwrap();
    let attempts = || {
        [
            space.unmap(&cpu, all),
            space.discard(&cpu, all),
            space.replace(&cpu, all, READ),
            space.replace_with_object(&cpu, all, &object, 0, READ, Sharing::Shared),
            space.remap(&cpu, all, Pages::new(START, 2)),
        ]
    };
    for pin in [first, second] {
        assert_eq!(attempts(), [Err(MapError::Pinned); 5]);
        assert_eq!(space.audit(&cpu).present, 4);
        for page in all.iter() {
            assert_eq!(cpu.load(&space, page.address()), Ok(page.0));
        }
        drop(pin);
    }
    // Other pages of the space are not pinned.
    let pinned = space.pin(&cpu, START, READ).unwrap();
    space.unmap(&cpu, Pages::new(START + 1, 3)).unwrap();
    drop(pinned);
    space.unmap(&cpu, all).unwrap();
    assert_eq!(space.resident(), 0);
}

fn pinned_pages_may_be_moved_and_protected<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 1), WRITE).unwrap();
    let pinned = space.pin(&cpu, START, WRITE).unwrap();
    word(&pinned).store(7, SeqCst);
    let moved = Page(9);
    space.remap(&cpu, Pages::new(START, 1), Pages::new(moved, 1)).unwrap();
    assert_eq!(cpu.load(&space, moved.address()), Ok(7));
    assert_eq!(space.unmap(&cpu, Pages::new(moved, 1)), Err(MapError::Pinned));
    space.protect(&cpu, Pages::new(moved, 1), READ).unwrap();
    word(&pinned).store(8, SeqCst);
    assert_eq!(cpu.load(&space, moved.address()), Ok(8));
    space.protect(&cpu, Pages::new(moved, 1), Protection::NONE).unwrap();
    assert_eq!(space.unmap(&cpu, Pages::new(moved, 1)), Err(MapError::Pinned));
    let copy = space.fork(&cpu).unwrap();
    copy.protect(&cpu, Pages::new(moved, 1), READ).unwrap();
    word(&pinned).store(9, SeqCst);
    assert_eq!(cpu.load(&copy, moved.address()), Ok(8));
    drop(pinned);
    space.unmap(&cpu, Pages::new(moved, 1)).unwrap();
    cpu.leave(&copy);
}

fn a_fork_copies_pinned_pages<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let free = machine.free_frames();
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let all = Pages::new(START, 4);
    space.map(&cpu, all, WRITE).unwrap();
    all.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
    let pinned = [START, START + 2].map(|page| space.pin(&cpu, page, WRITE).unwrap());
    let copy = space.fork(&cpu).unwrap();
    for pinned in &pinned {
        word(pinned).store(1, SeqCst);
    }
    for page in all.iter() {
        let expected = if page == START || page == START + 2 { 1 } else { page.0 };
        assert_eq!(cpu.load(&space, page.address()), Ok(expected));
        assert_eq!(cpu.load(&copy, page.address()), Ok(page.0));
        // The program's store does not move the page to another frame.
        cpu.store(&space, page.address(), 2).unwrap();
        assert_eq!(cpu.load(&copy, page.address()), Ok(page.0));
    }
    assert_eq!(pinned.each_ref().map(|pinned| word(pinned).load(SeqCst)), [2, 2]);
    // The copy has its own pages, which are not pinned.
    copy.unmap(&cpu, all).unwrap();
    drop(pinned);
    let grandchild = copy.fork(&cpu).unwrap().fork(&cpu).unwrap();
    for space in [&space, &copy, &grandchild] {
        space.audit(&cpu);
        cpu.leave(space);
    }
    drop((space, copy, grandchild, cpu));
    assert_eq!(machine.free_frames(), free);
}

fn pinning_breaks_sharing<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let cpu = machine.cpu(0);
    let object = Object::new(&cpu, 2).unwrap();
    for protection in [WRITE, READ] {
        let space = Space::new(&cpu).unwrap();
        let (one, private) = (Pages::new(START, 1), Pages::new(Page(7), 2));
        space.map(&cpu, one, WRITE).unwrap();
        cpu.store(&space, START.address(), 1).unwrap();
        space.map_object(&cpu, private, &object, 0, WRITE, Sharing::Private).unwrap();
        let copy = space.fork(&cpu).unwrap();
        space.protect(&cpu, one, protection).unwrap();
        // The device reads.
        let pinned = space.pin(&cpu, START, READ).unwrap();
        let other = space.pin(&cpu, private.start, READ).unwrap();
        assert_eq!(word(&pinned).load(SeqCst), 1);
        space.protect(&cpu, one, WRITE).unwrap();
        cpu.store(&space, START.address(), 2).unwrap();
        cpu.store(&space, private.start.address(), 3).unwrap();
        assert_eq!((word(&pinned).load(SeqCst), word(&other).load(SeqCst)), (2, 3));
        assert_eq!(cpu.load(&copy, START.address()), Ok(1));
        assert_eq!(cpu.load(&copy, private.start.address()), Ok(0));
        drop((pinned, other));
        cpu.leave(&space);
        cpu.leave(&copy);
    }
}

fn pinned_pages_are_dirty<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let one = Pages::new(START, 1);
    space.map(&cpu, one, WRITE).unwrap();
    let pinned = space.pin(&cpu, START, WRITE).unwrap();
    let dirty = || {
        let mut found = None;
        space.usage(&cpu, one, Usage::all(), |_, usage| found = Some(usage)).unwrap();
        found.unwrap().contains(Usage::DIRTY)
    };
    assert!(dirty() && dirty());
    word(&pinned).store(1, SeqCst);
    drop(pinned);
    assert!(dirty(), "the write of the device is not lost");
    assert!(!dirty());
}

/// A pager that records the pages that it stores, and provides pages of zeros.
struct Store(Arc<Mutex<Vec<(u64, u8)>>>);

impl Pager for Store {
    fn page_in(&self, _index: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        page.fill(0);
        Ok(())
    }

    fn page_out(&self, index: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        self.0.lock().unwrap().push((index, page[0]));
        Ok(())
    }
}

fn an_object_keeps_pinned_pages<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let free = machine.free_frames();
    let cpu = machine.cpu(0);
    let stored = Arc::default();
    let object = Object::with_pager(&cpu, 4, 4, Box::new(Store(Arc::clone(&stored)))).unwrap();
    let space = Space::new(&cpu).unwrap();
    let all = Pages::new(START, 4);
    space.map_object(&cpu, all, &object, 0, WRITE, Sharing::Shared).unwrap();
    all.iter().for_each(|page| cpu.store(&space, page.address(), page - START + 1).unwrap());
    let pinned = space.pin(&cpu, START + 1, WRITE).unwrap();
    assert_eq!(object.write_back(&cpu, 0..4), Ok(3));
    assert_eq!(object.evict(&cpu, 0..2), Ok(1));
    assert_eq!(object.discard(&cpu, 1..4), 2);
    assert_eq!(object.resize(&cpu, 1), Err(ResizeError::Pinned));
    assert_eq!((object.pages(), object.resident()), (4, 1));
    assert_eq!(cpu.load(&space, (START + 1).address()), Ok(2));
    word(&pinned).store(9, SeqCst);
    // The pinned page outlives first its mapping, and then the `Object`.
    space.unmap(&cpu, all).unwrap();
    assert_eq!(object.evict(&cpu, 0..4), Ok(0));
    drop(pinned);
    assert_eq!(object.write_back(&cpu, 0..4), Ok(1));
    assert_eq!(*stored.lock().unwrap(), [(0, 1), (2, 3), (3, 4), (1, 9)]);
    space.map_object(&cpu, all, &object, 0, WRITE, Sharing::Shared).unwrap();
    let pinned = space.pin(&cpu, START + 1, WRITE).unwrap();
    drop(object);
    space.unmap(&cpu, all).unwrap();
    assert_eq!(word(&pinned).load(SeqCst), 9);
    drop(pinned);
    cpu.leave(&space);
    drop((space, cpu));
    assert_eq!(machine.free_frames(), free);
}

fn invalid_pins_are_reported<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(128, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, Pages::new(START, 1), READ).unwrap();
    space.map(&cpu, Pages::new(START + 1, 1), Protection::GUARD).unwrap();
    space.map(&cpu, Pages::new(START + 2, 1), Protection::NONE).unwrap();
    let frame = knee_vm::Frame(5000);
    // SAFETY: nothing accesses the frame.
    let device = unsafe { Object::of_device(&cpu, frame, 1, MemoryType::Device, READ) }.unwrap();
    space.map_object(&cpu, Pages::new(START + 3, 1), &device, 0, READ, Sharing::Shared).unwrap();
    let pin = |page, access| space.pin(&cpu, page, access).map(drop);
    assert_eq!(pin(START, WRITE), Err(Fault::AccessDenied));
    assert_eq!(pin(START + 1, READ), Err(Fault::Guard));
    assert_eq!(pin(START + 2, Protection::NONE), Err(Fault::AccessDenied));
    assert_eq!(pin(START + 3, READ), Err(Fault::Device));
    assert_eq!(pin(START + 4, READ), Err(Fault::Unmapped));
    assert_eq!(pin(space.pages().end, READ), Err(Fault::Unmapped));
    assert_eq!(pin(START, READ), Ok(()));
    space.unmap(&cpu, Pages::new(START, 4)).unwrap();

    space.map(&cpu, Pages::new(START, 1), WRITE).unwrap();
    let pinned = space.pin(&cpu, START, WRITE).unwrap();
    cpu.leave(&space);
    let dropped = panic::catch_unwind(AssertUnwindSafe(|| drop(space)));
    let message = *dropped.unwrap_err().downcast::<String>().unwrap();
    assert_eq!(message, "a space is dropped, and 1 of its pages are pinned");
    // The device may still access the frame.
    word(&pinned).store(1, SeqCst);
}

/// In each round, pins one of `pages`, writes the round's number to the page, waits for a moment, and calls
/// `check`. Skips pages that cannot be pinned at the moment.
fn write_as_a_device<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &Space<'m, Hosted<A>>,
    pages: Pages,
    rounds: u64,
    check: impl Fn(Page, &PinnedPage<'m, Hosted<A>>, u64),
) {
    let mut random = Random::new(0);
    for round in 1..=rounds {
        let page = pages.start + random.below(pages.count());
        let Ok(pinned) = space.pin(cpu, page, WRITE) else { continue };
        word(&pinned).store(round, SeqCst);
        for _ in 0..random.below(4) {
            cpu.handle_ipis();
            thread::yield_now();
        }
        check(page, &pinned, round);
    }
}

/// Ends the other threads, even if this one panics.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// One thread acts as a device that writes to pinned pages. Meanwhile, CPUs unmap, replace, discard and
/// protect pages, and fork the space. As long as a page is pinned, it keeps the value that the device has
/// written to it.
fn every_write_of_a_device_arrives<A: Architecture>() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 1500 };
    const PAGES: u64 = 4;
    let machine = Hosted::<A>::with_architecture(1024, 3);
    let space = Space::new(&machine.cpu(0)).unwrap();
    let all = Pages::new(START, PAGES);
    space.map(&machine.cpu(0), all, WRITE).unwrap();
    let (space, is_over) = (&space, AtomicBool::new(false));
    thread::scope(|scope| {
        for number in [1, 2] {
            let (machine, is_over) = (&machine, &is_over);
            scope.spawn(move || {
                let cpu = machine.cpu(number);
                let mut random = Random::new(number as u64);
                while !is_over.load(Relaxed) {
                    let pages = Pages::new(START + random.below(PAGES), 1);
                    let result = match random.below(8) {
                        0 => space.replace(&cpu, pages, WRITE),
                        1 => space.discard(&cpu, pages),
                        2 => space.unmap(&cpu, pages).and_then(|()| {
                            match space.map(&cpu, pages, WRITE) {
                                Err(MapError::Occupied) => Ok(()),
                                other => other,
                            }
                        }),
                        3 => space.fork(&cpu).map(|copy| {
                            for page in all.iter() {
                                _ = cpu.load(&copy, page.address());
                                _ = cpu.store(&copy, page.address(), 0);
                            }
                            cpu.leave(&copy);
                        }),
                        4 => space
                            .protect(&cpu, pages, READ)
                            .and_then(|()| space.protect(&cpu, pages, WRITE)),
                        _ => {
                            _ = cpu.load(space, pages.start.address());
                            Ok(())
                        }
                    };
                    assert!(matches!(result, Ok(()) | Err(MapError::Pinned | MapError::Unmapped)));
                }
                cpu.leave(space);
            });
        }
        let _over = Over(&is_over);
        let cpu = machine.cpu(0);
        write_as_a_device(&cpu, space, all, ROUNDS, |page, pinned, round| {
            assert_eq!(space.frame(&cpu, page), Some(pinned.frame()), "the page has moved");
            let found = cpu.load(space, page.address());
            let is_right = matches!(found, Ok(value) if value == round);
            assert!(is_right, "the device wrote {round}, and the program found {found:?}");
        });
        cpu.leave(space);
    });
    let cpu = machine.cpu(0);
    space.unmap(&cpu, all).unwrap();
    cpu.leave(space);
}

/// As above, but the pages belong to an object, which other CPUs evict, truncate and map.
fn an_object_is_evicted_and_truncated_beside_a_device<A: Architecture>() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 1500 };
    const PAGES: u64 = 4;
    let machine = Hosted::<A>::with_architecture(1024, 2);
    let stored = Arc::default();
    let object =
        Object::with_pager(&machine.cpu(0), PAGES, PAGES, Box::new(Store(Arc::clone(&stored))))
            .unwrap();
    let space = Space::new(&machine.cpu(0)).unwrap();
    let all = Pages::new(START, PAGES);
    space.map_object(&machine.cpu(0), all, &object, 0, WRITE, Sharing::Shared).unwrap();
    let (space, object, is_over) = (&space, &object, AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let cpu = machine.cpu(1);
            let mut random = Random::new(1);
            while !is_over.load(Relaxed) {
                let index = random.below(PAGES);
                match random.below(5) {
                    0 => _ = object.evict(&cpu, index..index + 1).unwrap(),
                    1 => _ = object.discard(&cpu, index..PAGES),
                    2 => _ = object.write_back(&cpu, 0..PAGES).unwrap(),
                    3 => {
                        if object.resize(&cpu, index).is_ok() {
                            assert!(object.resident() <= index, "a page is beyond the end");
                        }
                        object.resize(&cpu, PAGES).unwrap();
                    }
                    _ => _ = cpu.load(space, (START + index).address()),
                }
            }
            cpu.leave(space);
        });
        let _over = Over(&is_over);
        let cpu = machine.cpu(0);
        write_as_a_device(&cpu, space, all, ROUNDS, |page, pinned, round| {
            assert_eq!(word(pinned).load(SeqCst), round, "the frame has another user");
            // The pin makes a `resize` that would cut off this page fail. But until that `resize` fails,
            // accesses to the pages that it would cut off may fault.
            loop {
                match cpu.load(space, page.address()) {
                    Err(Fault::BeyondEnd) => cpu.handle_ipis(),
                    found => break assert_eq!(found, Ok(round)),
                }
            }
        });
        cpu.leave(space);
    });
}
