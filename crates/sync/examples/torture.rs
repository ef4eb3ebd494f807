//! A reader and a writer as fast as they can: `torture [SECONDS] [symmetric]` tells how often the reader
//! found what had been freed, and ends when it has.
//!
//! Objects are marked instead of freed, so that to find one is counted and is no undefined behaviour.
//! Before each section the reader fills its CPU's store buffer with stores to lines that are not in
//! its cache: then the store that says "I am here" takes long to be seen, and a reclaimer that relies
//! on luck is caught. Status 1 if there was any. With `--cfg mutant="…"` the crate is wrong in one
//! place, and this has to say so: see tests/mutants.rs.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64};
use std::thread;
use std::time::{Duration, Instant};

use knee_sync::System;
use knee_sync::epoch::Domain;

/// Objects that each writer uses in turn.
const OBJECTS: usize = 64;
/// Stores that fill a store buffer, of 56 to 72 entries in today's CPUs, for a while.
const STORES: usize = 40;
/// Lines of a table that fits into no cache.
const LINES: usize = 1 << 20;

#[repr(align(64))]
#[derive(Default)]
struct Line(AtomicU64);

#[derive(Default)]
struct Object {
    freed: AtomicBool,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let seconds = arguments.first().and_then(|first| first.parse().ok()).unwrap_or(6.0);
    let symmetric = arguments.iter().any(|argument| argument == "symmetric");
    let system = if symmetric { System::symmetric() } else { System::detect() };
    let (reads, bad) = torture(&Domain::new(system), Duration::from_secs_f64(seconds));
    println!("{bad} of {reads} reads found what had been freed");
    std::process::exit(i32::from(bad > 0));
}

fn torture(domain: &Domain<System>, time: Duration) -> (u64, u64) {
    let objects: Vec<Object> = (0..OBJECTS).map(|_| Object::default()).collect();
    let current = AtomicPtr::new(std::ptr::from_ref(&objects[0]).cast_mut());
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let reader = scope.spawn(|| read(domain, &current, &stop));
        scope.spawn(|| write(domain, &objects, &current, &stop));
        let end = Instant::now() + time;
        while Instant::now() < end && !reader.is_finished() {
            thread::sleep(Duration::from_millis(10));
        }
        stop.store(true, Relaxed);
        reader.join().expect("the reader does not panic")
    })
}

fn read(domain: &Domain<System>, current: &AtomicPtr<Object>, stop: &AtomicBool) -> (u64, u64) {
    let cold: Vec<Line> = (0..LINES).map(|_| Line::default()).collect();
    let handle = domain.register();
    let (mut reads, mut bad, mut at) = (0_u64, 0, 1_usize);
    while !stop.load(Relaxed) && bad == 0 {
        for _ in 0..STORES {
            at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            cold[at >> 32 & (LINES - 1)].0.store(reads, Relaxed);
        }
        let guard = handle.pin();
        // SAFETY: objects are there until both threads have ended.
        let found = unsafe { &*current.load(Acquire) };
        // Long enough to be overtaken, now and then.
        let is_freed = |_| {
            std::hint::spin_loop();
            found.freed.load(Relaxed)
        };
        bad += u64::from((0..reads % 16).any(is_freed));
        drop(guard);
        reads += 1;
    }
    (reads, bad)
}

fn write(
    domain: &Domain<System>,
    objects: &[Object],
    current: &AtomicPtr<Object>,
    stop: &AtomicBool,
) {
    for at in (1..objects.len()).chain([0]).cycle() {
        if stop.load(Relaxed) {
            return;
        }
        objects[at].freed.store(false, Relaxed);
        let old = current.swap(std::ptr::from_ref(&objects[at]).cast_mut(), Release);
        domain.synchronize();
        // SAFETY: objects are there until both threads have ended.
        unsafe { &*old }.freed.store(true, Relaxed);
    }
}
