//! What other CPUs find before, while and after one has them forget pages: in this order, each time. The
//! machine notices who goes to a frame that he should have forgotten.

#[path = "../architectures/each.rs"]
mod each;
mod lazy;
mod machine;
mod races;
mod turns;

use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, Fault, MapError, Object, Page, Pages, Protection, Sharing, Space};

use each::on_each_architecture;
use machine::{KERNEL, Stepped, waits, with_machine};

const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::READ_WRITE;

/// Two pages of one table, and one of the next.
const HERE: Page = Page(100);
const NEXT: Page = Page(101);
const FAR: Page = Page(600);
const ALL: Pages = Pages::new(HERE, FAR.0 + 1 - HERE.0);

/// One page.
fn only(page: Page) -> Pages {
    Pages::new(page, 1)
}

/// A space of a machine of three CPUs, where `ALL` may be written. They are numbered so that the one who
/// changes things, the last of them, is not the one who comes first when CPUs are asked.
fn with_space<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    with_machine::<A>(|machine, [first, second, changer]| {
        let space = Space::new(&changer).unwrap();
        space.map(&changer, ALL, WRITE).unwrap();
        // They are CPUs of the space, in any case.
        for cpu in [&first, &second, &changer] {
            machine.load(cpu, &space, HERE).unwrap();
        }
        with(machine, &space, [&first, &second, &changer]);
    });
}

/// The same, and again with a space that is lazy: that is to make no difference.
fn with_any_space<A: Architecture>(
    with: impl for<'m> Fn(&'m Stepped<A>, &Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    for is_lazy in [false, true] {
        with_space::<A>(|machine, space, cpus| {
            space.set_lazy(is_lazy);
            with(machine, space, cpus);
        });
    }
}

fn what_is_unmapped_is_forgotten_by_all<A: Architecture>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        for page in [HERE, NEXT, FAR] {
            machine.store(first, space, page, 1).unwrap();
            machine.store(second, space, page, 2).unwrap();
        }
        space.unmap(changer, ALL).unwrap();
        for cpu in [first, second] {
            for page in [HERE, NEXT, FAR] {
                assert_eq!(machine.load(cpu, space, page), Err(Fault::Unmapped));
            }
        }
    });
}

fn what_is_discarded_is_forgotten_by_all<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        for page in [HERE, NEXT, FAR] {
            machine.store(first, space, page, 1).unwrap();
            machine.load(second, space, page).unwrap();
        }
        space.discard(changer, ALL).unwrap();
        for cpu in [first, second] {
            for page in [HERE, NEXT, FAR] {
                assert_eq!(machine.load(cpu, space, page), Ok(0));
            }
        }
    });
}

fn what_may_not_be_written_any_more_is_written_by_nobody<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        for page in [HERE, NEXT, FAR] {
            machine.store(first, space, page, 1).unwrap();
            machine.store(second, space, page, 2).unwrap();
        }
        space.protect(changer, ALL, READ).unwrap();
        for cpu in [first, second] {
            for page in [HERE, NEXT, FAR] {
                assert_eq!(machine.store(cpu, space, page, 3), Err(Fault::AccessDenied));
                assert_eq!(machine.load(cpu, space, page), Ok(2));
            }
        }
    });
}

/// By what its CPU has not forgotten yet, a program goes to a frame until it is told to forget it.
fn frames_are_not_used_again_before_all_have_forgotten_them<A: Architecture>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 7).unwrap();
        let others = || assert_eq!(machine.load(first, space, HERE), Ok(7));
        machine.meanwhile(others, || space.discard(changer, ALL).unwrap());
        machine.store(second, space, HERE, 8).unwrap();
        let others = || assert_eq!(machine.load(second, space, HERE), Ok(8));
        machine.meanwhile(others, || space.unmap(changer, ALL).unwrap());
    });
}

/// The same where two spaces have the frame, and the other one lets go of it first.
fn frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them<
    A: Architecture,
