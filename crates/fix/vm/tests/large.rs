//! Large pages: when faults and promotions make them, and which operations split them.

#[path = "architectures/each.rs"]
mod each;

use std::collections::BTreeMap;
use std::sync::Arc;

use each::on_each_architecture;
use knee_models::cpus::on_each_cpu;
use knee_models::disk::Disk;
use knee_vm::hosted::{Architecture, Hosted, Processor};
use knee_vm::{
    Fault, Frame, MapError, MemoryType, Object, Page, Pages, Protection, Sharing, Space, Usage,
};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// The first page of a large page.
const START: Page = Page(512 * 3);
const LARGE: u64 = 512;

on_each_architecture!(
    a_fault_maps_a_large_page,
    only_aligned_memory_that_is_mapped_alike_gets_large_pages,
    memory_that_had_small_pages_gets_large_pages_when_it_is_mapped_again,
    without_contiguous_memory_a_fault_maps_one_page,
    unmapped_large_pages_are_freed_whole,
    large_pages_of_a_dropped_space_are_freed_whole,
    parts_of_a_large_page_have_the_origin_of_the_page,
    promotion_keeps_the_content,
    promotion_skips_what_others_use,
    device_memory_gets_large_pages,
    a_fork_leaves_large_pages_of_device_memory_whole,
    a_denied_access_makes_no_large_page_of_device_memory,
    device_memory_has_no_large_page_beyond_its_end,
    swapping_splits_a_large_page,
    the_clock_splits_only_large_pages_that_are_not_used,
    cpus_that_split_and_promote_lose_no_store,
);

/// Creates a space with large pages, and maps writable memory.
fn space<'m, A: Architecture>(cpu: &Processor<'m, A>, pages: Pages) -> Space<'m, Hosted<A>> {
    let space = Space::new(cpu).unwrap();
    space.set_large_pages(true);
    space.map(cpu, pages, WRITE).unwrap();
    space
}

fn a_fault_maps_a_large_page<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(2048, 1);
    let cpu = machine.cpu(0);
    let pages = Pages::new(START, 2 * LARGE);
    let space = space(&cpu, pages);
    cpu.store(&space, (START + 100).address(), 7).unwrap();
    assert_eq!(space.resident(), LARGE);
    for page in pages.iter() {
        let expected = if page == START + 100 { 7 } else { 0 };
        assert_eq!(cpu.load(&space, page.address()), Ok(expected));
    }
    assert_eq!(space.resident(), 2 * LARGE);
    let first = space.frame(&cpu, START).unwrap();
    for index in 0..LARGE {
        assert_eq!(space.frame(&cpu, START + index), Some(Frame(first.0 + index)));
    }
    assert_eq!(space.promote(&cpu, pages), Ok(2));
    space.audit(&cpu);
}

fn only_aligned_memory_that_is_mapped_alike_gets_large_pages<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    // One page at the beginning is missing.
    let space = space(&cpu, Pages::new(START + 1, 2 * LARGE - 1));
    cpu.store(&space, (START + 1).address(), 1).unwrap();
    assert_eq!(space.resident(), 1);
    cpu.store(&space, (START + LARGE).address(), 1).unwrap();
    assert_eq!(space.resident(), 1 + LARGE);
    // One page differs.
    let next = Pages::new(START + 2 * LARGE, LARGE);
    space.map(&cpu, next, WRITE).unwrap();
    space.protect(&cpu, Pages::new(next.start + 9, 1), READ).unwrap();
    cpu.store(&space, next.start.address(), 1).unwrap();
    assert_eq!(space.resident(), 2 + LARGE);
    assert_eq!(space.promote(&cpu, space.pages()), Ok(1));
    space.protect(&cpu, next, WRITE).unwrap();
    assert_eq!(space.promote(&cpu, space.pages()), Ok(2));
    space.audit(&cpu);
}

