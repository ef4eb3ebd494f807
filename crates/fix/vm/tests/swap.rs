//! Swapping private pages out and in.

#[path = "architectures/each.rs"]
mod each;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};

use each::on_each_architecture;
use knee_models::cpus::on_each_cpu;
use knee_models::disk::Disk;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, MapError, Object, PAGE, Page, Pager, PagerError, Pages, Protection, Quota, Sharing,
    Space, Swap, Usage,
};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;
/// Two pages before the end of a leaf table, so that `ALL` spans this end.
const START: Page = Page(510);
const ALL: Pages = Pages::new(START, 4);

on_each_architecture!(
    a_swapped_page_comes_back_with_its_content,
    reclaim_spares_pages_that_were_accessed_since_its_last_round,
    reclaim_continues_where_it_stopped,
    consecutive_pages_get_consecutive_slots,
    discarded_and_replaced_pages_do_not_come_back,
    a_fork_and_its_original_both_have_the_swapped_pages,
    a_swapped_page_moves_with_its_mapping,
    a_swapped_page_has_the_latest_protection,
    shared_pinned_and_object_pages_stay_in_memory,
    private_copies_of_an_object_are_swapped,
    a_page_that_comes_back_is_accessed_and_dirty,
    swapped_pages_stay_mapped_and_charged,
    the_kernel_accesses_swapped_pages,
    a_page_that_the_device_rejects_stays_in_memory,
    a_page_that_the_device_cannot_read_is_read_again_later,
    reclaim_stops_when_all_slots_are_in_use,
    a_device_that_panics_leaves_the_pages_where_they_are,
    slots_are_reserved_only_for_pages_that_will_be_written,
    frames_that_reclaim_frees_can_be_allocated_by_all_cpus,
    tables_with_swapped_pages_are_not_pruned,
    words_survive_concurrent_swapping,
);

type On<'m, A> = Space<'m, Hosted<A>>;

/// Passes a CPU and a space to `with`. The space maps `ALL`, and each page contains its own number.
fn with_space<A: Architecture>(
    slots: u64,
    with: impl for<'m> FnOnce(&Processor<'m, A>, &On<'m, A>, &Arc<Swap>, &Disk),
) {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let all = machine.free_frames();
    {
        let (cpu, disk) = (machine.cpu(0), Disk::default());
        let swap = disk.swap(slots);
        let space = Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap();
        space.map(&cpu, ALL, WRITE).unwrap();
        ALL.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
        with(&cpu, &space, &swap, &disk);
        space.audit(&cpu);
        drop(space);
        assert_eq!(swap.used(), 0, "all slots are free");
    }
    assert_eq!(machine.free_frames(), all, "all frames are free");
}

fn has_content<'m, A: Architecture>(cpu: &Processor<'m, A>, space: &On<'m, A>) {
    for page in ALL.iter() {
        assert_eq!(cpu.load(space, page.address()), Ok(page.0), "{page:?}");
    }
}

fn a_swapped_page_comes_back_with_its_content<A: Architecture>() {
    with_space::<A>(8, |cpu, space, swap, _| {
        assert_eq!(space.swap_out(cpu, ALL), Ok(4));
        assert_eq!((space.resident(), swap.used(), swap.capacity()), (0, 4, 8));
        assert_eq!(ALL.iter().map(|page| space.frame(cpu, page)).collect::<Vec<_>>(), [None; 4]);
        assert_eq!(cpu.load(space, START.address()), Ok(START.0));
        assert_eq!((space.resident(), swap.used()), (1, 3));
        has_content(cpu, space);
        assert_eq!((space.resident(), swap.used()), (4, 0));
        // Pages without content are not swapped.
        space.discard(cpu, ALL).unwrap();
        assert_eq!(space.swap_out(cpu, ALL), Ok(0));
        let end = space.pages().end;
        assert_eq!(space.swap_out(cpu, Pages { start: end - 1, end: Page(u64::MAX) }), Ok(0));
        assert_eq!(space.swap_out(cpu, Pages { start: Page(9), end: Page(3) }), Ok(0));
    });
}

