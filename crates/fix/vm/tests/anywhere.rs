//! Tests of `map_anywhere` and of quotas.

#[path = "architectures/each.rs"]
mod each;

use std::sync::Arc;
use std::thread;

use each::on_each_architecture;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{MapError, Page, Pages, Protection, Quota, Space};
use proptest::prelude::*;

const WRITE: Protection = Protection::READ_WRITE;

#[test]
fn unmapped_areas_are_reused() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let size = |number: usize| 1 + number as u64 % 8;
    let mut areas: Vec<Pages> =
        (0..1024).map(|number| space.map_anywhere(&cpu, size(number), WRITE).unwrap()).collect();
    let end = areas.iter().map(|pages| pages.end).max();
    let start = areas.iter().map(|pages| pages.start).min();
    assert!(
        end.unwrap() - start.unwrap() < 4800,
        "1024 areas of 4.5 pages on average take at least 4800 pages"
    );
    let mut random = 1_u64;
    for _ in 0..20_000 {
        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        let number = (random >> 40) as usize % areas.len();
        space.unmap(&cpu, areas[number]).unwrap();
        let new = space.map_anywhere(&cpu, size(number), WRITE).unwrap();
        assert!(Some(new.start) >= start && Some(new.end) <= end);
        areas[number] = new;
    }
    areas.sort_by_key(|pages| pages.start);
    assert!(areas.windows(2).all(|pair| pair[0].end <= pair[1].start));
}

#[test]
fn an_area_unmapped_in_parts_is_reused_as_a_whole() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let pages = space.map_anywhere(&cpu, 1000, WRITE).unwrap();
    // The CPU's free list contains this page, so `map_anywhere` must notice that the page is now mapped.
    space.map(&cpu, Pages::new(pages.end, 1), WRITE).unwrap();
    for page in pages.iter().step_by(2).chain(pages.iter().skip(1).step_by(2)) {
        space.unmap(&cpu, Pages::new(page, 1)).unwrap();
    }
    // This area has more pages than the CPU's current slice has left.
    let other = space.map_anywhere(&cpu, 262_144, WRITE).unwrap();
    assert!(!other.overlaps(pages));
    assert_eq!(space.map_anywhere(&cpu, 1000, WRITE), Ok(pages), "adjacent ranges were merged");
}

#[test]
fn map_may_take_pages_from_a_cpus_free_list() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let first = space.map_anywhere(&cpu, 4, WRITE).unwrap();
    // A range where `map_anywhere` would put the next area, and a range where it would put later areas.
    let fixed = [Pages::new(first.end, 10_000), Pages::new(first.end + 20_000, 7)];
    for pages in fixed {
        space.map(&cpu, pages, Protection::READ).unwrap();
    }
    let mut seen = vec![first, fixed[0], fixed[1]];
    for count in (1..40).cycle().take(2000) {
        let pages = space.map_anywhere(&cpu, count, WRITE).unwrap();
        assert_eq!(pages.count(), count);
        seen.push(pages);
    }
    seen.sort_by_key(|pages| pages.start);
    assert!(seen.windows(2).all(|pair| pair[0].end <= pair[1].start));
    assert!(
        seen.last().unwrap().end - first.start < 60_000,
        "`map_anywhere` leaves too many addresses beyond the fixed ranges unused"
    );
}