fn memory_that_had_small_pages_gets_large_pages_when_it_is_mapped_again<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let pages = Pages::new(START, LARGE);
    let space = space(&cpu, pages);
    space.set_large_pages(false);
    for round in 0..4 {
        cpu.store(&space, START.address(), round).unwrap();
        cpu.store(&space, (START + 9).address(), round).unwrap();
        assert_eq!(space.resident(), if round == 0 { 2 } else { LARGE });
        assert_eq!(space.audit(&cpu).large, u64::from(round > 0));
        match round {
            0 | 1 => {
                // Splits the large page of round 1.
                space.unmap(&cpu, Pages::new(START + 1, LARGE - 1)).unwrap();
                space.unmap(&cpu, Pages::new(START, 1)).unwrap();
                space.map(&cpu, pages, WRITE).unwrap();
            }
            _ => {
                space.discard(&cpu, Pages::new(START, 9)).unwrap();
                space.discard(&cpu, Pages::new(START + 9, LARGE - 9)).unwrap();
            }
        }
        assert_eq!(space.resident(), 0);
        assert_eq!(space.audit(&cpu).large, 0);
        space.set_large_pages(true);
    }
    // Device memory: `resize` cuts off a part of it, and later restores this part.
    space.unmap(&cpu, pages).unwrap();
    // SAFETY: no other code uses these frames, which the machine has not allocated.
    let object =
        unsafe { Object::of_device(&cpu, Frame(1024), LARGE, MemoryType::WriteBack, WRITE) };
    let object = object.unwrap();
    object.resize(&cpu, LARGE / 2).unwrap();
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    for count in [LARGE / 2, LARGE] {
        object.resize(&cpu, 0).unwrap();
        object.resize(&cpu, count).unwrap();
        cpu.store(&space, START.address(), 1).unwrap();
        assert_eq!(space.audit(&cpu).large, count / LARGE);
    }
}

fn without_contiguous_memory_a_fault_maps_one_page<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(511, 1);
    let cpu = machine.cpu(0);
    let space = space(&cpu, Pages::new(START, LARGE));
    cpu.store(&space, START.address(), 1).unwrap();
    assert_eq!(space.resident(), 1);
    assert_eq!(space.promote(&cpu, space.pages()), Ok(0));
    assert_eq!(cpu.load(&space, START.address()), Ok(1));
    space.audit(&cpu);
}

fn unmapped_large_pages_are_freed_whole<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(2048, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let pages = Pages::new(START, 3 * LARGE);
        let space = space(&cpu, pages);
        // If frames were lost or freed one by one, contiguous memory would run out.
        for _ in 0..20 {
            for page in pages.iter().step_by(LARGE as usize) {
                cpu.store(&space, page.address(), 1).unwrap();
            }
            assert_eq!(space.promote(&cpu, pages), Ok(3));
            space.discard(&cpu, pages).unwrap();
            assert_eq!(space.resident(), 0);
        }
        cpu.store(&space, START.address(), 1).unwrap();
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

fn large_pages_of_a_dropped_space_are_freed_whole<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(2048, 1);
    let cpu = machine.cpu(0);
    let pages = Pages::new(START, 3 * LARGE);
    for _ in 0..20 {
        let space = space(&cpu, pages);
        pages.iter().for_each(|page| cpu.store(&space, page.address(), 1).unwrap());
        assert_eq!(space.promote(&cpu, pages), Ok(3));
        cpu.leave(&space);
    }
}

fn parts_of_a_large_page_have_the_origin_of_the_page<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let pages = Pages::new(START, LARGE);
    let space = space(&cpu, pages);
    for page in pages.iter() {
        cpu.store(&space, page.address(), page.0).unwrap();
    }
    let sharers = |page| {
        let mut found = Vec::new();
        space.sharers(&cpu, page, |number, page| found.push((number, page)));
        found.sort();
        found
    };
    assert_eq!(sharers(START + 7), [(space.number(), START + 7)]);
    assert_eq!(space.audit(&cpu).large, 1);
    let copy = space.fork(&cpu).unwrap();
    for page in pages.iter() {
        assert_eq!(sharers(page), [(space.number(), page), (copy.number(), page)]);
        assert_eq!(cpu.load(&copy, page.address()), Ok(page.0));
    }
    space.audit(&cpu);
    copy.audit(&cpu);
}