fn reclaim_spares_pages_that_were_accessed_since_its_last_round<A: Architecture>() {
    with_space::<A>(8, |cpu, space, _, _| {
        // The accessed bits are set, so the first round only clears them.
        assert_eq!(space.reclaim(cpu, 1), Ok(1));
        assert_eq!(space.frame(cpu, START), None);
        assert_eq!(cpu.load(space, (START + 1).address()), Ok(START.0 + 1));
        assert_eq!(cpu.load(space, (START + 3).address()), Ok(START.0 + 3));
        assert_eq!(space.reclaim(cpu, 1), Ok(1));
        assert_eq!(space.frame(cpu, START + 2), None);
        assert_eq!(space.resident(), 2);
        assert_eq!(space.reclaim(cpu, 9), Ok(2));
        assert_eq!(space.reclaim(cpu, 9), Ok(0));
        has_content(cpu, space);
    });
}

fn reclaim_continues_where_it_stopped<A: Architecture>() {
    with_space::<A>(8, |cpu, space, _, _| {
        let clear = || space.usage(cpu, ALL, Usage::ACCESSED, |_, _| ()).unwrap();
        clear();
        let mut gone = Vec::new();
        for _ in 0..6 {
            assert_eq!(space.reclaim(cpu, 1), Ok(1));
            let page = ALL.iter().find(|page| space.frame(cpu, *page).is_none()).unwrap();
            gone.push(page - START);
            cpu.load(space, page.address()).unwrap();
            clear();
        }
        assert_eq!(gone, [0, 1, 2, 3, 0, 1]);
    });
}

fn consecutive_pages_get_consecutive_slots<A: Architecture>() {
    with_space::<A>(200, |cpu, space, _, disk| {
        let pages = Pages::new(Page(2000), 100);
        space.map(cpu, pages, WRITE).unwrap();
        pages.iter().for_each(|page| cpu.store(space, page.address(), page.0).unwrap());
        assert_eq!(space.swap_out(cpu, pages), Ok(100));
        assert!(disk.words().into_iter().eq((0..100).map(|slot| (slot, 2000 + slot))));
    });
}

fn discarded_and_replaced_pages_do_not_come_back<A: Architecture>() {
    with_space::<A>(4, |cpu, space, swap, _| {
        assert_eq!(space.swap_out(cpu, ALL), Ok(4));
        space.discard(cpu, Pages::new(START, 2)).unwrap();
        assert_eq!(swap.used(), 2);
        assert_eq!(cpu.load(space, START.address()), Ok(0));
        space.replace(cpu, Pages::new(START + 2, 1), WRITE).unwrap();
        assert_eq!(cpu.load(space, (START + 2).address()), Ok(0));
        space.unmap(cpu, Pages::new(START + 3, 1)).unwrap();
        assert_eq!(swap.used(), 0);
        assert_eq!(cpu.load(space, (START + 3).address()), Err(Fault::Unmapped));
        space.map(cpu, Pages::new(START + 3, 1), WRITE).unwrap();
        assert_eq!(cpu.load(space, (START + 3).address()), Ok(0));
    });
}

fn a_fork_and_its_original_both_have_the_swapped_pages<A: Architecture>() {
    with_space::<A>(5, |cpu, space, swap, _| {
        assert_eq!(space.swap_out(cpu, Pages::new(START, 3)), Ok(3));
        let copy = space.fork(cpu).unwrap();
        assert_eq!((copy.resident(), swap.used()), (1, 3));
        has_content(cpu, space);
        assert_eq!(swap.used(), 3, "the copy still uses the slots");
        ALL.iter().for_each(|page| cpu.store(space, page.address(), 9).unwrap());
        // The copy still uses three of the five slots, so only two more pages can be swapped out.
        assert_eq!(space.swap_out(cpu, ALL), Ok(2));
        assert_eq!(swap.used(), 5);
        has_content(cpu, &copy);
        // A fork of the copy still has the content after the copy is dropped.
        assert_eq!(copy.swap_out(cpu, Pages::new(START, 2)), Ok(2));
        let last = copy.fork(cpu).unwrap();
        drop(copy);
        assert_eq!(cpu.load(space, START.address()), Ok(9));
        has_content(cpu, &last);
    });
}