#[test]
fn map_anywhere_searches_a_space_that_has_no_slice_left() {
    let machine = Hosted::new(64, 2);
    let (cpu, other) = (machine.cpu(0), machine.cpu(1));
    let space = Space::new(&cpu).unwrap();
    let last = space.pages().end.0;
    // Map everything except three pages of one leaf and a single page elsewhere.
    let gap = 0x1234_5678;
    for (start, end) in [(0, gap), (gap + 3, 2 * gap), (2 * gap + 1, last)] {
        space.map(&cpu, Pages { start: Page(start), end: Page(end) }, WRITE).unwrap();
    }
    space.unmap(&cpu, Pages::new(Page(gap - 1), 1)).unwrap();
    space.map(&cpu, Pages::new(Page(gap - 1), 1), WRITE).unwrap();
    assert_eq!(space.map_anywhere(&cpu, 4, WRITE), Err(MapError::NoAddressSpace));
    assert_eq!(space.map_anywhere(&cpu, last, WRITE), Err(MapError::NoAddressSpace));
    assert_eq!(space.map_anywhere(&cpu, 2, WRITE), Ok(Pages::new(Page(gap), 2)));
    assert_eq!(space.map_anywhere(&other, 1, WRITE), Ok(Pages::new(Page(gap + 2), 1)));
    assert_eq!(space.map_anywhere(&cpu, 1, WRITE), Ok(Pages::new(Page(2 * gap), 1)));
    assert_eq!(space.map_anywhere(&cpu, 1, WRITE), Err(MapError::NoAddressSpace));
    assert_eq!(space.map_anywhere(&cpu, 0, WRITE), Err(MapError::Empty));
    // Another CPU searches the whole space, and so finds the pages that this CPU has unmapped.
    space.unmap(&cpu, Pages::new(Page(gap), 3)).unwrap();
    assert_eq!(space.map_anywhere(&other, 3, WRITE), Ok(Pages::new(Page(gap), 3)));
    // The first CPU's free list still contains the pages, although they are mapped again. `map_anywhere` does
    // not return them.
    assert_eq!(space.map_anywhere(&cpu, 3, WRITE), Err(MapError::NoAddressSpace));
}

#[test]
fn each_cpu_maps_in_its_own_branch() {
    let machine = Hosted::new(64, 2);
    let (one, other) = (machine.cpu(0), machine.cpu(1));
    let space = Space::new(&one).unwrap();
    let branch = |pages: Pages| pages.start.0 >> 18;
    let first = branch(space.map_anywhere(&one, 8, WRITE).unwrap());
    let second = branch(space.map_anywhere(&other, 8, WRITE).unwrap());
    assert_ne!(first, second);
    for count in (1..20).cycle().take(1000) {
        assert_eq!(branch(space.map_anywhere(&one, count, WRITE).unwrap()), first);
        assert_eq!(branch(space.map_anywhere(&other, count, WRITE).unwrap()), second);
    }
}

#[test]
fn unmapping_a_fixed_range_does_not_move_the_cpus_arena() {
    let machine = Hosted::new(64, 2);
    let (one, other) = (machine.cpu(0), machine.cpu(1));
    let space = Space::new(&one).unwrap();
    let branch = |pages: Pages| pages.start.0 >> 18;
    let first = branch(space.map_anywhere(&one, 8, WRITE).unwrap());
    space.map_anywhere(&other, 8, WRITE).unwrap();
    // The caller, not `map_anywhere`, chooses this address.
    let fixed = Pages::new(Page(0x1000), 8);
    space.map(&one, fixed, WRITE).unwrap();
    space.unmap(&one, fixed).unwrap();
    assert_eq!(branch(space.map_anywhere(&one, 8, WRITE).unwrap()), first);
    // Unmap everything, including the area of the other CPU.
    space.unmap(&one, space.pages()).unwrap();
    assert_eq!(branch(space.map_anywhere(&one, 8, WRITE).unwrap()), first);
}

/// CPUs map areas, write to them, and unmap areas that other CPUs have mapped. In between, they map at fixed
/// addresses.
fn map_anywhere_never_returns_mapped_pages<A: Architecture>() {
    const CPUS: usize = 4;
    let machine = Hosted::<A>::with_architecture(4096, CPUS);
    let all = machine.free_frames();
    let quota = Arc::new(Quota::new(&machine, CPUS as u64 * 17 * 9).unwrap());
    {
        let space = Space::with_quota(&machine.cpu(0), Arc::clone(&quota)).unwrap();
        let passed: Vec<std::sync::Mutex<Vec<Pages>>> =
            (0..CPUS).map(|_| Default::default()).collect();
        thread::scope(|scope| {
            for number in 0..CPUS {
                let (machine, space, passed) = (&machine, &space, &passed);
                scope.spawn(move || {
                    let cpu = machine.cpu(number);
                    let mut random = number as u64 + 1;
                    for round in 0..3000_u64 {
                        random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
                        let count = (random >> 33) % 8 + 1;
                        let pages = space.map_anywhere(&cpu, count, WRITE).unwrap();
                        for page in pages.iter() {
                            assert_eq!(cpu.load(space, page.address()), Ok(0));
                            cpu.store(space, page.address(), round << 8 | number as u64).unwrap();
                        }
                        // The page after the area, which may be in the free list of this or another CPU.
                        let behind = Pages::new(pages.end, 1);
                        if round % 8 == 0 && space.map(&cpu, behind, WRITE).is_ok() {
                            space.unmap(&cpu, behind).unwrap();
                        }
                        for page in pages.iter() {
                            let mine = round << 8 | number as u64;
                            assert_eq!(cpu.load(space, page.address()), Ok(mine));
                        }
                        // Pass the area on, so that another CPU may unmap it.
                        let to = (number + (random >> 50) as usize) % CPUS;
                        passed[to].lock().unwrap().push(pages);
                        let mut got = Vec::new();
                        for from in 0..CPUS {
                            let mut passed = passed[from].lock().unwrap();
                            if from == number || passed.len() > 8 {
                                got.append(&mut passed);
                            }
                        }
                        for pages in got {
                            space.unmap(&cpu, pages).unwrap();
                        }
                    }
                });
            }
        });
        let left: Vec<Pages> =
            passed.iter().flat_map(|list| list.lock().unwrap().clone()).collect();
        let count: u64 = left.iter().map(|pages| pages.count()).sum();
        assert_eq!(quota.used(), count);
        assert_eq!(space.resident(), count);
    }
    assert_eq!(quota.used(), 0, "a dropped space returns its charges");
    assert_eq!(machine.free_frames(), all);
}

