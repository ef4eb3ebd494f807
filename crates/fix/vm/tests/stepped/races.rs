//! Runs two concurrent operations many times, so that the second begins once at each possible point of the
//! first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, Object, Page, Pages, Sharing, Space};

use crate::each::on_each_architecture;
use crate::machine::{Stepped, waits, with_machine};
use crate::turns::at_each_point;
use crate::{FAR, HERE, READ, WRITE, only};

/// A copy never keeps a page that the object no longer has: when an operation removes pages from the object,
/// the operation finds the copy and the copy's entries, no matter when the copy is made.
fn removing_pages_from_an_object_finds_a_copy_that_is_being_made<A: Architecture>() {
    // The CPU numbers determine whether `discard` visits the copy before or after the other spaces.
    let cpus = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1)];
    for ((forks, discards), forks_first) in
        cpus.into_iter().flat_map(|cpus| [(cpus, true), (cpus, false)])
    {
        at_each_point::<A>(|run| {
            with_machine::<A>(|machine, cpus| {
                let object = Object::new(&cpus[0], 1).unwrap();
                let map = |cpu| {
                    let space = Space::new(cpu).unwrap();
                    space
                        .map_object(cpu, only(Page(7)), &object, 0, WRITE, Sharing::Shared)
                        .unwrap();
                    machine.store(cpu, &space, Page(7), 1).unwrap();
                    space
                };
                let [space, _other] = [&cpus[1], &cpus[2]].map(map);
                let mut copy = None;
                let mut fork = || copy = Some(space.fork(&cpus[forks]).unwrap());
                let mut discard = || {
                    object.discard(&cpus[discards], 0..1);
                };
                match forks_first {
                    true => run(machine, &mut fork, &mut discard),
                    false => run(machine, &mut discard, &mut fork),
                }
                let copy = copy.expect("the fork has run");
                assert_eq!(machine.load(&cpus[0], &copy, Page(7)), Ok(0));
                assert_eq!(machine.load(&cpus[0], &space, Page(7)), Ok(0));
            });
        });
    }
}

/// If copies are made while an operation removes pages, the operation starts over. After a few passes, forks
/// wait for the operation.
fn forks_in_a_loop_wait_for_an_operation_that_removes_pages<A: Architecture>() {
    with_machine::<A>(|machine, [first, second, changer]| {
        let object = Object::new(&changer, 1).unwrap();
        let space = Space::new(&changer).unwrap();
        space.map_object(&changer, only(Page(7)), &object, 0, WRITE, Sharing::Shared).unwrap();
        machine.store(&first, &space, Page(7), 1).unwrap();
        // The latest copies. The number of frames limits how many copies can exist.
        let (mut copies, mut count, mut waited) = (VecDeque::new(), 0, [false; 2]);
        let others = || {
            assert!(count < 1000, "`discard` starts over forever");
            if copies.len() == 20 {
                copies.pop_front();
            }
            count += 1;
            waited[0] |= waits(|| copies.push_back(space.fork(&second).unwrap()));
            let places = [only(Page(7)), only(Page(9))];
            let is_first = space.query(&first, Page(7)).is_some();
            let [here, there] = if is_first { places } else { [places[1], places[0]] };
            waited[1] |= waits(|| space.remap(&first, here, there));
        };
        assert_eq!(machine.all_the_while(others, || object.discard(&changer, 0..1)), 1);
        assert_eq!(waited, [true; 2]);
        drop(space.fork(&second).unwrap());
        for copy in &copies {
            let page = if copy.query(&first, Page(7)).is_some() { Page(7) } else { Page(9) };
            assert_eq!(machine.load(&first, copy, page), Ok(0));
        }
    });
}