fn a_swapped_page_moves_with_its_mapping<A: Architecture>() {
    with_space::<A>(4, |cpu, space, swap, _| {
        assert_eq!(space.swap_out(cpu, Pages::new(START, 3)), Ok(3));
        let new = Pages::new(Page(90_000), 6);
        space.remap(cpu, ALL, new).unwrap();
        assert_eq!(swap.used(), 3);
        for (page, old) in new.iter().zip(ALL.iter()) {
            assert_eq!(cpu.load(space, page.address()), Ok(old.0));
        }
        assert_eq!(cpu.load(space, (new.start + 4).address()), Ok(0), "an added page is zero");
        assert_eq!(cpu.load(space, START.address()), Err(Fault::Unmapped));
        assert_eq!(space.swap_out(cpu, new), Ok(4));
        space.remap(cpu, new, Pages::new(new.start, 1)).unwrap();
        assert_eq!(swap.used(), 1);
    });
}

fn a_swapped_page_has_the_latest_protection<A: Architecture>() {
    with_space::<A>(4, |cpu, space, _, _| {
        space.swap_out(cpu, ALL).unwrap();
        space.protect(cpu, ALL, READ).unwrap();
        assert_eq!(cpu.store(space, START.address(), 1), Err(Fault::AccessDenied));
        assert_eq!(cpu.load(space, START.address()), Ok(START.0));
        assert_eq!(cpu.store(space, START.address(), 1), Err(Fault::AccessDenied));
        // A resident page that allows no access can be swapped out as well.
        space.protect(cpu, ALL, Protection::NONE).unwrap();
        assert_eq!(space.swap_out(cpu, ALL), Ok(1));
        assert_eq!(cpu.load(space, START.address()), Err(Fault::AccessDenied));
        space.protect(cpu, ALL, WRITE | Protection::EXECUTE).unwrap();
        has_content(cpu, space);
        cpu.store(space, START.address(), 1).unwrap();
        assert_eq!(cpu.load(space, START.address()), Ok(1));
    });
}

fn shared_pinned_and_object_pages_stay_in_memory<A: Architecture>() {
    with_space::<A>(8, |cpu, space, _, _| {
        let object = Object::new(cpu, 1).unwrap();
        for (page, sharing) in [(1000, Sharing::Shared), (1001, Sharing::Private)] {
            let pages = Pages::new(Page(page), 1);
            space.map_object(cpu, pages, &object, 0, WRITE, sharing).unwrap();
            cpu.load(space, pages.start.address()).unwrap();
        }
        let pin = space.pin(cpu, START, READ).unwrap();
        let copy = space.fork(cpu).unwrap();
        // The store makes a copy of the page, so that the space shares only two of its pages.
        cpu.store(space, (START + 3).address(), START.0 + 3).unwrap();
        assert_eq!(space.swap_out(cpu, space.pages()), Ok(1));
        assert!(space.frame(cpu, START + 3).is_none());
        drop((pin, copy));
        assert_eq!(space.reclaim(cpu, 9), Ok(3));
        assert_eq!(space.resident(), 2);
        has_content(cpu, space);
    });
}

fn private_copies_of_an_object_are_swapped<A: Architecture>() {
    with_space::<A>(8, |cpu, space, _, _| {
        let (object, pages) = (Object::new(cpu, 2).unwrap(), Pages::new(Page(1000), 2));
        space.map_object(cpu, pages, &object, 0, WRITE, Sharing::Private).unwrap();
        cpu.store(space, Page(1000).address(), 7).unwrap();
        assert_eq!(space.swap_out(cpu, pages), Ok(1));
        // The object is truncated, but the private copy stays.
        object.resize(cpu, 0).unwrap();
        assert_eq!(cpu.load(space, Page(1000).address()), Ok(7));
        assert_eq!(cpu.load(space, Page(1001).address()), Err(Fault::BeyondEnd));
        object.resize(cpu, 2).unwrap();
        assert_eq!(space.swap_out(cpu, pages), Ok(1));
        space.discard(cpu, pages).unwrap();
        assert_eq!(cpu.load(space, Page(1000).address()), Ok(0), "this is the object's page");
    });
}