/// Several CPUs map pages in spaces that share one quota, and unmap some when the quota is exceeded.
fn spaces_with_the_same_quota_share_its_limit<A: Architecture>() {
    const LIMIT: u64 = 200;
    // Enough frames for the pools of all CPUs, so that only the quota runs out.
    let machine = Hosted::<A>::with_architecture(1024, 3);
    let quota = Arc::new(Quota::new(&machine, LIMIT).unwrap());
    thread::scope(|scope| {
        for number in 0..3 {
            let (machine, quota) = (&machine, &quota);
            scope.spawn(move || {
                let cpu = machine.cpu(number);
                for _ in 0..20 {
                    let space = Space::with_quota(&cpu, Arc::clone(quota)).unwrap();
                    let mut mapped = Vec::new();
                    for count in (1..20).cycle().take(200) {
                        match space.map_anywhere(&cpu, count, WRITE) {
                            Ok(pages) => mapped.push(pages),
                            Err(error) => {
                                assert_eq!(error, MapError::QuotaExceeded);
                                mapped.drain(..mapped.len() / 2).for_each(|pages| {
                                    space.unmap(&cpu, pages).unwrap();
                                });
                            }
                        }
                        assert!(mapped.iter().map(|pages| pages.count()).sum::<u64>() <= LIMIT);
                    }
                }
            });
        }
    });
    assert_eq!(quota.used(), 0);
}

on_each_architecture!(
    map_anywhere_never_returns_mapped_pages,
    spaces_with_the_same_quota_share_its_limit,
);

#[test]
fn a_fork_is_charged_and_shares_present_pages() {
    let machine = Hosted::new(64, 1);
    let cpu = machine.cpu(0);
    let quota = Arc::new(Quota::new(&machine, 25).unwrap());
    let space = Space::with_quota(&cpu, Arc::clone(&quota)).unwrap();
    let pages = space.map_anywhere(&cpu, 10, WRITE).unwrap();
    space.populate(&cpu, Pages::new(pages.start, 3)).unwrap();
    let fork = space.fork(&cpu).unwrap();
    assert_eq!((quota.used(), fork.resident(), space.resident()), (20, 3, 3));
    assert_eq!(space.fork(&cpu).err(), Some(MapError::QuotaExceeded));
    assert_eq!(quota.used(), 20);
    // Break copy-on-write sharing of one page of the fork, make one page present, and unmap one page.
    cpu.store(&fork, pages.start.address(), 1).unwrap();
    cpu.store(&fork, (pages.start + 3).address(), 1).unwrap();
    fork.unmap(&cpu, Pages::new(pages.start + 2, 1)).unwrap();
    assert_eq!((quota.used(), fork.resident(), space.resident()), (19, 3, 3));
    // The fork does not map over the ranges that it inherited.
    let more = fork.map_anywhere(&cpu, 5, WRITE).unwrap();
    assert!(!more.overlaps(pages));
    drop(space);
    assert_eq!(quota.used(), 14);
    drop(fork);
    assert_eq!(quota.used(), 0);
}

#[derive(Debug, Clone)]
enum Operation {
    Map(Pages),
    Unmap(Pages),
    Anywhere(u64),
    Store(u64),
    Discard(Pages),
}