>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        for removes in [Space::discard, Space::unmap] {
            machine.store(first, space, HERE, 7).unwrap();
            let copy = space.fork(changer).unwrap();
            assert_eq!(machine.load(first, space, HERE), Ok(7));
            let others = || {
                copy.unmap(second, ALL).unwrap();
                assert_eq!(machine.load(first, space, HERE), Ok(7));
            };
            machine.meanwhile(others, || removes(space, changer, ALL).unwrap());
        }
    });
}

/// Frames of two spaces whose entries have all gone are free.
fn frames_of_two_spaces_come_back<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 7).unwrap();
        machine.store(first, space, FAR, 8).unwrap();
        let copy = space.fork(changer).unwrap();
        machine.store(second, &copy, HERE, 9).unwrap();
        machine.store(first, space, FAR, 10).unwrap();
        copy.unmap(second, ALL).unwrap();
        space.unmap(changer, ALL).unwrap();
        // What was unmapped lazily.
        space.settle(changer);
        assert_eq!((space.resident(), copy.resident()), (0, 0));
    });
}

/// Otherwise it would be over while CPUs can go to the page still, and what is mapped there then would
/// be seen to have the old content.
fn who_changes_pages_that_are_being_flushed_waits<A: Architecture>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(second, space, HERE, 7).unwrap();
        let others = || {
            assert!(waits(|| space.map(first, only(HERE), WRITE)));
            assert!(waits(|| space.unmap(first, only(HERE))));
            assert!(waits(|| space.protect(first, only(NEXT), READ)));
            assert!(waits(|| space.discard(first, ALL)));
            assert!(waits(|| space.fork(first)));
            // Pages of another table are nobody's business.
            space.discard(first, only(FAR)).unwrap();
        };
        machine.meanwhile(others, || space.unmap(changer, only(HERE)).unwrap());
        space.map(first, only(HERE), WRITE).unwrap();
        assert_eq!(machine.load(second, space, HERE), Ok(0));
    });
}

/// Who has gone to another space knows nothing that could go.
fn who_has_left_a_space_is_not_interrupted_until_it_is_back<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        machine.store(second, space, HERE, 2).unwrap();
        machine.leave(first, space);
        space.discard(changer, ALL).unwrap();
        assert_eq!(machine.interrupted(), [second.number(), changer.number()]);
        assert_eq!(machine.load(first, space, HERE), Ok(0));
        machine.store(second, space, HERE, 3).unwrap();
        space.discard(changer, ALL).unwrap();
        assert_eq!(machine.interrupted(), [0, 1, 2]);
        assert_eq!(machine.load(first, space, HERE), Ok(0));
        machine.leave(first, space);
        space.unmap(changer, ALL).unwrap();
        space.settle(changer);
        assert_eq!(machine.interrupted(), [second.number(), changer.number()]);
        assert_eq!(machine.load(first, space, HERE), Err(Fault::Unmapped));
    });
}

/// The kernel's half of the tables is in each space, and none of it is a program's. On AArch64 the kernel has
/// tables of its own.
fn what_the_kernel_has_in_tables_stays<A: Architecture>() {
    if !A::HAS_KERNEL {
        return;
    }
    with_any_space::<A>(|machine, space, [first, _, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let copy = space.fork(changer).unwrap();
        let end = space.pages().end;
        assert_eq!(space.map(changer, Pages::new(end - 1, 2), WRITE), Err(MapError::OutOfRange));
        space.map(changer, only(end - 1), WRITE).unwrap();
        machine.store(first, space, end - 1, 1).unwrap();
        for one in [space, &copy] {
            one.unmap(changer, one.pages()).unwrap();
            one.prune(changer, one.pages());
            one.settle(changer);
            one.audit(changer);
            assert_eq!(machine.kernel(one.table()), KERNEL);
        }
    });
}

fn nobody_waits_when_pages_have_been_flushed<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, _, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        machine.store(first, space, FAR, 1).unwrap();
        machine.meanwhile(|| (), || space.discard(changer, ALL).unwrap());
        space.protect(first, ALL, READ).unwrap();
        space.audit(first);
    });
}

