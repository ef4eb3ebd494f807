//! Tests what other CPUs can access before, during and after a shootdown. The steps run in a fixed order. The
//! machine panics if a CPU uses a frame through a translation that it should have flushed.

mod code;
#[path = "../architectures/each.rs"]
mod each;
mod gigabyte;
mod large;
mod lazy;
mod machine;
mod races;
mod swap;
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

/// Passes to `with` a machine, its three CPUs, and a space in which `ALL` is mapped writable. A shootdown
/// begins with the CPU that has the lowest number. The CPU that changes mappings has the highest number, so a
/// shootdown reaches the other CPUs first.
fn with_space<A: Architecture>(
    with: impl for<'m> FnOnce(&'m Stepped<A>, &Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    with_machine::<A>(|machine, [first, second, changer]| {
        let space = Space::new(&changer).unwrap();
        space.map(&changer, ALL, WRITE).unwrap();
        // Each CPU becomes active in the space.
        for cpu in [&first, &second, &changer] {
            machine.load(cpu, &space, HERE).unwrap();
        }
        with(machine, &space, [&first, &second, &changer]);
    });
}

/// Like [`with_space`], but calls `with` twice: for a space that is not lazy, and for a lazy space. Both
/// spaces must behave the same.
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

fn unmap_flushes_all_cpus<A: Architecture>() {
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

/// The entry is cleared before the flush. If the flush came first, the CPU could cache the entry again before
/// the entry is cleared.
fn unmap_flushes_a_cpu_that_keeps_loading_the_page<A: Architecture>() {
    with_space::<A>(|machine, space, [first, _, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let mut is_mapped = true;
        let loads = || is_mapped = is_mapped && machine.load(first, space, HERE).is_ok();
        machine.all_the_while(loads, || space.unmap(changer, ALL).unwrap());
        assert_eq!(machine.load(first, space, HERE), Err(Fault::Unmapped));
    });
}

fn discard_flushes_all_cpus<A: Architecture>() {
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

fn no_cpu_writes_to_a_page_that_became_read_only<A: Architecture>() {
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

/// Until a CPU flushes its cached translation, programs on this CPU may access the old frame.
fn frames_are_not_reused_before_all_cpus_have_flushed<A: Architecture>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 7).unwrap();
        let others = || assert_eq!(machine.load(first, space, HERE), Ok(7));
        machine.meanwhile(others, || space.discard(changer, ALL).unwrap());
        machine.store(second, space, HERE, 8).unwrap();
        let others = || assert_eq!(machine.load(second, space, HERE), Ok(8));
        machine.meanwhile(others, || space.unmap(changer, ALL).unwrap());
    });
}

/// As in the test above, but two spaces share the frame, and the other space releases it first.
fn shared_frames_are_not_reused_before_the_cpus_of_both_spaces_have_flushed<A: Architecture>() {
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

/// If two spaces share a frame, the frame becomes free when both spaces have unmapped it.
fn shared_frames_are_freed_when_no_space_maps_them<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 7).unwrap();
        machine.store(first, space, FAR, 8).unwrap();
        let copy = space.fork(changer).unwrap();
        machine.store(second, &copy, HERE, 9).unwrap();
        machine.store(first, space, FAR, 10).unwrap();
        copy.unmap(second, ALL).unwrap();
        space.unmap(changer, ALL).unwrap();
        // Frees pages that were unmapped lazily.
        space.settle(changer);
        assert_eq!((space.resident(), copy.resident()), (0, 0));
    });
}