fn pages() -> impl Strategy<Value = Pages> {
    prop_oneof![
        (0_u64..1200, 1_u64..40).prop_map(|(start, count)| Pages::new(Page(start), count)),
        (0_u64..1200, 1_u64..1200).prop_map(|(start, count)| Pages::new(Page(start), count)),
    ]
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => pages().prop_map(Operation::Map),
        2 => pages().prop_map(Operation::Unmap),
        2 => (1_u64..400).prop_map(Operation::Anywhere),
        3 => (0_u64..1200).prop_map(Operation::Store),
        1 => pages().prop_map(Operation::Discard),
    ]
}

proptest! {
    /// Page numbers in the operations are relative to the first area, so that the operations also hit areas
    /// that `map_anywhere` chose.
    #[test]
    fn the_counts_of_mapped_and_present_pages_are_exact(
        limit in 1_u64..3000,
        operations in prop::collection::vec(operation(), 1..60)
    ) {
        // `map_anywhere` takes a new leaf for each area of more than half a leaf, and the limit allows about
        // a dozen such areas.
        const UNIVERSE: u64 = 16_384;
        let machine = Hosted::new(4096, 1);
        let cpu = machine.cpu(0);
        let quota = Arc::new(Quota::new(&machine, limit).unwrap());
        {
            let space = Space::with_quota(&cpu, Arc::clone(&quota)).unwrap();
            let base = space.map_anywhere(&cpu, 1, WRITE).unwrap().start;
            let (mut mapped, mut present) = (vec![false; UNIVERSE as usize], vec![false; UNIVERSE as usize]);
            mapped[0] = true;
            let range = |pages: Pages| pages.start.0 as usize..pages.end.0 as usize;
            let at = |pages: Pages| Pages::new(base + pages.start.0, pages.count());
            let used = |mapped: &[bool]| mapped.iter().filter(|&&is| is).count() as u64;
            for operation in operations {
                match operation {
                    Operation::Map(pages) => {
                        let expected = if used(&mapped) + pages.count() > limit {
                            Err(MapError::QuotaExceeded)
                        } else if mapped[range(pages)].contains(&true) {
                            Err(MapError::Occupied)
                        } else {
                            mapped[range(pages)].fill(true);
                            Ok(())
                        };
                        prop_assert_eq!(space.map(&cpu, at(pages), WRITE), expected);
                    }
                    Operation::Unmap(pages) => {
                        space.unmap(&cpu, at(pages)).unwrap();
                        mapped[range(pages)].fill(false);
                        present[range(pages)].fill(false);
                    }
                    Operation::Anywhere(count) => match space.map_anywhere(&cpu, count, WRITE) {
                        Ok(pages) => {
                            prop_assert_eq!(pages.count(), count);
                            let pages = Pages::new(Page(pages.start - base), count);
                            prop_assert!(pages.end <= Page(UNIVERSE) && !mapped[range(pages)].contains(&true));
                            mapped[range(pages)].fill(true);
                        }
                        Err(error) => {
                            prop_assert_eq!(error, MapError::QuotaExceeded);
                            prop_assert!(used(&mapped) + count > limit);
                        }
                    },
                    Operation::Store(page) => {
                        let result = cpu.store(&space, (base + page).address(), 1);
                        prop_assert_eq!(result.is_ok(), mapped[page as usize]);
                        present[page as usize] |= result.is_ok();
                    }
                    Operation::Discard(pages) => {
                        space.discard(&cpu, at(pages)).unwrap();
                        present[range(pages)].fill(false);
                    }
                }
                prop_assert_eq!(quota.used(), used(&mapped));
                prop_assert_eq!(space.resident(), used(&present));
            }
        }
        prop_assert_eq!(quota.used(), 0);
    }
}

/// The next stack reuses all parts of an unmapped stack, even if each guard was unmapped separately.
#[test]
fn guards_are_reused_like_the_pages_they_guard() {
    let machine = Hosted::new(256, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let stack = space.map_guarded(&cpu, 4, 1, Protection::READ_WRITE).unwrap();
    let whole = Pages { start: stack.start - 1, end: stack.end + 1 };
    for part in [Pages::new(whole.start, 1), stack, Pages::new(stack.end, 1)] {
        space.unmap(&cpu, part).unwrap();
    }
    assert_eq!(space.map_guarded(&cpu, 4, 1, Protection::READ), Ok(stack));
}