fn promotion_keeps_the_content<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let all = machine.free_frames();
    {
        let cpu = machine.cpu(0);
        let space = Space::new(&cpu).unwrap();
        let pages = Pages::new(START - 5, 3 * LARGE);
        space.map(&cpu, pages, WRITE).unwrap();
        let used = || pages.iter().step_by(3);
        used().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
        assert_eq!(space.promote(&cpu, pages), Ok(2));
        let around = LARGE.div_ceil(3);
        assert_eq!(space.resident(), 2 * LARGE + around);
        let expected: BTreeMap<Page, u64> = used().map(|page| (page, page.0)).collect();
        for page in pages.iter() {
            let word = expected.get(&page).copied().unwrap_or(0);
            assert_eq!(cpu.load(&space, page.address()), Ok(word));
        }
        space.audit(&cpu);
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

fn promotion_skips_what_others_use<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(START, LARGE);
    space.map(&cpu, pages, WRITE).unwrap();
    cpu.store(&space, START.address(), 1).unwrap();
    let pin = space.pin(&cpu, START, READ).unwrap();
    let free = machine.free_frames();
    assert_eq!(space.promote(&cpu, pages), Ok(0));
    assert_eq!(machine.free_frames(), free, "the CPU takes no large page without a use for it");
    drop(pin);
    let copy = space.fork(&cpu).unwrap();
    assert_eq!(space.promote(&cpu, pages), Ok(0));
    drop(copy);
    assert_eq!(space.promote(&cpu, pages), Ok(1));
    // A pinned page of a large page is not unmapped, and keeps its frame when the space is forked.
    let pin = space.pin(&cpu, START + 1, WRITE).unwrap();
    assert_eq!(space.unmap(&cpu, pages), Err(MapError::Pinned));
    let copy = space.fork(&cpu).unwrap();
    assert_eq!(space.frame(&cpu, START + 1), Some(pin.frame()));
    assert_ne!(copy.frame(&cpu, START + 1), Some(pin.frame()));
    drop(pin);
    space.unmap(&cpu, pages).unwrap();
    assert_eq!(cpu.load(&copy, START.address()), Ok(1));
    let object = Object::new(&cpu, LARGE).unwrap();
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    cpu.store(&space, START.address(), 1).unwrap();
    assert_eq!(space.promote(&cpu, pages), Ok(0));
    space.audit(&cpu);
}

fn device_memory_gets_large_pages<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let frames = Frame(1024);
    // SAFETY: no other code uses these frames: the machine has not allocated them, and will not, because the
    // test needs only a few frames.
    let object =
        unsafe { Object::of_device(&cpu, frames, 2 * LARGE, MemoryType::WriteBack, WRITE) };
    let object = object.unwrap();
    let space = Space::new(&cpu).unwrap();
    // This mapping is aligned like the frames, so a fault maps a large page.
    let pages = Pages::new(START, 2 * LARGE);
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    cpu.store(&space, (START + 3).address(), 3).unwrap();
    assert_eq!(space.resident(), LARGE);
    // This mapping is not aligned like the frames, so a fault maps a small page.
    let shifted = Pages::new(Page(5000), LARGE);
    space.map_object(&cpu, shifted, &object, 0, READ, Sharing::Shared).unwrap();
    assert_eq!(cpu.load(&space, (shifted.start + 3).address()), Ok(3));
    assert_eq!(space.resident(), LARGE + 1);
    space.protect(&cpu, Pages::new(START + 3, 1), READ).unwrap();
    assert_eq!(cpu.load(&space, (START + 3).address()), Ok(3));
    assert_eq!(cpu.store(&space, (START + 3).address(), 1), Err(Fault::AccessDenied));
    cpu.store(&space, (START + 4).address(), 4).unwrap();
    space.audit(&cpu);
    space.unmap(&cpu, pages).unwrap();
    space.unmap(&cpu, shifted).unwrap();
    assert_eq!(space.resident(), 0);
}

