//! Models of readers, writers, scans and barriers: `RUSTFLAGS="--cfg loom" cargo test -p knee-sync --release
//! --lib modelled`.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::Ordering::Relaxed;
use core::time::Duration;
use std::sync::atomic::AtomicU64 as StdAtomicU64;

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::sync::atomic::Ordering::{AcqRel, Acquire};

use super::domain::Domain;
use super::entry::Entry;
use crate::model::{
    Model, check, check_interrupted, check_latest, check_symmetric, interrupt, thread,
};
use crate::platform::Platform;
use crate::primitive::AtomicU64;

/// Two objects. Readers find the object whose number is `current`.
struct World {
    domain: Domain<Model>,
    current: AtomicU64,
    objects: [UnsafeCell<u32>; 2],
}

// SAFETY: loom panics if two threads use an object at the same time.
unsafe impl Sync for World {}

/// Enters `times` sections, and reads the object that it finds in each section.
fn read(world: &World, times: u32) {
    let handle = world.domain.register();
    for _ in 0..times {
        let _guard = handle.pin();
        let found = world.current.load(Acquire) as usize;
        interrupt();
        // SAFETY: no thread writes an object during a section that has found it, and loom checks that.
        world.objects[found].with(|object| unsafe { assert_eq!(*object as usize, found) });
    }
}

impl World {
    fn new() -> World {
        World {
            domain: Domain::new(Model),
            current: AtomicU64::new(0),
            objects: [UnsafeCell::new(0), UnsafeCell::new(1)],
        }
    }
}

fn world() -> Arc<World> {
    Arc::new(World::new())
}

#[test]
fn a_grace_period_waits_for_every_reader() {
    check(3, || {
        let world = world();
        let reader = thread::spawn({
            let world = world.clone();
            move || read(&world, 1)
        });
        let old = world.current.swap(1, AcqRel) as usize;
        world.domain.synchronize();
        // SAFETY: no thread reads the object any more, and loom checks that.
        world.objects[old].with_mut(|object| unsafe { *object = 9 });
        reader.join().unwrap();
    });
}

