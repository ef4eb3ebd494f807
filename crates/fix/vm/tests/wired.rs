//! Wired memory, as the section "Wired memory" of docs/vm.md describes it.

#[path = "architectures/each.rs"]
mod each;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use each::on_each_architecture;
use knee_models::disk::Disk;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, Frame, MapError, Object, PAGE, Page, Pager, PagerError, Pages, Protection, ResizeError,
    Sharing, Space,
};

const WRITE: Protection = Protection::READ_WRITE;
/// Anonymous memory, across the end of a leaf table.
const ANONYMOUS: Pages = Pages::new(Page(511), 2);
/// Private and shared mappings of an object.
const PRIVATE: Pages = Pages::new(Page(513), 2);
const SHARED: Pages = Pages::new(Page(515), 2);
const ALL: Pages = Pages { start: ANONYMOUS.start, end: SHARED.end };

on_each_architecture!(
    populated_private_pages_stay_present_while_nobody_reclaims_them,
    a_page_that_was_not_copied_leaves_with_the_page_of_the_object,
    a_pin_keeps_a_page_present_and_in_its_frame,
    a_space_with_wired_pages_ends_after_its_pins,
);

/// A pager that counts the pages that it reads.
#[derive(Default)]
struct File(Arc<AtomicU64>);

impl Pager for File {
    fn page_in(&self, _: u64, _: &mut [u8; PAGE]) -> Result<(), PagerError> {
        self.0.fetch_add(1, SeqCst);
        Ok(())
    }

    fn page_out(&self, _: u64, _: &[u8; PAGE]) -> Result<(), PagerError> {
        Ok(())
    }
}

type On<'m, A> = Space<'m, Hosted<A>>;

/// Passes to `with` a CPU, a space in which `ALL` is mapped and populated, the object, and the number of pages
/// that the object has read.
fn with_space<A: Architecture>(
    with: impl for<'m> FnOnce(&Processor<'m, A>, On<'m, A>, &Object<'m, Hosted<A>>, &AtomicU64),
) {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let free = machine.free_frames();
    {
        let (cpu, reads) = (machine.cpu(0), Arc::default());
        let object = Object::with_pager(&cpu, 4, 4, Box::new(File(Arc::clone(&reads)))).unwrap();
        let space = Space::with_swap(&cpu, None, Disk::default().swap(32)).unwrap();
        space.map(&cpu, ANONYMOUS, WRITE).unwrap();
        space.map_object(&cpu, PRIVATE, &object, 0, WRITE, Sharing::Private).unwrap();
        space.map_object(&cpu, SHARED, &object, 2, WRITE, Sharing::Shared).unwrap();
        space.populate(&cpu, ALL).unwrap();
        assert_eq!((space.resident(), reads.load(SeqCst)), (ALL.count(), 4));
        with(&cpu, space, &object, &reads);
    }
    assert_eq!(machine.free_frames(), free);
}

fn frames<'m, A: Architecture>(
    cpu: &Processor<'m, A>,
    space: &On<'m, A>,
    pages: Pages,
) -> Vec<Option<Frame>> {
    pages.iter().map(|page| space.frame(cpu, page)).collect()
}

fn populated_private_pages_stay_present_while_nobody_reclaims_them<A: Architecture>() {
    with_space::<A>(|cpu, space, object, _| {
        // A store makes a private copy.
        PRIVATE.iter().for_each(|page| cpu.store(&space, page.address(), 1).unwrap());
        let private = Pages { start: ANONYMOUS.start, end: PRIVATE.end };
        let before = frames(cpu, &space, private);
        assert!(before.iter().all(Option::is_some));

        // The object gives up its pages, and other spaces are reclaimed.
        assert_eq!(object.evict(cpu, 0..4), Ok(4));
        let copy = space.fork(cpu).unwrap();
        assert_eq!(copy.swap_out(cpu, ALL), Ok(0));
        assert_eq!(copy.reclaim(cpu, 100), Ok(0));
        cpu.leave(&copy);
        drop(copy);
        // Memory runs out.
        let hog = Space::new(cpu).unwrap();
        hog.map(cpu, Pages::new(Page(0x1000), 400), WRITE).unwrap();
        let result = hog.populate(cpu, Pages::new(Page(0x1000), 400));
        assert_eq!(result, Err(Fault::OutOfMemory));
        drop(hog);
        assert_eq!(frames(cpu, &space, private), before);

        assert_eq!(space.swap_out(cpu, ALL), Ok(4));
        assert!(frames(cpu, &space, private).iter().all(Option::is_none));
        cpu.leave(&space);
    });
}