/// What others wrote before they were told is in the copy, and nothing that comes later.
fn a_copy_is_what_there_was_when_all_had_forgotten_how_to_write<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let copy = machine.meanwhile(
            || {
                machine.store(first, space, HERE, 2).unwrap();
                // That would not be in it, and what is written next by others would.
                assert!(waits(|| machine.store(second, space, NEXT, 2)));
                assert!(waits(|| machine.store(second, space, FAR, 2)));
                assert!(waits(|| space.unmap(second, only(FAR))));
                assert!(waits(|| space.map(second, only(FAR + 1), READ)));
                assert!(waits(|| space.fork(second)));
            },
            || space.fork(changer).unwrap(),
        );
        machine.store(first, space, HERE, 3).unwrap();
        machine.store(second, space, NEXT, 3).unwrap();
        assert_eq!(machine.load(changer, &copy, HERE), Ok(2));
        assert_eq!(machine.load(changer, &copy, NEXT), Ok(0));
        assert_eq!(machine.load(second, space, HERE), Ok(3));
    });
}

fn what_one_writes_to_a_page_of_two_spaces_is_seen_by_all_of_its_own<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let copy = space.fork(changer).unwrap();
        // He knows the page that both have.
        assert_eq!(machine.load(second, space, HERE), Ok(1));
        machine.store(first, space, HERE, 2).unwrap();
        assert_eq!(machine.load(second, space, HERE), Ok(2));
        assert_eq!(machine.load(changer, &copy, HERE), Ok(1));
    });
}

/// One who has the new page and one who has the old one would each not see what the other writes.
fn nobody_has_the_new_page_while_another_has_the_old_one<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let _copy = space.fork(changer).unwrap();
        assert_eq!(machine.load(first, space, HERE), Ok(1));
        let others = || {
            assert_eq!(machine.load(first, space, HERE), Ok(1));
            assert!(waits(|| machine.store(second, space, HERE, 2)));
            assert!(waits(|| space.unmap(second, only(HERE))));
            assert!(waits(|| space.discard(second, only(HERE))));
        };
        machine.meanwhile(others, || machine.store(changer, space, HERE, 3).unwrap());
        machine.store(second, space, HERE, 4).unwrap();
        assert_eq!(machine.load(first, space, HERE), Ok(4));
    });
}

/// The flush of a copy would be over with that of somebody else's pages.
fn who_needs_a_copy_waits_for_the_flush_of_other_pages<A: Architecture>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        machine.store(first, space, NEXT, 1).unwrap();
        let copy = space.fork(changer).unwrap();
        // Of one's own.
        machine.store(first, space, NEXT, 2).unwrap();
        let others = || assert!(waits(|| machine.store(second, space, HERE, 2)));
        machine.meanwhile(others, || space.unmap(changer, only(NEXT)).unwrap());
        machine.store(second, space, HERE, 2).unwrap();
        assert_eq!(machine.load(first, &copy, HERE), Ok(1));
    });
}

/// What is discarded is still what others of the space have, until they have forgotten it.
fn who_goes_to_a_page_that_is_on_its_way_out_waits<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let _copy = space.fork(changer).unwrap();
        assert_eq!(machine.load(first, space, HERE), Ok(1));
        let others = || {
            assert!(waits(|| machine.load(second, space, HERE)));
            assert_eq!(machine.load(first, space, HERE), Ok(1));
            space.query(second, HERE).expect("it is mapped");
        };
        machine.meanwhile(others, || space.discard(changer, only(HERE)).unwrap());
        assert_eq!(machine.load(second, space, HERE), Ok(0));
    });
}