/// An operation waits while another CPU flushes pages of the same table. Without this wait, the operation
/// would end while CPUs could still use the old page. If a new page were then mapped there, these CPUs would
/// see the old page's content.
fn changing_pages_that_are_being_flushed_waits<A: Architecture>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(second, space, HERE, 7).unwrap();
        let others = || {
            assert!(waits(|| space.map(first, only(HERE), WRITE)));
            assert!(waits(|| space.unmap(first, only(HERE))));
            assert!(waits(|| space.protect(first, only(NEXT), READ)));
            assert!(waits(|| space.discard(first, ALL)));
            assert!(waits(|| space.fork(first)));
            // Operations on another table do not wait.
            space.discard(first, only(FAR)).unwrap();
        };
        machine.meanwhile(others, || space.unmap(changer, only(HERE)).unwrap());
        space.map(first, only(HERE), WRITE).unwrap();
        assert_eq!(machine.load(second, space, HERE), Ok(0));
    });
}

/// A CPU that has left a space has no cached translations of that space.
fn a_cpu_that_has_left_a_space_is_not_interrupted<A: Architecture>() {
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

/// Each root table has the kernel's half, which no operation on user pages changes. On AArch64 the kernel has
/// tables of its own.
fn no_operation_changes_the_kernels_entries<A: Architecture>() {
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

fn changing_pages_that_have_been_flushed_does_not_wait<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, _, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        machine.store(first, space, FAR, 1).unwrap();
        machine.meanwhile(|| (), || space.discard(changer, ALL).unwrap());
        space.protect(first, ALL, READ).unwrap();
        space.audit(first);
    });
}

/// The copy contains everything that other CPUs wrote before they were interrupted, and nothing that they
/// wrote later.
fn a_fork_copies_the_state_after_all_cpus_have_flushed_writable_entries<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let copy = machine.meanwhile(
            || {
                machine.store(first, space, HERE, 2).unwrap();
                // If the second CPU's store did not wait, the copy might lack that store, and yet contain a
                // later store of the first CPU.
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

fn all_cpus_of_a_space_see_a_store_that_breaks_sharing<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let copy = space.fork(changer).unwrap();
        // The second CPU caches the translation of the shared page.
        assert_eq!(machine.load(second, space, HERE), Ok(1));
        machine.store(first, space, HERE, 2).unwrap();
        assert_eq!(machine.load(second, space, HERE), Ok(2));
        assert_eq!(machine.load(changer, &copy, HERE), Ok(1));
    });
}

/// If one CPU had the new page and another CPU had the old one, they would not see each other's stores.
fn no_cpu_has_the_new_page_while_another_has_the_old_one<A: Architecture>() {
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

/// A leaf has one flag, which says whether a flush of its pages is in progress. So a copy-on-write break
/// waits while another CPU unmaps a page of the leaf. Without this wait, the end of the unmap could clear the
/// flag during the break's own flush.
fn breaking_sharing_waits_for_the_flush_of_other_pages<A: Architecture>() {
    with_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        machine.store(first, space, NEXT, 1).unwrap();
        let copy = space.fork(changer).unwrap();
        // The space now has its own copy of page `NEXT`.
        machine.store(first, space, NEXT, 2).unwrap();
        let others = || assert!(waits(|| machine.store(second, space, HERE, 2)));
        machine.meanwhile(others, || space.unmap(changer, only(NEXT)).unwrap());
        machine.store(second, space, HERE, 2).unwrap();
        assert_eq!(machine.load(first, &copy, HERE), Ok(1));
    });
}

/// Other CPUs of the space may use a discarded page until they have flushed it.
fn accessing_a_page_that_is_being_discarded_waits<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let _copy = space.fork(changer).unwrap();
        assert_eq!(machine.load(first, space, HERE), Ok(1));
        let others = || {
            assert!(waits(|| machine.load(second, space, HERE)));
            assert_eq!(machine.load(first, space, HERE), Ok(1));
            space.query(second, HERE).expect("the page is mapped");
        };
        machine.meanwhile(others, || space.discard(changer, only(HERE)).unwrap());
        assert_eq!(machine.load(second, space, HERE), Ok(0));
    });
}

