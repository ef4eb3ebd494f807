//! `prune` frees empty tables, whatever other CPUs do meanwhile.

#[path = "architectures/each.rs"]
mod each;

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use each::on_each_architecture;
use knee_vm::hosted::{Architecture, Hosted};
use knee_vm::{Page, Pages, Protection, Space};

const WRITE: Protection = Protection::READ_WRITE;
const GIBIBYTE: u64 = 512 * 512;

fn prune_frees_only_empty_tables<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let tables = || space.audit(&cpu).tables;
    let root = tables();
    // Three leaf tables below one branch, one below the next branch, and one far away.
    let places = [0, 5 * 512, GIBIBYTE - 512, GIBIBYTE + 7, 512 * GIBIBYTE * 3];
    for &place in &places {
        space.map(&cpu, Pages::new(Page(place), 4), WRITE).unwrap();
        cpu.store(&space, Page(place).address(), place + 1).unwrap();
    }
    let full = tables();
    assert_eq!(space.prune(&cpu, space.pages()), 0, "no table is empty");
    for &place in &places[..3] {
        space.unmap(&cpu, Pages::new(Page(place), 4)).unwrap();
    }
    assert_eq!(tables(), full, "unmapping a few pages frees no table");
    // `prune` frees the three leaves, and the branch above them, which has no other leaf.
    assert_eq!(space.prune(&cpu, space.pages()), 4);
    assert_eq!(tables(), full - 4);
    for &place in &places[3..] {
        assert_eq!(cpu.load(&space, Page(place).address()), Ok(place + 1));
        space.unmap(&cpu, Pages::new(Page(place), 4)).unwrap();
    }
    // `prune` affects only the given range.
    assert!(space.prune(&cpu, Pages::new(Page(GIBIBYTE), 1024)) > 0);
    space.prune(&cpu, space.pages());
    assert_eq!(tables(), root);
    space.map(&cpu, Pages::new(Page(3), 1), WRITE).unwrap();
    assert_eq!(cpu.load(&space, Page(3).address()), Ok(0));
}

fn unmapping_a_large_range_leaves_no_tables<A: Architecture>() {
    let machine = Hosted::<A>::with_architecture(4096, 1);
    let cpu = machine.cpu(0);
    let space = Space::new(&cpu).unwrap();
    let before = space.audit(&cpu).tables;
    let pages = Pages::new(Page(100), 2 * GIBIBYTE);
    space.map(&cpu, pages, WRITE).unwrap();
    for page in pages.iter().step_by(if cfg!(miri) { 200_000 } else { 3000 }) {
        cpu.store(&space, page.address(), 1).unwrap();
    }
    space.unmap(&cpu, pages).unwrap();
    // One new table is left: the lowest one that covers the whole range.
    assert_eq!(space.audit(&cpu).tables, before + 1);
}

/// Threads map, touch and unmap their own pages in shared leaves, while another thread prunes.
fn pruning_during_concurrent_changes_loses_nothing<A: Architecture>() {
    const THREADS: u64 = 3;
    const ROUNDS: u64 = if cfg!(miri) { 8 } else { 1500 };
    let machine = Hosted::<A>::with_architecture(4096, THREADS as usize + 1);
    let all = machine.free_frames();
    {
        let space = Space::new(&machine.cpu(0)).unwrap();
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let (machine, space, done) = (&machine, &space, &done);
            let workers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || {
                        let cpu = machine.cpu(1 + thread as usize);
                        for round in 1..=ROUNDS {
                            // The threads share a few leaves. Each thread has its own pages in each leaf.
                            let leaf = 512 * (round % 3) + GIBIBYTE * (round % 2);
                            let pages = Pages::new(Page(leaf + 16 * thread), 1 + round % 8);
                            space.map(&cpu, pages, WRITE).unwrap();
                            for page in pages.iter() {
                                cpu.store(space, page.address(), round).unwrap();
                            }
                            if round % if cfg!(miri) { 4 } else { 64 } == 0 {
                                let copy = space.fork(&cpu).unwrap();
                                assert_eq!(cpu.load(&copy, pages.start.address()), Ok(round));
                            }
                            for page in pages.iter() {
                                assert_eq!(cpu.load(space, page.address()), Ok(round));
                            }
                            space.unmap(&cpu, pages).unwrap();
                        }
                    })
                })
                .collect();
            scope.spawn(move || {
                let cpu = machine.cpu(0);
                while !done.load(Relaxed) {
                    cpu.handle_ipis();
                    space.prune(&cpu, space.pages());
                    thread::yield_now();
                }
            });
            let results: Vec<_> = workers.into_iter().map(thread::ScopedJoinHandle::join).collect();
            done.store(true, Relaxed);
            results.into_iter().for_each(|result| result.unwrap());
        });
        let cpu = machine.cpu(0);
        space.prune(&cpu, space.pages());
        assert_eq!(space.audit(&cpu).tables, 1);
    }
    assert_eq!(machine.free_frames(), all);
}

on_each_architecture!(
    prune_frees_only_empty_tables,
    unmapping_a_large_range_leaves_no_tables,
    pruning_during_concurrent_changes_loses_nothing,
);