/// A fork begins at any point of a loop in which another CPU maps, stores and unmaps. An operation that is
/// already in progress completes, and the next operation waits for the fork.
fn a_fork_does_not_wait_for_later_operations<A: Architecture>() {
    for is_lazy in [false, true] {
        at_each_point::<A>(|run| {
            with_machine::<A>(|machine, [changer, second, forker]| {
                let space = Space::new(&changer).unwrap();
                space.set_lazy(is_lazy);
                space.map(&changer, only(HERE), WRITE).unwrap();
                machine.load(&second, &space, HERE).unwrap();
                let (copy, has_begun) = (RefCell::new(None), Cell::new(false));
                let mut change = || {
                    // Whether the fork had begun at the start of the previous round, and at the start of this
                    // round.
                    let mut begun = [false; 2];
                    for round in 0..4 {
                        begun = [begun[1], has_begun.get()];
                        space.map(&changer, only(FAR), WRITE).unwrap();
                        machine.store(&changer, &space, FAR, round).unwrap();
                        space.unmap(&changer, only(FAR)).unwrap();
                        assert!(!begun[0] || copy.borrow().is_some(), "the fork waits forever");
                    }
                };
                let mut fork = || {
                    has_begun.set(true);
                    *copy.borrow_mut() = Some(space.fork(&forker).unwrap());
                };
                run(machine, &mut change, &mut fork);
                let copy = copy.into_inner().expect("the fork has run");
                assert_eq!(machine.load(&second, &copy, HERE), Ok(0));
                space.audit(&changer);
                space.settle(&changer);
            });
        });
    }
}

/// While a CPU forks in a loop, other operations get to run between two forks.
fn an_operation_that_waits_for_a_fork_does_not_wait_for_the_next_fork<A: Architecture>() {
    type Operation<A> = for<'m> fn(&'m Stepped<A>, &Space<'m, Stepped<A>>, &Cpu<'m, Stepped<A>>);
    let map: Operation<A> = |_, space, cpu| space.map(cpu, only(FAR), WRITE).unwrap();
    let store: Operation<A> = |machine, space, cpu| machine.store(cpu, space, HERE, 5).unwrap();
    for operation in [map, store] {
        at_each_point::<A>(|run| {
            with_machine::<A>(|machine, [forker, other, _]| {
                let space = Space::new(&forker).unwrap();
                space.map(&forker, only(HERE), WRITE).unwrap();
                let (is_done, has_begun) = (Cell::new(false), Cell::new(false));
                let mut fork = || {
                    let mut begun = [false; 2];
                    for round in 0..4 {
                        begun = [begun[1], has_begun.get()];
                        machine.store(&forker, &space, HERE, round).unwrap();
                        space.fork(&forker).unwrap();
                        assert!(!begun[0] || is_done.get(), "the operation waits forever");
                    }
                };
                let mut operate = || {
                    has_begun.set(true);
                    operation(machine, &space, &other);
                    is_done.set(true);
                };
                run(machine, &mut fork, &mut operate);
                assert!(is_done.get());
            });
        });
    }
}

/// Two CPUs move pages of one mapping. Each CPU moves a page within its own table.
fn parts_of_a_mapping_that_two_cpus_move_keep_their_content<A: Architecture>() {
    const PLACES: [Page; 2] = [Page(5), Page(520)];
    at_each_point::<A>(|run| {
        with_machine::<A>(|machine, cpus| {
            let object = Object::new(&cpus[0], 600).unwrap();
            let space = Space::new(&cpus[0]).unwrap();
            let all = Pages::new(Page(0), 600);
            space.map_object(&cpus[0], all, &object, 0, WRITE, Sharing::Shared).unwrap();
            for page in PLACES {
                machine.store(&cpus[0], &space, page, page.0).unwrap();
                // `protect` pushes the extent down to the leaf of `page`.
                space.protect(&cpus[0], only(page), READ).unwrap();
                space.unmap(&cpus[0], only(page + 10)).unwrap();
            }
            let remap = |cpu: usize| {
                let page = PLACES[cpu - 1];
                space.remap(&cpus[cpu], only(page), only(page + 10)).unwrap();
            };
            run(machine, &mut || remap(1), &mut || remap(2));
            for page in PLACES {
                assert_eq!(machine.load(&cpus[0], &space, page + 10), Ok(page.0));
                let mut found = Vec::new();
                object.mappings(&cpus[0], page.0, |_, page| found.push(page));
                assert_eq!(found, [page + 10]);
            }
        });
    });
}

on_each_architecture!(
    removing_pages_from_an_object_finds_a_copy_that_is_being_made,
    forks_in_a_loop_wait_for_an_operation_that_removes_pages,
    a_fork_does_not_wait_for_later_operations,
    an_operation_that_waits_for_a_fork_does_not_wait_for_the_next_fork,
    parts_of_a_mapping_that_two_cpus_move_keep_their_content,
);