/// Until a CPU has flushed the old page, programs on this CPU do not see what devices and the kernel write to
/// the new page.
fn devices_and_the_kernel_wait_for_the_flush_of_the_old_page<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        machine.store(first, space, HERE, 1).unwrap();
        let others = || {
            assert!(waits(|| space.pin(first, HERE, WRITE)));
            assert!(waits(|| space.write(first, HERE.address(), &[2])));
            assert!(waits(|| space.read(first, HERE.address(), &mut [0])));
            assert_eq!(machine.load(first, space, HERE), Ok(1));
        };
        machine.meanwhile(others, || space.discard(changer, only(HERE)).unwrap());
        space.write(second, HERE.address(), &[2]).unwrap();
        assert_eq!(machine.load(first, space, HERE), Ok(2));
    });
}

/// An object keeps a mapping in its reverse map until all CPUs have flushed all pages of the mapping.
/// Otherwise the object's frames could be reused while a CPU still accesses them.
fn unmapping_the_last_part_of_a_mapping_waits_for_unmaps_of_other_parts<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        let object = Object::new(changer, 4).unwrap();
        // The last two pages of a table, and the first two of the next table.
        let (ones, others) = (Pages::new(Page(1534), 2), Pages::new(Page(1536), 2));
        let all = Pages { start: ones.start, end: others.end };
        space.map_object(changer, all, &object, 0, WRITE, Sharing::Shared).unwrap();
        machine.store(first, space, ones.start, 7).unwrap();
        let meanwhile = || {
            assert!(waits(|| space.unmap(second, others)));
            assert_eq!(machine.load(first, space, ones.start), Ok(7));
        };
        machine.meanwhile(meanwhile, || space.unmap(changer, ones).unwrap());
        // The second CPU's unmap was abandoned, so the object's reverse map still contains `others`.
        object.discard(changer, 0..4);
    });
}

/// A cached pointer to a table is flushed when the table is freed. A cached absent entry is flushed by the
/// page fault that it causes.
fn tables_are_not_reused_before_all_cpus_have_flushed<A: Architecture>() {
    with_any_space::<A>(|machine, space, [first, second, changer]| {
        for page in [HERE, FAR] {
            machine.store(first, space, page, 1).unwrap();
            machine.store(second, space, page, 2).unwrap();
        }
        space.unmap(changer, ALL).unwrap();
        space.settle(changer);
        assert!(space.prune(changer, space.pages()) > 0);
        // Reuses the frames of the freed tables as pages.
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

/// If a CPU has cached a read-only or absent entry, it faults until it flushes the entry.
fn all_cpus_can_write_to_a_page_that_they_have_cached_read_only<A: Architecture>() {
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
    unmap_flushes_all_cpus,
    unmap_flushes_a_cpu_that_keeps_loading_the_page,
    tables_are_not_reused_before_all_cpus_have_flushed,
    all_cpus_can_write_to_a_page_that_they_have_cached_read_only,
    discard_flushes_all_cpus,
    no_cpu_writes_to_a_page_that_became_read_only,
    frames_are_not_reused_before_all_cpus_have_flushed,
    shared_frames_are_not_reused_before_the_cpus_of_both_spaces_have_flushed,
    shared_frames_are_freed_when_no_space_maps_them,
    changing_pages_that_are_being_flushed_waits,
    a_cpu_that_has_left_a_space_is_not_interrupted,
    no_operation_changes_the_kernels_entries,
    changing_pages_that_have_been_flushed_does_not_wait,
    a_fork_copies_the_state_after_all_cpus_have_flushed_writable_entries,
    all_cpus_of_a_space_see_a_store_that_breaks_sharing,
    no_cpu_has_the_new_page_while_another_has_the_old_one,
    breaking_sharing_waits_for_the_flush_of_other_pages,
    accessing_a_page_that_is_being_discarded_waits,
    devices_and_the_kernel_wait_for_the_flush_of_the_old_page,
    unmapping_the_last_part_of_a_mapping_waits_for_unmaps_of_other_parts,
);
