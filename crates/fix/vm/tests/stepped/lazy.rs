//! The weaker guarantee of lazy spaces: until its next tick, a CPU may continue to use pages that were
//! unmapped. All other guarantees are the same.

use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, Fault, Object, Page, Pages, Protection, Sharing, Space};

use crate::each::on_each_architecture;
use crate::machine::Stepped;
use crate::{ALL, FAR, HERE, NEXT, WRITE, only, with_space};

/// Sets up a lazy space. Page `HERE` contains 7, and the first CPU has cached the translation of `HERE`.
fn with_lazy_space<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    with_space::<A>(|machine, space, cpus| {
        space.set_lazy(true);
        machine.store(cpus[0], space, HERE, 7).unwrap();
        with(machine, space, cpus);
    });
}

fn a_lazy_unmap_flushes_only_the_calling_cpu<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, _, changer]| {
        machine.store(changer, space, HERE, 8).unwrap();
        assert!(!machine.interrupts(|| space.unmap(changer, only(HERE)).unwrap()));
        assert_eq!(machine.load(changer, space, HERE), Err(Fault::Unmapped));
        assert_eq!(machine.load(first, space, HERE), Ok(8));
        assert_eq!(space.query(first, HERE), None);
        space.audit(first);
        machine.tick(first, || ());
        assert_eq!(machine.load(first, space, HERE), Err(Fault::Unmapped));
    });
}

/// The frames of an unmap stay allocated until all CPUs have ticked. After that, the next unmap by the same
/// CPU frees them.
fn frames_are_not_reused_before_the_last_cpu_has_ticked<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        space.unmap(changer, only(HERE)).unwrap();
        let before = space.resident();
        let goes_on = |page| {
            machine.store(second, space, page, 1).unwrap();
            space.unmap(changer, only(page)).unwrap();
            // The new page must not get the frame that the first CPU still uses.
            machine.store(changer, space, FAR - 1, 9).unwrap();
            space.discard(changer, only(FAR - 1)).unwrap();
            machine.load(first, space, HERE)
        };
        assert_eq!(goes_on(NEXT), Ok(7));
        machine.tick(second, || ());
        machine.tick(changer, || ());
        assert_eq!(goes_on(NEXT + 1), Ok(7));
        assert_eq!(space.resident(), before + 2);
        machine.tick(first, || ());
        assert!(!machine.interrupts(|| space.unmap(changer, only(NEXT + 2)).unwrap()));
        assert_eq!(goes_on(NEXT + 3), Err(Fault::Unmapped));
        // The frames of `HERE` and `NEXT` are free now. The second CPU has not ticked since `NEXT + 1` and
        // `NEXT + 3` were unmapped.
        assert_eq!(space.resident(), before + 1);
    });
}

/// If a CPU caches a translation after the flush of its timer interrupt, the translation stays until the
/// CPU's next tick.
fn translations_cached_after_the_flush_of_a_tick_stay<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        machine.tick(first, || {
            assert_eq!(machine.load(first, space, HERE), Ok(7));
            space.unmap(changer, only(HERE)).unwrap();
        });
        machine.tick_all([second, changer]);
        space.unmap(changer, only(NEXT)).unwrap();
        assert_eq!(machine.load(first, space, HERE), Ok(7));
        machine.tick(first, || ());
        space.unmap(changer, only(NEXT)).unwrap();
        assert_eq!(machine.load(first, space, HERE), Err(Fault::Unmapped));
    });
}

/// Once a page is mapped again, by any CPU, no CPU finds its old content.
fn mapping_pages_that_others_have_cached_flushes_them<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        for pages in [only(HERE), Pages::new(HERE, 600)] {
            machine.store(first, space, HERE, 7).unwrap();
            space.unmap(changer, only(HERE)).unwrap();
            space.unmap(second, ALL).unwrap();
            // Mapping another page of the same table interrupts no CPU.
            assert!(!machine.interrupts(|| space.map(second, only(NEXT), WRITE).unwrap()));
            space.unmap(second, only(NEXT)).unwrap();
            space.map(second, pages, WRITE).unwrap();
            assert_eq!(machine.load(first, space, HERE), Ok(0));
        }
    });
}

/// `map_anywhere` does not reuse addresses before all CPUs have flushed them.
fn map_anywhere_does_not_reuse_pages_that_wait_for_a_tick<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        let map = || space.map_anywhere(changer, 3, WRITE).unwrap();
        let pages = map();
        machine.store(first, space, pages.start, 1).unwrap();
        space.unmap(changer, pages).unwrap();
        let other = map();
        assert!(!other.overlaps(pages));
        machine.tick_all([first, second, changer]);
        // No page of the range was present, so the range is free at once.
        assert!(!machine.interrupts(|| space.unmap(changer, other).unwrap()));
        let again = [map(), map()];
        assert!(again.contains(&pages) && again.contains(&other), "{again:?}");
    });
}

