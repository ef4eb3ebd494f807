//! Large pages that the TLBs of other CPUs contain.

use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, Frame, Page, Pages, Protection, Space, Usage};

use super::each::on_each_architecture;
use super::machine::{Stepped, waits, with_frames};
use super::turns::at_each_point;
use super::{READ, WRITE, only};

/// The first page of a large page, and a page in it.
const START: Page = Page(512 * 3);
const INSIDE: Page = Page(START.0 + 7);
const ALL: Pages = Pages::new(START, 512);

on_each_architecture!(
    changing_a_part_splits_a_large_page,
    a_page_stays_away_until_all_cpus_have_flushed_the_large_page,
    a_lazy_unmap_of_a_part_interrupts_the_other_cpus,
    a_promotion_loses_no_store,
    a_fault_that_adds_a_permission_splits_a_large_page,
    a_large_page_waits_until_all_cpus_have_flushed_a_pruned_table,
    a_large_page_waits_until_all_cpus_have_flushed_an_empty_table,
    a_whole_large_page_takes_no_work_for_each_of_its_pages,
    a_fault_at_any_time_of_a_prune_or_another_fault_gets_the_large_page,
    a_fork_delays_the_large_pages_of_other_cpus,
);

/// Passes to `with` a space that has a large page, in which each small page contains its own index. The first
/// two CPUs have all pages in their TLBs.
fn with_large_page<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    with_frames::<A>(4096, |machine, [first, second, changer]| {
        let space = Space::new(&changer).unwrap();
        space.set_large_pages(true);
        space.map(&changer, ALL, WRITE).unwrap();
        for page in ALL.iter() {
            machine.store(&first, &space, page, page - START).unwrap();
            machine.load(&second, &space, page).unwrap();
        }
        assert_eq!(space.promote(&changer, ALL), Ok(1), "the first fault made a large page");
        with(machine, &space, [&first, &second, &changer]);
    });
}

/// An operation on a part of a large page.
type Change<A> = for<'m> fn(&Cpu<'m, Stepped<A>>, &Space<'m, Stepped<A>>);

fn changing_a_part_splits_a_large_page<A: Architecture>() {
    let changes: [(&str, Change<A>); 8] = [
        ("unmap", |cpu, space| space.unmap(cpu, only(INSIDE)).unwrap()),
        ("unmap the rest", |cpu, space| space.unmap(cpu, Pages::new(START + 8, 504)).unwrap()),
        ("discard", |cpu, space| space.discard(cpu, only(INSIDE)).unwrap()),
        ("protect", |cpu, space| space.protect(cpu, only(INSIDE), READ).unwrap()),
        ("replace", |cpu, space| space.replace(cpu, only(INSIDE), WRITE).unwrap()),
        ("move", |cpu, space| space.remap(cpu, only(INSIDE), only(Page(9))).unwrap()),
        ("usage", |cpu, space| {
            let clear = Usage::ACCESSED | Usage::DIRTY;
            space.usage(cpu, only(INSIDE), clear, |_, _| ()).unwrap();
        }),
        ("fork", |cpu, space| drop(space.fork(cpu).unwrap())),
    ];
    for (name, change) in changes {
        with_large_page::<A>(|machine, space, [first, second, changer]| {
            let frames: Vec<Option<Frame>> =
                ALL.iter().map(|page| space.frame(changer, page)).collect();
            change(changer, space);
            for (page, frame) in ALL.iter().zip(frames) {
                for cpu in [first, second] {
                    let expected = match (space.query(changer, page), name) {
                        (None, _) => {
                            assert!(machine.load(cpu, space, page).is_err(), "{name}: {page:?}");
                            continue;
                        }
                        (Some(_), "discard" | "replace") if page == INSIDE => 0,
                        _ => page - START,
                    };
                    assert_eq!(machine.load(cpu, space, page), Ok(expected), "{name}: {page:?}");
                }
                let is_same = space.frame(changer, page) == frame;
                assert!(is_same || page >= INSIDE, "{name}: {page:?} has another frame");
            }
            if name != "protect" {
                machine.store(second, space, START + 6, 1).unwrap();
                assert_eq!(machine.load(first, space, START + 6), Ok(1), "{name}");
            }
            space.audit(changer);
        });
    }
}

/// As long as any TLB has the large page, no CPU finds the table that replaces it.
fn a_page_stays_away_until_all_cpus_have_flushed_the_large_page<A: Architecture>() {
    with_large_page::<A>(|machine, space, [first, second, changer]| {
        let others = || {
            assert_eq!(machine.load(first, space, INSIDE), Ok(7));
            // When this CPU leaves the space, it flushes the large page from its TLB.
            machine.leave(second, space);
            assert!(waits(|| machine.load(second, space, START)));
        };
        machine.meanwhile(others, || space.unmap(changer, only(INSIDE)).unwrap());
        assert_eq!(machine.load(second, space, START), Ok(0));
        assert!(machine.load(first, space, INSIDE).is_err());
        assert_eq!(machine.load(first, space, START + 1), Ok(1));
    });
}

