//! Pages that are swapped out and in while other CPUs access them, copy them and unmap them.

use std::cell::RefCell;
use std::sync::Arc;

use knee_models::disk::Disk;
use knee_vm::hosted::Architecture;
use knee_vm::{Cpu, PagerError, Space, Swap, Usage};

use crate::each::on_each_architecture;
use crate::machine::{Stepped, waits, with_machine};
use crate::turns::at_each_point;
use crate::{ALL, HERE, NEXT, WRITE, only};

/// Passes to `with` a machine, its three CPUs, and a space that uses this swap area. `ALL` is mapped writable
/// in the space. All CPUs have cached `HERE`, which contains 1. `NEXT` contains 2.
fn with_space<A: Architecture>(
    swap: &Arc<Swap>,
    with: impl for<'m> FnOnce(&'m Stepped<A>, Space<'m, Stepped<A>>, [&Cpu<'m, Stepped<A>>; 3]),
) {
    with_machine::<A>(|machine, [first, second, changer]| {
        let space = Space::with_swap(&changer, None, Arc::clone(swap)).unwrap();
        space.map(&changer, ALL, WRITE).unwrap();
        machine.store(&changer, &space, NEXT, 2).unwrap();
        for cpu in [&first, &second, &changer] {
            machine.store(cpu, &space, HERE, 1).unwrap();
        }
        with(machine, space, [&first, &second, &changer]);
        assert_eq!(swap.used(), 0, "the slot is free again");
    });
}

/// Until the flush, a CPU that has cached the page's translation can still write to the page. The swap device
/// gets these stores.
fn the_device_gets_stores_through_cached_translations<A: Architecture>() {
    with_space::<A>(&Disk::default().swap(2), |machine, space, [first, second, changer]| {
        let others = || {
            machine.store(first, &space, HERE, 7).unwrap();
            // Without a cached translation, a CPU waits for the device.
            machine.leave(second, &space);
            assert!(waits(|| machine.load(second, &space, HERE)));
        };
        let swap_out = || assert_eq!(space.swap_out(changer, only(HERE)), Ok(1));
        machine.meanwhile(others, swap_out);
        assert_eq!(space.frame(changer, HERE), None);
        assert_eq!(machine.load(second, &space, HERE), Ok(7));
        assert_eq!(machine.load(first, &space, HERE), Ok(7));
    });
}

/// A store is not lost, even if it comes in the middle of the swap-out.
fn a_store_at_any_time_is_not_lost<A: Architecture>() {
    at_each_point::<A>(|run| {
        with_space::<A>(&Disk::default().swap(2), |machine, space, [first, second, changer]| {
            let mut swap_out = || _ = space.swap_out(changer, ALL).unwrap();
            let mut store = || {
                for value in 2..5 {
                    machine.store(first, &space, HERE, value).unwrap();
                    assert_eq!(machine.load(first, &space, HERE), Ok(value));
                }
            };
            run(machine, &mut swap_out, &mut store);
            assert_eq!(machine.load(second, &space, HERE), Ok(4));
        });
    });
}

/// If a fork comes in the middle of the swap-out, both the space and the copy have the page, even if the
/// device rejects the page.
fn a_fork_at_any_time_copies_the_page<A: Architecture>() {
    for fails in [false, true] {
        at_each_point::<A>(|run| {
            let disk = Disk::default();
            let swap = disk.swap(2);
            with_space::<A>(&swap, |machine, space, [first, second, changer]| {
                disk.fail(fails.into());
                let copy = RefCell::new(None);
                let mut swap_out = || {
                    let result = space.swap_out(changer, ALL);
                    let is_expected = match result {
                        Ok(count) => count <= 2,
                        Err(error) => fails && error == PagerError::Failed,
                    };
                    assert!(is_expected, "{result:?}");
                };
                let mut fork = || *copy.borrow_mut() = Some(space.fork(first).unwrap());
                run(machine, &mut swap_out, &mut fork);
                disk.fail(0);
                let copy = copy.into_inner().expect("the fork has run");
                copy.audit(changer);
                space.audit(changer);
                machine.store(second, &space, HERE, 3).unwrap();
                assert_eq!(machine.load(second, &copy, HERE), Ok(1));
                assert_eq!(machine.load(second, &space, HERE), Ok(3));
                for space in [&space, &copy] {
                    assert_eq!(machine.load(second, space, NEXT), Ok(2));
                }
                assert_eq!(swap.used(), 0);
            });
        });
    }
}