fn a_page_that_was_not_copied_leaves_with_the_page_of_the_object<A: Architecture>() {
    with_space::<A>(|cpu, space, object, reads| {
        cpu.store(&space, PRIVATE.start.address(), 1).unwrap();
        assert_eq!(object.evict(cpu, 0..4), Ok(4));
        assert!(space.frame(cpu, PRIVATE.start).is_some(), "this page is a copy");
        assert_eq!(space.frame(cpu, PRIVATE.start + 1), None);
        assert_eq!(frames(cpu, &space, SHARED), [None; 2]);
        space.populate(cpu, ALL).unwrap();
        assert_eq!(reads.load(SeqCst), 4 + 3);
        cpu.leave(&space);
    });
}

fn a_pin_keeps_a_page_present_and_in_its_frame<A: Architecture>() {
    with_space::<A>(|cpu, space, object, reads| {
        ALL.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
        let pins: Vec<_> =
            ALL.iter().map(|page| space.pin(cpu, page, Protection::READ).unwrap()).collect();
        let wired: Vec<_> = pins.iter().map(|pin| Some(pin.frame())).collect();
        let stays = |after: &str| {
            assert_eq!(frames(cpu, &space, ALL), wired, "after {after}");
            for page in ALL.iter() {
                assert_eq!(cpu.load(&space, page.address()), Ok(page.0), "after {after}");
            }
        };
        assert_eq!((space.reclaim(cpu, 100), space.reclaim(cpu, 100)), (Ok(0), Ok(0)));
        stays("reclaim");
        assert_eq!(space.swap_out(cpu, ALL), Ok(0));
        stays("swap_out");
        assert_eq!(object.evict(cpu, 2..4), Ok(0));
        assert_eq!(object.discard(cpu, 2..4), 0);
        assert_eq!(object.resize(cpu, 0), Err(ResizeError::Pinned));
        stays("the object's operations");

        // The copy has private pages of its own, which are present and not pinned.
        let copy = space.fork(cpu).unwrap();
        stays("fork");
        let private = Pages { start: ANONYMOUS.start, end: PRIVATE.end };
        let own = frames(cpu, &copy, private);
        assert!(own.iter().all(|frame| frame.is_some() && !wired.contains(frame)));
        assert_eq!(frames(cpu, &copy, SHARED), wired[4..]);
        for page in private.iter() {
            cpu.store(&space, page.address(), page.0).unwrap();
            cpu.store(&copy, page.address(), 0).unwrap();
        }
        stays("stores to both spaces");
        assert_eq!(copy.swap_out(cpu, ALL), Ok(4));
        stays("the copy was swapped out");
        copy.unmap(cpu, ALL).unwrap();
        cpu.leave(&copy);
        assert_eq!(reads.load(SeqCst), 4, "no wired page was read again");
        drop(pins);
        cpu.leave(&space);
    });
}

/// `munmap` and `exit` first unlock the pages.
fn a_space_with_wired_pages_ends_after_its_pins<A: Architecture>() {
    with_space::<A>(|cpu, space, object, _| {
        let mut pins: Vec<_> =
            ALL.iter().map(|page| space.pin(cpu, page, Protection::READ).unwrap()).collect();
        for pages in [ANONYMOUS, PRIVATE] {
            assert_eq!(space.unmap(cpu, pages), Err(MapError::Pinned));
            drop(pins.drain(..2));
            assert_eq!(space.unmap(cpu, pages), Ok(()));
        }
        // The object keeps its pinned pages, even if no space maps them.
        assert_eq!(space.unmap(cpu, SHARED), Ok(()));
        assert_eq!(object.evict(cpu, 2..4), Ok(0));
        drop(pins);
        assert_eq!(object.evict(cpu, 2..4), Ok(2));
        cpu.leave(&space);
    });
}
