//! Runs the example `two_cpus`, and tests its machine.

#[path = "../examples/two_cpus.rs"]
#[allow(dead_code, reason = "the example's own `main`")]
mod two_cpus;

use std::sync::Barrier;
use std::thread;

use knee_vm::{Cpu, Page, Pages, Protection, Space};
use two_cpus::TwoCpus;

#[test]
fn a_page_is_flushed_on_both_cpus_when_unmap_returns() {
    two_cpus::unmap_while_the_other_reads(&TwoCpus::new()).unwrap();
}

#[test]
fn two_cpus_that_shoot_down_each_other_both_return() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 500 };
    let machine = TwoCpus::new();
    // SAFETY: no other CPU 0 exists yet.
    let space = Space::new(&unsafe { Cpu::new(&machine, 0) }).unwrap();
    let start = Barrier::new(2);
    thread::scope(|scope| {
        for number in 0..2 {
            let (machine, space, start) = (&machine, &space, &start);
            scope.spawn(move || {
                // SAFETY: only one thread uses each number.
                let cpu = unsafe { Cpu::new(machine, number) };
                space.activate(&cpu);
                start.wait();
                // Each CPU uses its own table, so that the CPUs wait for each other only in shootdowns.
                let pages = Pages::new(Page(512 * (1 + number as u64)), 2);
                for _ in 0..ROUNDS {
                    space.map(&cpu, pages, Protection::READ).unwrap();
                    machine.access(&cpu, space, pages.start).unwrap();
                    space.unmap(&cpu, pages).unwrap();
                    assert!(!machine.has_cached(number, space, pages.start));
                }
                machine.leave(&cpu, space);
            });
        }
    });
    assert_eq!(space.resident(), 0);
}

#[test]
#[cfg_attr(miri, ignore = "it leaks the space on purpose")]
#[should_panic = "CPU 0 is active in a space that is dropped"]
fn a_space_is_not_freed_while_a_cpu_may_use_its_tables() {
    let machine = TwoCpus::new();
    // SAFETY: no other CPU 0 exists.
    let cpu = unsafe { Cpu::new(&machine, 0) };
    let space = Space::new(&cpu).unwrap();
    space.activate(&cpu);
    assert_eq!(space.active_cpus().collect::<Vec<_>>(), [0]);
    drop(space);
}