fn a_fork_leaves_large_pages_of_device_memory_whole<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    // SAFETY: as above.
    let object =
        unsafe { Object::of_device(&cpu, Frame(1024), LARGE, MemoryType::WriteBack, WRITE) };
    let object = object.unwrap();
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(START, LARGE);
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    cpu.store(&space, START.address(), 3).unwrap();
    let copy = space.fork(&cpu).unwrap();
    assert_eq!(copy.resident(), 0);
    cpu.store(&copy, (START + 1).address(), 4).unwrap();
    for space in [&space, &copy] {
        assert_eq!(cpu.load(space, START.address()), Ok(3));
        assert_eq!(cpu.load(space, (START + 1).address()), Ok(4));
        assert_eq!((space.resident(), space.audit(&cpu).large), (LARGE, 1));
    }
}

fn a_denied_access_makes_no_large_page_of_device_memory<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    // SAFETY: no CPU accesses the frames, which the machine does not have.
    let object =
        unsafe { Object::of_device(&cpu, Frame(1 << 20), LARGE, MemoryType::Device, READ) };
    let object = object.unwrap();
    let space = Space::new(&cpu).unwrap();
    let pages = Pages::new(START, LARGE);
    space.map_object(&cpu, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
    assert_eq!(space.fault(&cpu, START, WRITE), Err(Fault::AccessDenied));
    assert_eq!(space.resident(), 0);
    space.fault(&cpu, START, READ).unwrap();
    assert_eq!(space.resident(), LARGE);
    assert_eq!(space.fault(&cpu, START, WRITE), Err(Fault::AccessDenied));
}

fn device_memory_has_no_large_page_beyond_its_end<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 1);
    let cpu = machine.cpu(0);
    let pages = Pages::new(START, LARGE);
    for (frames, index) in [(LARGE - 1, 0), (2 * LARGE, LARGE + 1), (1, u64::MAX - LARGE)] {
        let first = Frame(4 * LARGE);
        // SAFETY: no CPU accesses the frames, which the machine does not have.
        let object =
            unsafe { Object::of_device(&cpu, first, frames, MemoryType::Device, READ) }.unwrap();
        let space = Space::new(&cpu).unwrap();
        space.map_object(&cpu, pages, &object, index, READ, Sharing::Shared).unwrap();
        let found = space.fault(&cpu, START, READ);
        assert_eq!(found, if index < frames { Ok(()) } else { Err(Fault::BeyondEnd) });
        assert_eq!(space.resident(), u64::from(index < frames));
    }
}

/// Each CPU stores to its own page of each large page. Meanwhile, all CPUs promote and split the large pages,
/// fork the space, and discard, replace and swap out pages.
fn cpus_that_split_and_promote_lose_no_store<A: Architecture>() {
    const CPUS: usize = 3;
    let machine = Hosted::<A>::with_architecture(1 << 14, CPUS);
    let all = machine.free_frames();
    let swap = Disk::default().swap(64);
    {
        let space = {
            let cpu = machine.cpu(0);
            let space = Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap();
            space.set_large_pages(true);
            space.map(&cpu, Pages::new(START, 2 * LARGE), WRITE).unwrap();
            space
        };
        on_each_cpu(&machine, CPUS, |cpu, mut random| {
            let (space, number) = (&space, cpu.number());
            let own = [START + number as u64, START + LARGE + number as u64];
            let mut words = [0; 2];
            // All CPUs may change this page.
            let common = Pages::new(START + 400, 1);
            for round in 1..300 {
                let which = random.below(2) as usize;
                let page = own[which];
                assert_eq!(cpu.load(space, page.address()), Ok(words[which]));
                cpu.store(space, page.address(), round).unwrap();
                words[which] = round;
                match random.below(9) {
                    0 => {
                        let pages = Pages::new(START, 2 * LARGE);
                        space.promote(&cpu, pages).unwrap();
                    }
                    1 => space.discard(&cpu, common).unwrap(),
                    2 => {
                        let _ = space.replace(&cpu, common, WRITE);
                    }
                    3 => {
                        let copy = space.fork(&cpu).unwrap();
                        assert_eq!(cpu.load(&copy, page.address()), Ok(round));
                        cpu.store(&copy, page.address(), 0).unwrap();
                        cpu.leave(&copy);
                    }
                    4 => {
                        let pages = Pages::new(page, 1);
                        space.usage(&cpu, pages, Usage::ACCESSED, |_, _| ()).unwrap();
                    }
                    5 => {
                        space.discard(&cpu, Pages::new(page, 1)).unwrap();
                        words[which] = 0;
                    }
                    6 => _ = space.reclaim(&cpu, 2).unwrap(),
                    _ => cpu.store(space, common.start.address(), round).unwrap(),
                }
            }
        });
        space.audit(&machine.cpu(0));
    }
    assert_eq!(machine.free_frames(), all, "all frames are free again");
}