fn settle_frees_pages_that_wait_for_a_tick<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        let before = space.resident();
        space.unmap(changer, only(HERE)).unwrap();
        space.unmap(second, only(NEXT)).unwrap();
        assert!(machine.interrupts(|| space.settle(changer)));
        assert_eq!(space.resident(), before - 1);
        assert_eq!(machine.load(first, space, HERE), Err(Fault::Unmapped));
        // No CPU is interrupted for pages that all CPUs have flushed.
        space.map(changer, only(HERE), WRITE).unwrap();
        machine.store(first, space, HERE, 1).unwrap();
        space.unmap(changer, only(HERE)).unwrap();
        machine.tick_all([first, second, changer]);
        assert!(!machine.interrupts(|| space.settle(changer)));
        assert_eq!(space.resident(), before - 1);
    });
}

/// Unmapping pages of an object, or more than 64 present pages, interrupts CPUs as in a space that is not
/// lazy.
fn unmapping_object_pages_or_many_pages_is_not_lazy<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, _, changer]| {
        let object = Object::new(changer, 4).unwrap();
        let pages = Pages::new(Page(1000), 4);
        space.map_object(changer, pages, &object, 0, WRITE, Sharing::Shared).unwrap();
        machine.store(first, space, pages.start, 1).unwrap();
        assert!(machine.interrupts(|| space.unmap(changer, pages).unwrap()));
        for (count, lingers) in [(64, true), (65, false)] {
            space.settle(changer);
            let many = Pages::new(Page(2000), count);
            space.map(changer, many, WRITE).unwrap();
            for page in many.iter() {
                machine.store(first, space, page, 1).unwrap();
            }
            let before = space.resident();
            assert_eq!(machine.interrupts(|| space.unmap(changer, many).unwrap()), !lingers);
            assert_eq!(space.resident(), if lingers { before } else { before - count });
        }
    });
}

/// If CPUs do not tick, they are interrupted once per 32 unmapped ranges.
fn many_waiting_ranges_are_flushed_together<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, _, changer]| {
        let many = Pages::new(Page(1000), 100);
        space.map(changer, many, WRITE).unwrap();
        let before = space.resident();
        let mut interrupted = Vec::new();
        for page in many.iter() {
            machine.store(first, space, page, 1).unwrap();
            if machine.interrupts(|| space.unmap(changer, only(page)).unwrap()) {
                interrupted.push(page - many.start);
                assert_eq!(machine.load(first, space, page - 1), Err(Fault::Unmapped));
                // Only the range of this page waits for ticks now.
                assert_eq!(space.resident(), before + 1);
            }
        }
        assert_eq!(interrupted, [32, 64, 96]);
    });
}

/// A fork of a lazy space is also lazy, and does not contain the pages that wait for a tick.
fn a_fork_does_not_copy_pages_that_wait_for_a_tick<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        space.unmap(changer, only(HERE)).unwrap();
        let copy = space.fork(changer).unwrap();
        assert_eq!(machine.load(second, &copy, HERE), Err(Fault::Unmapped));
        assert_eq!(machine.load(first, space, HERE), Err(Fault::Unmapped));
        machine.store(first, &copy, NEXT, 3).unwrap();
        assert!(!machine.interrupts(|| copy.unmap(changer, only(NEXT)).unwrap()));
        assert_eq!(machine.load(first, &copy, NEXT), Ok(3));
        let read = Protection::READ;
        assert!(machine.interrupts(|| copy.map(changer, only(NEXT), read).unwrap()));
    });
}

/// A space may be dropped while some of its pages wait for a tick.
fn a_space_may_be_dropped_while_pages_wait_for_a_tick<A: Architecture>() {
    with_lazy_space::<A>(|_, space, [_, _, changer]| {
        space.unmap(changer, only(HERE)).unwrap();
        assert_eq!(space.resident(), 1);
    });
}

on_each_architecture!(
    a_lazy_unmap_flushes_only_the_calling_cpu,
    frames_are_not_reused_before_the_last_cpu_has_ticked,
    translations_cached_after_the_flush_of_a_tick_stay,
    mapping_pages_that_others_have_cached_flushes_them,
    map_anywhere_does_not_reuse_pages_that_wait_for_a_tick,
    settle_frees_pages_that_wait_for_a_tick,
    unmapping_object_pages_or_many_pages_is_not_lazy,
    many_waiting_ranges_are_flushed_together,
    a_fork_does_not_copy_pages_that_wait_for_a_tick,
    a_space_may_be_dropped_while_pages_wait_for_a_tick,
);