fn a_page_that_comes_back_is_accessed_and_dirty<A: Architecture>() {
    with_space::<A>(8, |cpu, space, _, _| {
        let usage = |clear| {
            let mut found = Vec::new();
            let with = |page, usage| found.push((page - START, usage));
            space.usage(cpu, ALL, clear, with).unwrap();
            found
        };
        usage(Usage::all());
        assert_eq!(space.swap_out(cpu, ALL), Ok(4));
        assert_eq!(usage(Usage::empty()), [0, 1, 2, 3].map(|index| (index, Usage::SWAPPED)));
        assert_eq!(cpu.load(space, START.address()), Ok(START.0));
        assert_eq!(usage(Usage::empty())[0], (0, Usage::ACCESSED | Usage::DIRTY));
    });
}

fn swapped_pages_stay_mapped_and_charged<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let (cpu, disk) = (machine.cpu(0), Disk::default());
    let quota = Arc::new(Quota::new(&machine, 5).unwrap());
    let space = Space::with_swap(&cpu, Some(Arc::clone(&quota)), disk.swap(4)).unwrap();
    space.map(&cpu, ALL, WRITE).unwrap();
    ALL.iter().for_each(|page| cpu.store(&space, page.address(), 1).unwrap());
    let listed: Vec<_> = space.mappings(&cpu).collect();
    assert_eq!(space.swap_out(&cpu, Pages::new(START + 1, 2)), Ok(2));
    assert_eq!(quota.used(), 4);
    assert_eq!(space.mappings(&cpu).collect::<Vec<_>>(), listed);
    let swapped = Pages::new(START + 1, 1);
    assert_eq!(space.map(&cpu, swapped, WRITE), Err(MapError::Occupied));
    let more = Pages::new(Page(9000), 2);
    assert_eq!(space.map(&cpu, more, WRITE), Err(MapError::QuotaExceeded));
    space.unmap(&cpu, ALL).unwrap();
    assert_eq!(quota.used(), 0);
}

fn the_kernel_accesses_swapped_pages<A: Architecture>() {
    with_space::<A>(8, |cpu, space, _, _| {
        space.swap_out(cpu, ALL).unwrap();
        let mut bytes = [0; 8];
        space.read(cpu, START.address(), &mut bytes).unwrap();
        assert_eq!(u64::from_ne_bytes(bytes), START.0);
        space.write(cpu, (START + 1).address() + 8, &[1; 8]).unwrap();
        space.populate(cpu, Pages::new(START + 2, 1)).unwrap();
        let pinned = space.pin(cpu, START + 3, WRITE).unwrap();
        assert_eq!(space.resident(), 4);
        assert_eq!(space.swap_out(cpu, ALL), Ok(3));
        assert_eq!(Some(pinned.frame()), space.frame(cpu, START + 3));
        drop(pinned);
        has_content(cpu, space);
    });
}

fn a_page_that_the_device_rejects_stays_in_memory<A: Architecture>() {
    with_space::<A>(8, |cpu, space, swap, disk| {
        let frames = || ALL.iter().map(|page| space.frame(cpu, page)).collect::<Vec<_>>();
        let before = frames();
        disk.fail(2);
        assert_eq!(space.swap_out(cpu, ALL), Err(PagerError::Failed));
        // The device rejected the two pages in the first leaf table, so the two pages in the second were not
        // tried.
        assert_eq!((frames(), swap.used()), (before, 0));
        disk.fail(1);
        assert_eq!(space.swap_out(cpu, ALL), Err(PagerError::Failed));
        assert_eq!((space.resident(), swap.used()), (3, 1));
        has_content(cpu, space);
        disk.fail(u64::MAX);
        assert_eq!(space.reclaim(cpu, 4), Err(PagerError::Failed));
        has_content(cpu, space);
        disk.fail(0);
        assert_eq!(space.reclaim(cpu, 4), Ok(4));
        has_content(cpu, space);
    });
}