fn swapping_splits_a_large_page<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let swap = Disk::default().swap(2 * LARGE);
    let space = Space::with_swap(&cpu, None, Arc::clone(&swap)).unwrap();
    space.set_large_pages(true);
    let pages = Pages::new(START, LARGE);
    space.map(&cpu, pages, WRITE).unwrap();
    pages.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
    assert_eq!(space.swap_out(&cpu, Pages::new(START + 3, 2)), Ok(2));
    assert_eq!(cpu.load(&space, START.address()), Ok(START.0));
    assert_eq!(space.promote(&cpu, pages), Ok(0), "two pages are on the device");
    // No page is present, but most have content on the device, so a fault must not make a large page of
    // zeros.
    space.discard(&cpu, Pages::new(START, 3)).unwrap();
    assert_eq!(space.swap_out(&cpu, pages), Ok(LARGE - 5));
    assert_eq!(space.resident(), 0);
    assert_eq!(cpu.load(&space, START.address()), Ok(0));
    assert_eq!(space.resident(), 1);
    let check = || {
        for page in pages.iter() {
            let expected = if page < START + 3 { 0 } else { page.0 };
            assert_eq!(cpu.load(&space, page.address()), Ok(expected));
        }
    };
    check();
    assert_eq!(space.promote(&cpu, pages), Ok(1));
    // The first round clears the accessed bit of the large page, and the second splits the page.
    assert_eq!(space.reclaim(&cpu, 7), Ok(7));
    check();
    assert_eq!(swap.used(), 0);
    space.audit(&cpu);
}

fn the_clock_splits_only_large_pages_that_are_not_used<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let space = Space::with_swap(&cpu, None, Disk::default().swap(8)).unwrap();
    space.set_large_pages(true);
    let (large, small) = (Pages::new(START, LARGE), Pages::new(START + LARGE, 1));
    space.map(&cpu, large, WRITE).unwrap();
    space.map(&cpu, small, WRITE).unwrap();
    large.iter().for_each(|page| cpu.store(&space, page.address(), page.0).unwrap());
    let frame = space.frame(&cpu, START);
    // In each round, the hand passes the large page and finds the small page unused.
    for round in 0..4 {
        cpu.store(&space, small.start.address(), round).unwrap();
        space.usage(&cpu, small, Usage::ACCESSED, |_, _| ()).unwrap();
        assert_eq!(cpu.load(&space, (START + 100).address()), Ok(START.0 + 100));
        assert_eq!(space.reclaim(&cpu, 1), Ok(1));
        assert_eq!(space.frame(&cpu, small.start), None, "round {round}");
        // If the page were no longer large, `promote` would copy it to new frames.
        assert_eq!(space.promote(&cpu, large), Ok(1));
        assert_eq!(space.frame(&cpu, START), frame, "round {round}: the page was split");
        space.audit(&cpu);
    }
    cpu.load(&space, small.start.address()).unwrap();
    assert_eq!(space.reclaim(&cpu, 1), Ok(1));
    assert_eq!(space.frame(&cpu, START), None);
    let mut used = 0;
    let count = |_, usage: Usage| used += u64::from(usage.contains(Usage::ACCESSED));
    space.usage(&cpu, large, Usage::empty(), count).unwrap();
    assert_eq!(used, 0, "the clock can take the other pages next");
    large.iter().for_each(|page| assert_eq!(cpu.load(&space, page.address()), Ok(page.0)));
    space.audit(&cpu);
}
