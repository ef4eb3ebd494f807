//! What is weaker in spaces that are lazy: CPUs go on to use what was unmapped until they tick, and nothing
//! else.

use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, Fault, Object, Page, Pages, Protection, Sharing, Space};

use crate::each::on_each_architecture;
use crate::machine::Stepped;
use crate::{ALL, FAR, HERE, NEXT, WRITE, only, with_space};

/// A lazy space where `HERE` has 7, and the first CPU knows it.
fn with_lazy_space<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    with_space::<A>(|machine, space, cpus| {
        space.set_lazy(true);
        machine.store(cpus[0], space, HERE, 7).unwrap();
        with(machine, space, cpus);
    });
}

fn who_unmaps_interrupts_nobody_and_forgets_at_once<A: Architecture>() {
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

/// Frames come back with the next that the CPU unmaps when all have ticked, and not before.
fn frames_are_not_used_again_before_the_last_has_ticked<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        space.unmap(changer, only(HERE)).unwrap();
        let before = space.resident();
        let goes_on = |page| {
            machine.store(second, space, page, 1).unwrap();
            space.unmap(changer, only(page)).unwrap();
            // A new frame that is not the one that the first CPU goes to.
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
        // Of the second CPU's pages all but the last were before its tick.
        assert_eq!(space.resident(), before + 1);
    });
}

/// What a CPU learns in the interrupt, after it has forgotten, it forgets with the next.
fn what_is_learnt_in_a_tick_is_not_forgotten_by_it<A: Architecture>() {
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

/// Nobody finds old content where something is mapped, whoever has mapped it.
fn who_maps_what_others_know_has_them_forget_it<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        for pages in [only(HERE), Pages::new(HERE, 600)] {
            machine.store(first, space, HERE, 7).unwrap();
            space.unmap(changer, only(HERE)).unwrap();
            space.unmap(second, ALL).unwrap();
            // What is mapped elsewhere, in the same table, is nobody's business.
            assert!(!machine.interrupts(|| space.map(second, only(NEXT), WRITE).unwrap()));
            space.unmap(second, only(NEXT)).unwrap();
            space.map(second, pages, WRITE).unwrap();
            assert_eq!(machine.load(first, space, HERE), Ok(0));
        }
    });
}

/// And their addresses are nobody's before that.
fn what_lingers_is_not_mapped_where_there_is_room<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        let map = || space.map_anywhere(changer, 3, WRITE).unwrap();
        let pages = map();
        machine.store(first, space, pages.start, 1).unwrap();
        space.unmap(changer, pages).unwrap();
        let other = map();
        assert!(!other.overlaps(pages));
        machine.tick_all([first, second, changer]);
        // It had no page, so it is free at once.
        assert!(!machine.interrupts(|| space.unmap(changer, other).unwrap()));
        let again = [map(), map()];
        assert!(again.contains(&pages) && again.contains(&other), "{again:?}");
    });
}

fn what_lingers_comes_back_when_memory_is_scarce<A: Architecture>() {
    with_lazy_space::<A>(|machine, space, [first, second, changer]| {
        let before = space.resident();
        space.unmap(changer, only(HERE)).unwrap();
        space.unmap(second, only(NEXT)).unwrap();
        assert!(machine.interrupts(|| space.settle(changer)));
        assert_eq!(space.resident(), before - 1);
        assert_eq!(machine.load(first, space, HERE), Err(Fault::Unmapped));
        // Nobody is asked for what all have forgotten.
        space.map(changer, only(HERE), WRITE).unwrap();
        machine.store(first, space, HERE, 1).unwrap();
        space.unmap(changer, only(HERE)).unwrap();
        machine.tick_all([first, second, changer]);
        assert!(!machine.interrupts(|| space.settle(changer)));
        assert_eq!(space.resident(), before - 1);
    });
}

/// What is unmapped of an object, or of which much is present: as ever.
fn not_all_that_is_unmapped_lingers<A: Architecture>() {
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

/// CPUs that do not tick are interrupted once for many ranges.
fn many_that_linger_are_forgotten_together<A: Architecture>() {
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
                // The one of this page is the next that waits.
                assert_eq!(space.resident(), before + 1);
            }
        }
        assert_eq!(interrupted, [32, 64, 96]);
    });
}

/// A copy has nothing of what lingers, and is lazy itself.
fn what_lingers_is_not_copied<A: Architecture>() {
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

/// A space ends with what lingers in it.
fn what_lingers_ends_with_its_space<A: Architecture>() {
    with_lazy_space::<A>(|_, space, [_, _, changer]| {
        space.unmap(changer, only(HERE)).unwrap();
        assert_eq!(space.resident(), 1);
    });
}

on_each_architecture!(
    who_unmaps_interrupts_nobody_and_forgets_at_once,
    frames_are_not_used_again_before_the_last_has_ticked,
    what_is_learnt_in_a_tick_is_not_forgotten_by_it,
    who_maps_what_others_know_has_them_forget_it,
    what_lingers_is_not_mapped_where_there_is_room,
    what_lingers_comes_back_when_memory_is_scarce,
    not_all_that_is_unmapped_lingers,
    many_that_linger_are_forgotten_together,
    what_lingers_is_not_copied,
    what_lingers_ends_with_its_space,
);