fn a_page_that_the_device_cannot_read_is_read_again_later<A: Architecture>() {
    with_space::<A>(8, |cpu, space, swap, disk| {
        space.swap_out(cpu, ALL).unwrap();
        disk.fail(1);
        assert_eq!(cpu.load(space, START.address()), Err(Fault::PagerFailed));
        assert_eq!((space.resident(), swap.used()), (0, 4));
        has_content(cpu, space);
    });
}

fn reclaim_stops_when_all_slots_are_in_use<A: Architecture>() {
    with_space::<A>(3, |cpu, space, swap, _| {
        assert_eq!(space.reclaim(cpu, 4), Ok(3));
        assert_eq!(space.reclaim(cpu, 1), Ok(0));
        assert_eq!((space.resident(), swap.used()), (1, 3));
        has_content(cpu, space);
    });
    with_space::<A>(0, |cpu, space, _, _| assert_eq!(space.reclaim(cpu, 4), Ok(0)));
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    space.map(&cpu, ALL, WRITE).unwrap();
    space.populate(&cpu, ALL).unwrap();
    assert_eq!(space.reclaim(&cpu, 4), Ok(0), "the space has no swap area");
}

/// A device that panics in one of the next transfers.
struct Panicking {
    disk: Disk,
    /// The number of transfers before the one that panics.
    before: Arc<AtomicU64>,
}

impl Panicking {
    fn check(&self) {
        if self.before.fetch_sub(1, SeqCst) == 0 {
            resume_unwind(Box::new("the device panics"));
        }
    }
}

impl Pager for Panicking {
    fn page_in(&self, slot: u64, page: &mut [u8; PAGE]) -> Result<(), PagerError> {
        self.check();
        self.disk.page_in(slot, page)
    }

    fn page_out(&self, slot: u64, page: &[u8; PAGE]) -> Result<(), PagerError> {
        self.check();
        self.disk.page_out(slot, page)
    }
}

fn a_device_that_panics_leaves_the_pages_where_they_are<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(256, 1);
    let all = machine.free_frames();
    let before = Arc::new(AtomicU64::new(u64::MAX));
    let device = Panicking { disk: Disk::default(), before: Arc::clone(&before) };
    let swap = Arc::new(Swap::new(8, Box::new(device)).unwrap());
    {
        let cpu = machine.cpu(0);
        let space = Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap();
        space.map(&cpu, ALL, WRITE).unwrap();
        ALL.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
        let panics = |transfers, operation: &dyn Fn()| {
            before.store(transfers, SeqCst);
            assert!(catch_unwind(AssertUnwindSafe(operation)).is_err());
            before.store(u64::MAX, SeqCst);
            space.audit(&cpu);
        };
        for transfers in 0..4 {
            panics(transfers, &|| _ = space.swap_out(&cpu, ALL));
            assert_eq!((space.resident(), swap.used()), (4 - transfers, transfers));
            // If the transfer of a slot had never ended, `fault` would fail with `Fault::Retry`.
            ALL.iter().for_each(|page| assert_eq!(space.fault(&cpu, page, READ), Ok(())));
            has_content(&cpu, &space);
        }
        assert_eq!(space.swap_out(&cpu, ALL), Ok(4));
        panics(0, &|| _ = space.fault(&cpu, START, READ));
        assert_eq!((space.resident(), swap.used()), (0, 4));
        assert_eq!(space.fault(&cpu, START, READ), Ok(()));
        has_content(&cpu, &space);
    }
    assert_eq!(swap.used(), 0, "all slots are free");
    assert_eq!(machine.free_frames(), all, "all frames are free");
}

/// A device that records how many slots of its area are in use when it gets a page.
#[derive(Clone, Default)]
struct Counting {
    area: Arc<Mutex<Weak<Swap>>>,
    used: Arc<Mutex<Vec<u64>>>,
}

impl Pager for Counting {
    fn page_in(&self, _: u64, _: &mut [u8; PAGE]) -> Result<(), PagerError> {
        Ok(())
    }

    fn page_out(&self, _: u64, _: &[u8; PAGE]) -> Result<(), PagerError> {
        self.used.lock().unwrap().push(self.area.lock().unwrap().upgrade().unwrap().used());
        Ok(())
    }
}