#[test]
fn a_section_does_not_hide_the_previous_section() {
    check(3, || {
        let world = world();
        let reader = thread::spawn({
            let world = world.clone();
            move || read(&world, 2)
        });
        let old = world.current.swap(1, AcqRel) as usize;
        let cookie = world.domain.cookie();
        if world.domain.poll(cookie) {
            // SAFETY: no thread reads the object any more, and loom checks that.
            world.objects[old].with_mut(|object| unsafe { *object = 9 });
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_refreshed_section_releases_earlier_objects() {
    check(3, || {
        let world = world();
        let reader = thread::spawn({
            let world = world.clone();
            move || {
                let handle = world.domain.register();
                let mut guard = handle.pin();
                for _ in 0..2 {
                    let found = world.current.load(Acquire) as usize;
                    interrupt();
                    // SAFETY: as in `read`.
                    world.objects[found]
                        .with(|object| unsafe { assert_eq!(*object as usize, found) });
                    guard.refresh();
                }
            }
        });
        let old = world.current.swap(1, AcqRel) as usize;
        let cookie = world.domain.cookie();
        if world.domain.poll(cookie) {
            // SAFETY: no thread reads the object any more, and loom checks that.
            world.objects[old].with_mut(|object| unsafe { *object = 9 });
        }
        reader.join().unwrap();
    });
}

#[test]
fn an_unlinked_object_is_not_read_after_the_scan_of_another_thread() {
    check_symmetric(1, || {
        let world = world();
        let reader = thread::spawn({
            let world = world.clone();
            move || read(&world, 1)
        });
        let scanner = thread::spawn({
            let world = world.clone();
            move || world.domain.poll(world.domain.cookie())
        });
        let old = world.current.swap(1, AcqRel) as usize;
        let cookie = world.domain.cookie();
        if world.domain.is_over(cookie) {
            // SAFETY: no thread reads the object any more, and loom checks that.
            world.objects[old].with_mut(|object| unsafe { *object = 9 });
        }
        reader.join().unwrap();
        scanner.join().unwrap();
    });
}

/// Checks that a barrier returns only after a deferred call has run, even while another thread runs `other`.
fn check_barrier_waits_for_call_during(other: fn(&World)) {
    check_symmetric(2, move || {
        let world = world();
        let handle = world.domain.register();
        let calls = world.clone();
        // SAFETY: loom panics on a concurrent access.
        let call = move || calls.objects[0].with_mut(|object| unsafe { *object = 9 });
        handle.pin().defer(call);
        handle.release_without_reclaim();
        let other = thread::spawn({
            let world = world.clone();
            move || other(&world)
        });
        world.domain.barrier();
        // SAFETY: loom panics on a concurrent access.
        world.objects[0].with(|object| assert_eq!(unsafe { *object }, 9));
        other.join().unwrap();
    });
}

#[test]
fn a_barrier_acquires_what_the_calls_did() {
    check_barrier_waits_for_call_during(|world| {
        world.domain.register().reclaim();
    });
}

#[test]
fn a_barrier_waits_for_the_calls_of_the_previous_barrier() {
    check_barrier_waits_for_call_during(|world| world.domain.barrier());
}

#[test]
fn a_barrier_and_an_owner_that_defers_exclude_each_other() {
    fn entry() -> NonNull<Entry> {
        NonNull::from(Box::leak(Box::new(Entry::new())))
    }
    unsafe fn free(entry: NonNull<Entry>) {
        // SAFETY: the entry came from `Box::leak`, and `free` is called once.
        drop(unsafe { Box::from_raw(entry.as_ptr()) });
    }
    check(2, || {
        let domain = Arc::new(Domain::new(Model));
        domain.register().release_without_reclaim();
        let owner = thread::spawn({
            let domain = Arc::clone(&domain);
            move || {
                // If loom panics while the garbage is in use, the handle must not be dropped, because its
                // destructor would use the garbage again.
                let handle = ManuallyDrop::new(domain.register());
                // SAFETY: no other thread has the entry.
                unsafe { handle.retire_entry(entry(), free) };
                ManuallyDrop::into_inner(handle).release_without_reclaim();
            }
        });
        domain.barrier();
        owner.join().unwrap();
        domain.barrier();
        assert_eq!(domain.garbage(), 0);
    });
}

#[test]
fn objects_that_another_scan_found_ready_are_freed_after_all_reads() {
    check_interrupted(1, || {
        // At the end of the model, the deferred call may still hold a reference. loom's `Arc` would report
        // this as a leak, so the model uses the `Arc` of `std`.
        let world = std::sync::Arc::new(World::new());
        let handle = world.domain.register();
        let guard = handle.pin();
        let found = world.current.load(Acquire) as usize;
        let writer = thread::spawn({
            let world = world.clone();
            move || {
                let handle = world.domain.register();
                let old = world.current.swap(1, AcqRel) as usize;
                let calls = world.clone();
                handle.pin().defer(move || {
                    // SAFETY: no thread reads the object any more, and loom checks that.
                    calls.objects[old].with_mut(|object| unsafe { *object = 9 });
                });
                handle.seal_and_free();
                thread::yield_now();
                handle.seal_and_free();
                handle.release_without_reclaim();
            }
        });
        let scanner = thread::spawn({
            let world = world.clone();
            move || world.domain.poll(world.domain.cookie())
        });
        thread::yield_now();
        interrupt();
        // SAFETY: as in `read`.
        world.objects[found].with(|object| unsafe { assert_eq!(*object as usize, found) });
        drop(guard);
        thread::yield_now();
        handle.release_without_reclaim();
        writer.join().unwrap();
        scanner.join().unwrap();
    });
}

/// The model's platform, with a clock that advances only when a section begins or ends. The clock and the
/// recorded times are not part of the model, so all threads immediately see their latest values.
#[derive(Default)]
struct Clocked {
    model: Model,
    now: StdAtomicU64,
    /// The time that the last call of `now` returned.
    answered: StdAtomicU64,
    thread: StdAtomicU64,
    /// When each thread's section began and when it ended; a time is 0 until its event has happened.
    began: [StdAtomicU64; 3],
    ended: [StdAtomicU64; 3],
}

// SAFETY: the fences are the model's.
unsafe impl Platform for Clocked {
    fn is_symmetric(&self) -> bool {
        self.model.is_symmetric()
    }

    fn heavy(&self) {
        self.model.heavy();
    }

    fn relax(&self, round: u32) {
        self.model.relax(round);
    }

    fn now(&self) -> u64 {
        let now = self.now.load(Relaxed);
        self.answered.store(now, Relaxed);
        now
    }

    fn thread(&self) -> u64 {
        self.thread.load(Relaxed)
    }
}

impl Clocked {
    fn domain() -> Arc<Domain<Clocked>> {
        // The clock starts at 1000, because a time that has not been stored yet is 0, and 0 must lie far in
        // the past.
        Arc::new(Domain::new(Clocked { now: StdAtomicU64::new(1000), ..Clocked::default() }))
    }

    fn tick(&self) -> u64 {
        self.now.fetch_add(10, Relaxed) + 10
    }
}

/// Enters and leaves a section as the thread with this number.
fn enter_and_leave(domain: &Domain<Clocked>, number: u64) {
    let platform = domain.platform();
    platform.thread.store(number, Relaxed);
    platform.began[number as usize].store(platform.tick(), Relaxed);
    let handle = domain.register();
    let guard = handle.pin();
    thread::yield_now();
    drop(guard);
    platform.ended[number as usize].store(platform.tick(), Relaxed);
    handle.release_without_reclaim();
}

/// Checks that each stall belongs to a section in progress, and that this section is at least as old as the
/// stall reports.
fn check_stalls(domain: &Domain<Clocked>) {
    let platform = domain.platform();
    let called = platform.now.load(Relaxed);
    for stall in domain.stalls(Duration::ZERO) {
        let since = platform.answered.load(Relaxed) - stall.since.as_nanos() as u64;
        let began = platform.began[stall.thread as usize].load(Relaxed);
        assert!(began != 0 && began <= since, "{stall:?} began at {began}, not {since}");
        let ended = platform.ended[stall.thread as usize].load(Relaxed);
        assert!(
            ended == 0 || called <= ended,
            "{stall:?} ended at {ended}, before the call at {called}"
        );
    }
}

#[test]
fn a_stall_is_never_older_than_its_section() {
    check_symmetric(2, || {
        let domain = Clocked::domain();
        // Makes a record before the threads start, so that loom has fewer executions to explore.
        domain.register().release_without_reclaim();
        let reader = thread::spawn({
            let domain = Arc::clone(&domain);
            move || enter_and_leave(&domain, 1)
        });
        let scanner = thread::spawn({
            let domain = Arc::clone(&domain);
            move || domain.poll(domain.cookie())
        });
        check_stalls(&domain);
        reader.join().unwrap();
        scanner.join().unwrap();
    });
}

#[test]
fn a_stall_belongs_to_one_section_and_names_its_thread() {
    fn model() {
        let domain = Clocked::domain();
        let reader = thread::spawn({
            let domain = Arc::clone(&domain);
            move || {
                enter_and_leave(&domain, 1);
                enter_and_leave(&domain, 2);
            }
        });
        for _ in 0..2 {
            check_stalls(&domain);
        }
        reader.join().unwrap();
    }
    // A section begins when it loads the global epoch. On a symmetric platform, loom lets that load return an
    // arbitrarily old value. No real CPU does this. So this model runs only on the other two platforms.
    check_latest(3, model);
    check_interrupted(3, model);
}