/// While a CPU reads a page from the device, another CPU unmaps the page, and swaps out a page that gets the
/// same slot.
fn a_slot_is_not_reused_while_a_cpu_reads_it<A: Architecture>() {
    at_each_point::<A>(|run| {
        let swap = Disk::default().swap(1);
        with_space::<A>(&swap, |machine, space, [first, second, changer]| {
            assert_eq!(space.swap_out(changer, only(HERE)), Ok(1));
            let mut load = || {
                let found = machine.load(first, &space, HERE);
                assert!(found == Ok(1) || found == Ok(0), "{found:?}");
            };
            let mut discard = || {
                space.discard(changer, only(HERE)).unwrap();
                assert!(space.swap_out(changer, only(NEXT)).unwrap() <= 1);
            };
            run(machine, &mut load, &mut discard);
            let is_out = u64::from(space.frame(changer, NEXT).is_none());
            assert_eq!(swap.used(), is_out);
            assert_eq!(machine.load(second, &space, HERE), Ok(0));
            assert_eq!(machine.load(second, &space, NEXT), Ok(2));
        });
    });
}

/// Two CPUs that access a swapped page at the same time bring it into one frame.
fn two_cpus_bring_in_one_page<A: Architecture>() {
    at_each_point::<A>(|run| {
        with_space::<A>(&Disk::default().swap(2), |machine, space, [first, second, changer]| {
            assert_eq!(space.swap_out(changer, only(HERE)), Ok(1));
            let mut load = || {
                assert!(matches!(machine.load(first, &space, HERE), Ok(1 | 3)));
            };
            let mut store = || {
                assert_eq!(machine.load(second, &space, HERE), Ok(1));
                machine.store(second, &space, HERE, 3).unwrap();
            };
            run(machine, &mut load, &mut store);
            assert_eq!(machine.load(first, &space, HERE), Ok(3));
            assert_eq!(machine.load(second, &space, HERE), Ok(3));
        });
    });
}

/// No matter at which point of the swap-out a CPU stores to a page, the dirty log contains this page exactly
/// once.
fn a_store_at_any_time_is_in_the_dirty_log<A: Architecture>() {
    at_each_point::<A>(|run| {
        with_space::<A>(&Disk::default().swap(2), |machine, space, [first, second, changer]| {
            let log = |cpu| {
                let mut dirty = Vec::new();
                let add = |page, usage: Usage| {
                    if usage.contains(Usage::DIRTY) {
                        dirty.push(page);
                    }
                };
                space.usage(cpu, ALL, Usage::DIRTY, add).unwrap();
                dirty
            };
            assert_eq!(log(changer), [HERE, NEXT]);
            let mut swap_out = || _ = space.swap_out(changer, ALL).unwrap();
            let mut store = || machine.store(first, &space, HERE, 7).unwrap();
            run(machine, &mut swap_out, &mut store);
            assert_eq!(log(changer), [HERE]);
            assert_eq!(log(changer), []);
            assert_eq!(machine.load(second, &space, HERE), Ok(7));
            assert_eq!(machine.load(second, &space, NEXT), Ok(2));
        });
    });
}

on_each_architecture!(
    the_device_gets_stores_through_cached_translations,
    a_store_at_any_time_is_not_lost,
    a_fork_at_any_time_copies_the_page,
    a_slot_is_not_reused_while_a_cpu_reads_it,
    two_cpus_bring_in_one_page,
    a_store_at_any_time_is_in_the_dirty_log,
);