/// If slots were reserved for other pages as well, another CPU might find no free slot in a small area.
fn slots_are_reserved_only_for_pages_that_will_be_written<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let (cpu, device) = (machine.cpu(0), Counting::default());
    let swap = Arc::new(Swap::new(20, Box::new(device.clone())).unwrap());
    *device.area.lock().unwrap() = Arc::downgrade(&swap);
    let space = Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap();
    space.map(&cpu, Pages::new(Page(0), 1024), WRITE).unwrap();
    let touch = || {
        for page in [Page(7), START, START + 1, START + 2] {
            cpu.store(&space, page.address(), 1).unwrap();
        }
    };
    touch();
    assert_eq!(space.swap_out(&cpu, Pages::new(START, 4)), Ok(3));
    touch();
    assert_eq!(space.swap_out(&cpu, space.pages()), Ok(4));
    touch();
    assert_eq!(space.reclaim(&cpu, 3), Ok(3));
    assert_eq!(*device.used.lock().unwrap(), [2, 2, 3, 3, 3, 3, 4, 3, 3, 3]);
}

fn frames_that_reclaim_frees_can_be_allocated_by_all_cpus<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 2);
    let (cpu, mut other) = (machine.cpu(0), machine.cpu(1));
    let space = Space::with_swap(&cpu, None, Disk::default().swap(64)).unwrap();
    let pages = Pages::new(Page(0), 100);
    space.map(&cpu, pages, WRITE).unwrap();
    let store = |page: Page| cpu.store(&space, page.address(), page.0);
    assert_eq!(pages.iter().try_for_each(store), Err(Fault::OutOfMemory));
    let last = (pages.end - 1).address();
    assert_eq!(other.store(&space, last, 1), Err(Fault::OutOfMemory));
    // The other CPU is offline, so that this CPU does not wait for it.
    assert_eq!(other.offline(|| space.reclaim(&cpu, 4)), Ok(4));
    assert_eq!(other.store(&space, last, 1), Ok(()));
}

fn tables_with_swapped_pages_are_not_pruned<A: Architecture>() {
    with_space::<A>(4, |cpu, space, swap, _| {
        assert_eq!(space.swap_out(cpu, ALL), Ok(4));
        assert_eq!(space.prune(cpu, space.pages()), 0);
        has_content(cpu, space);
        assert_eq!(swap.used(), 0);
    });
}

/// All CPUs swap pages out and in, and fork the space. Each CPU uses its own words of these pages.
fn words_survive_concurrent_swapping<A: Architecture>() {
    const CPUS: usize = 3;
    const ROUNDS: u64 = if cfg!(miri) { 4 } else { 1500 };
    let machine = Hosted::<A>::with_architecture(512, CPUS);
    let all = machine.free_frames();
    let swap = Disk::default().swap(24);
    {
        let cpu = machine.cpu(0);
        let space = Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap();
        let pages = Pages::new(START, 6);
        space.map(&cpu, pages, WRITE).unwrap();
        drop(cpu);
        on_each_cpu(&machine, CPUS, |cpu, mut random| {
            let (space, number) = (&space, cpu.number());
            let mut words = [0; 6];
            for round in 1..=ROUNDS {
                let place = random.below(6);
                let address = (START + place).address() + 8 * number as u64;
                let word = &mut words[place as usize];
                match random.below(16) {
                    0 | 1 => _ = space.swap_out(&cpu, Pages::new(START + place, 2)).unwrap(),
                    2 => _ = space.reclaim(&cpu, 2).unwrap(),
                    3 => {
                        let copy = space.fork(&cpu).unwrap();
                        copy.swap_out(&cpu, pages).unwrap();
                        assert_eq!(cpu.load(&copy, address), Ok(*word));
                        cpu.leave(&copy);
                    }
                    4..9 => {
                        *word = round;
                        cpu.store(space, address, round).unwrap();
                    }
                    _ => assert_eq!(cpu.load(space, address), Ok(*word)),
                }
            }
            cpu.leave(space);
        });
        let cpu = machine.cpu(0);
        space.audit(&cpu);
    }
    assert_eq!(swap.used(), 0);
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}