/// Even in a lazy space, no TLB may have the large page when the table takes its place.
fn a_lazy_unmap_of_a_part_interrupts_the_other_cpus<A: Architecture>() {
    with_large_page::<A>(|machine, space, [first, _, changer]| {
        space.set_lazy(true);
        assert!(machine.interrupts(|| space.unmap(changer, only(INSIDE)).unwrap()));
        assert!(machine.load(first, space, INSIDE).is_err());
        assert_eq!(machine.load(first, space, START), Ok(0));
    });
}

/// Until a CPU flushes its TLB, it can store through cached translations of the small pages. The large page
/// that replaces them contains these stores.
fn a_promotion_loses_no_store<A: Architecture>() {
    with_frames::<A>(4096, |machine, [first, second, changer]| {
        let space = Space::new(&changer).unwrap();
        space.map(&changer, ALL, WRITE).unwrap();
        for page in [START, INSIDE] {
            machine.store(&first, &space, page, 1).unwrap();
            machine.load(&second, &space, page).unwrap();
        }
        let others = || {
            machine.store(&first, &space, INSIDE, 2).unwrap();
            assert!(waits(|| machine.load(&second, &space, START + 1)));
        };
        machine.meanwhile(others, || assert_eq!(space.promote(&changer, ALL), Ok(1)));
        for cpu in [&first, &second, &changer] {
            assert_eq!(machine.load(cpu, &space, START), Ok(1));
            assert_eq!(machine.load(cpu, &space, INSIDE), Ok(2));
            assert_eq!(machine.load(cpu, &space, START + 100), Ok(0));
        }
        assert_eq!(space.resident(), 512);
        space.audit(&changer);
    });
}

/// `protect` adds no permission to existing entries.
fn a_fault_that_adds_a_permission_splits_a_large_page<A: Architecture>() {
    with_frames::<A>(4096, |machine, [first, second, changer]| {
        let space = Space::new(&changer).unwrap();
        space.set_large_pages(true);
        space.map(&changer, ALL, READ).unwrap();
        for cpu in [&first, &second] {
            ALL.iter().for_each(|page| assert_eq!(machine.load(cpu, &space, page), Ok(0)));
        }
        assert_eq!(space.resident(), 512);
        space.protect(&changer, ALL, WRITE).unwrap();
        space.fault(&first, INSIDE, Protection::WRITE).unwrap();
        space.audit(&changer);
        machine.store(&first, &space, INSIDE, 1).unwrap();
        machine.store(&second, &space, START, 2).unwrap();
        for cpu in [&first, &second] {
            assert_eq!(machine.load(cpu, &space, INSIDE), Ok(1));
            assert_eq!(machine.load(cpu, &space, START), Ok(2));
        }
        space.audit(&changer);
    });
}

/// A CPU that still has a pointer to the freed table could find pages of both sizes.
fn a_large_page_waits_until_all_cpus_have_flushed_a_pruned_table<A: Architecture>() {
    with_frames::<A>(4096, |machine, [first, second, changer]| {
        let space = Space::new(&changer).unwrap();
        space.map(&changer, ALL, WRITE).unwrap();
        for cpu in [&first, &second] {
            machine.store(cpu, &space, START, 1).unwrap();
        }
        space.unmap(&changer, ALL).unwrap();
        space.set_large_pages(true);
        let far = Pages::new(START + (1 << 18), 512);
        space.map(&changer, far, WRITE).unwrap();
        let others = || {
            space.map(&second, ALL, WRITE).unwrap();
            // Neither this page nor any other becomes large during the prune.
            assert!(waits(|| machine.store(&second, &space, INSIDE, 2)));
            assert!(waits(|| machine.store(&second, &space, far.start, 2)));
        };
        machine.meanwhile(others, || assert!(space.prune(&changer, space.pages()) > 0));
        machine.store(&second, &space, INSIDE, 2).unwrap();
        assert_eq!(machine.load(&first, &space, INSIDE), Ok(2));
        assert_eq!(space.resident(), 512);
        space.audit(&changer);
    });
}

/// The table is in the tree, but no page is present in it.
fn a_large_page_waits_until_all_cpus_have_flushed_an_empty_table<A: Architecture>() {
    with_frames::<A>(4096, |machine, [first, second, changer]| {
        let space = Space::new(&changer).unwrap();
        space.map(&changer, ALL, WRITE).unwrap();
        for cpu in [&first, &second, &changer] {
            machine.store(cpu, &space, START, 1).unwrap();
        }
        space.discard(&changer, ALL).unwrap();
        space.set_large_pages(true);
        let others = || {
            assert!(waits(|| machine.load(&first, &space, START)));
            assert!(waits(|| space.unmap(&first, only(INSIDE))));
        };
        machine.meanwhile(others, || machine.store(&changer, &space, INSIDE, 2).unwrap());
        assert_eq!(space.resident(), 512);
        for cpu in [&first, &second, &changer] {
            assert_eq!(machine.load(cpu, &space, START), Ok(0));
            assert_eq!(machine.load(cpu, &space, INSIDE), Ok(2));
        }
        space.audit(&changer);
    });
}