/// An object finds where it is mapped until all CPUs have forgotten all of that: else its pages would be
/// somebody else's while one of them goes there.
fn who_unmaps_the_last_pages_of_an_object_waits_for_who_unmaps_the_others<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        let object = Object::new(changer, 4).unwrap();
        // Two pages at the end of a table, and two of the next.
        let (ones, others) = (Pages::new(Page(1534), 2), Pages::new(Page(1536), 2));
        let all = Pages { start: ones.start, end: others.end };
        space.map_object(changer, all, &object, 0, WRITE, Sharing::Shared).unwrap();
        machine.store(first, space, ones.start, 7).unwrap();
        let meanwhile = || {
            assert!(waits(|| space.unmap(second, others)));
            assert_eq!(machine.load(first, space, ones.start), Ok(7));
        };
        machine.meanwhile(meanwhile, || space.unmap(changer, ones).unwrap());
        // Who waited was not let go on here, so that the object still finds the mapping.
        object.discard(changer, 0..4);
    });
}

/// What a CPU has cached of a table, or of its absence, is flushed when it is freed, or after one fault too many.
fn tables_are_not_used_again_before_all_have_flushed_them<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        for page in [HERE, FAR] {
            machine.store(first, space, page, 1).unwrap();
            machine.store(second, space, page, 2).unwrap();
        }
        space.unmap(changer, ALL).unwrap();
        space.settle(changer);
        assert!(space.prune(changer, space.pages()) > 0);
        // Frames that were tables are pages now.
        let others = Pages::new(Page(1 << 20), 64);
        space.map(changer, others, WRITE).unwrap();
        for page in others.iter() {
            machine.store(changer, space, page, u64::MAX).unwrap();
        }
        for cpu in [first, second] {
            assert_eq!(machine.load(cpu, space, HERE), Err(Fault::Unmapped));
        }
        space.map(changer, ALL, WRITE).unwrap();
        for cpu in [first, second, changer] {
            assert_eq!(machine.load(cpu, space, FAR), Ok(0));
        }
    });
}

/// A CPU that has cached that a page may only be read, or is not there, faults until that is flushed.
fn a_page_that_was_read_is_written_by_all<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        let cpus = [first, second, changer];
        space.protect(changer, ALL, READ).unwrap();
        for cpu in cpus {
            for page in [HERE, FAR] {
                assert_eq!(machine.load(cpu, space, page), Ok(0));
                assert_eq!(machine.store(cpu, space, page, 1), Err(Fault::AccessDenied));
            }
        }
        space.protect(changer, ALL, WRITE).unwrap();
        for cpu in cpus {
            machine.store(cpu, space, HERE, cpu.number() as u64).unwrap();
            assert_eq!(machine.load(cpu, space, HERE), Ok(cpu.number() as u64));
        }
        let _copy = space.fork(changer).unwrap();
        for cpu in cpus {
            machine.store(cpu, space, FAR, 5 + cpu.number() as u64).unwrap();
            assert_eq!(machine.load(first, space, FAR), Ok(5 + cpu.number() as u64));
        }
    });
}

on_each_architecture!(
    what_is_unmapped_is_forgotten_by_all,
    tables_are_not_used_again_before_all_have_flushed_them,
    a_page_that_was_read_is_written_by_all,
    what_is_discarded_is_forgotten_by_all,
    what_may_not_be_written_any_more_is_written_by_nobody,
    frames_are_not_used_again_before_all_have_forgotten_them,
    frames_of_two_spaces_are_not_used_again_before_all_cpus_of_both_have_forgotten_them,
    frames_of_two_spaces_come_back,
    who_changes_pages_that_are_being_flushed_waits,
    who_has_left_a_space_is_not_interrupted_until_it_is_back,
    what_the_kernel_has_in_tables_stays,
    nobody_waits_when_pages_have_been_flushed,
    a_copy_is_what_there_was_when_all_had_forgotten_how_to_write,
    what_one_writes_to_a_page_of_two_spaces_is_seen_by_all_of_its_own,
    nobody_has_the_new_page_while_another_has_the_old_one,
    who_needs_a_copy_waits_for_the_flush_of_other_pages,
    who_goes_to_a_page_that_is_on_its_way_out_waits,
    who_unmaps_the_last_pages_of_an_object_waits_for_who_unmaps_the_others,
);
