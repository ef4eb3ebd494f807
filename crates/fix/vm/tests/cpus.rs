//! Tests that CPUs of the hosted machine leave spaces, and acknowledge shootdowns from other CPUs.

#[path = "architectures/each.rs"]
mod each;

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;

use each::on_each_architecture;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{Page, Pages, Protection, Space, VirtAddr};

const WRITE: Protection = Protection::READ_WRITE;

/// Both CPUs run on this thread, so an operation that waited for the other CPU would never return.
fn no_operation_waits_for_a_cpu_that_left_the_space<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(64, 2);
    let (cpu, other) = (machine.cpu(0), machine.cpu(1));
    let (space, next) = (Space::new(&cpu).unwrap(), Space::new(&cpu).unwrap());
    let (pages, address) = (Pages::new(Page(16), 4), Page(16).address());
    for space in [&space, &next] {
        space.map(&cpu, pages, WRITE).unwrap();
        other.store(space, address, 7).unwrap();
    }
    other.leave(&space);
    space.unmap(&cpu, pages).unwrap();
    assert!(other.load(&space, address).is_err());
    assert_eq!(other.load(&next, address), Ok(7));
}

fn a_cpu_that_accesses_no_memory_acknowledges_in_handle_ipis<A: Architecture>() {
    const MOST: u32 = 20_000_000;
    let machine = Hosted::<A>::with_architecture(64, 2);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let (there, over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        scope.spawn(|| {
            let other = machine.cpu(1);
            space.map(&other, Pages::new(Page(0), 1), WRITE).unwrap();
            other.store(&space, VirtAddr(0), 7).unwrap();
            there.store(true, Relaxed);
            for _ in 0..MOST {
                other.handle_ipis();
                space.map(&other, Pages::new(Page(1000), 1), WRITE).unwrap();
                space.unmap(&other, Pages::new(Page(1000), 1)).unwrap();
                if over.load(Relaxed) {
                    return;
                }
                thread::yield_now();
            }
            panic!("CPU 0 has not returned from `unmap`");
        });
        while !there.load(Relaxed) {
            thread::yield_now();
        }
        space.unmap(&cpu, Pages::new(Page(0), 1)).unwrap();
        over.store(true, Relaxed);
    });
}

on_each_architecture!(
    no_operation_waits_for_a_cpu_that_left_the_space,
    a_cpu_that_accesses_no_memory_acknowledges_in_handle_ipis,
);