/// An operation on the whole page does not fill the table, and accesses no metadata but the first frame's.
fn a_whole_large_page_takes_no_work_for_each_of_its_pages<A: Architecture>() {
    const MOST: u64 = 8;
    with_large_page::<A>(|machine, space, [first, second, changer]| {
        let is_filled = || space.audit(changer).filled > 0;
        assert!(!is_filled(), "two CPUs loaded all pages, and one stored to them");
        let same = |page| {
            space.fault(second, page, Protection::READ).unwrap();
            assert_eq!(machine.load(second, space, page), Ok(page - START));
            space.read(second, page.address(), &mut [0; 8]).unwrap();
            drop(space.pin(second, page, WRITE).unwrap());
            space.promote(changer, ALL).unwrap();
        };
        ALL.iter().for_each(|page| assert!(machine.metas(|| same(page)) <= MOST));
        assert!(!is_filled());
        let changes: [Change<A>; 3] = [
            |cpu, space| space.discard(cpu, ALL).unwrap(),
            |cpu, space| space.replace(cpu, ALL, WRITE).unwrap(),
            |cpu, space| {
                space.unmap(cpu, ALL).unwrap();
                space.map(cpu, ALL, WRITE).unwrap();
            },
        ];
        for change in changes {
            assert!(machine.metas(|| change(changer, space)) <= MOST);
            assert_eq!(space.resident(), 0);
            assert!(machine.metas(|| machine.store(first, space, INSIDE, 1).unwrap()) <= MOST);
            assert_eq!(space.resident(), 512);
            assert!(!is_filled());
        }
        let copy = Space::new(changer).unwrap();
        copy.set_large_pages(true);
        copy.map(changer, ALL, WRITE).unwrap();
        copy.fault(changer, INSIDE, WRITE).unwrap();
        assert!(machine.metas(|| drop(copy)) <= MOST);
        // An operation on a part fills the table.
        space.protect(changer, only(INSIDE), WRITE).unwrap();
        assert_eq!((space.audit(changer).large, space.audit(changer).filled), (1, 1));
        assert!(machine.metas(|| space.unmap(changer, ALL).unwrap()) <= MOST);
    });
}

/// If the fork did not delay large pages, the copy might contain a later store of another CPU, and yet lack
/// the store to the large page.
fn a_fork_delays_the_large_pages_of_other_cpus<A: Architecture>() {
    with_frames::<A>(4096, |machine, [first, second, third]| {
        let space = Space::new(&first).unwrap();
        let other = Page(9);
        space.map(&first, only(other), WRITE).unwrap();
        machine.store(&third, &space, other, 1).unwrap();
        // No page of the large page is present, and the tree has no leaf for it.
        space.set_large_pages(true);
        space.map(&first, Pages::new(START, 1024), WRITE).unwrap();
        machine.meanwhile(
            || assert!(waits(|| machine.store(&second, &space, INSIDE, 2))),
            || space.fork(&first).unwrap(),
        );
        machine.store(&second, &space, INSIDE, 2).unwrap();
        assert_eq!(space.audit(&first).large, 1);
    });
}

/// The leaf has an empty table, to which all CPUs have pointers.
fn a_fault_at_any_time_of_a_prune_or_another_fault_gets_the_large_page<A: Architecture>() {
    for is_prune in [true, false] {
        at_each_point::<A>(|run| {
            with_frames::<A>(4096, |machine, [first, second, third]| {
                let space = Space::new(&first).unwrap();
                space.map(&first, ALL, WRITE).unwrap();
                for cpu in [&first, &second, &third] {
                    machine.store(cpu, &space, START, 1).unwrap();
                }
                space.set_large_pages(true);
                space.unmap(&first, ALL).unwrap();
                if !is_prune {
                    space.map(&first, ALL, WRITE).unwrap();
                }
                let mut one = || match is_prune {
                    true => _ = space.prune(&first, space.pages()),
                    false => machine.store(&first, &space, INSIDE + 1, 0).unwrap(),
                };
                let mut other = || {
                    if is_prune {
                        space.map(&second, ALL, WRITE).unwrap();
                    }
                    machine.store(&second, &space, INSIDE, 2).unwrap();
                };
                run(machine, &mut one, &mut other);
                assert_eq!(space.resident(), 512);
                for cpu in [&first, &second, &third] {
                    assert_eq!(machine.load(cpu, &space, INSIDE), Ok(2));
                    assert_eq!(machine.load(cpu, &space, START), Ok(0));
                }
                assert_eq!(space.audit(&first).large, 1);
            });
        });
    }
}
