//! Schedules of threads that register, read, replace, free and unregister.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::domain::Domain;
use super::qsbr::QsbrHandle;
use crate::model::{Model, check, thread};
use crate::primitive::AtomicU64;

const OBJECTS: usize = 16;

/// Objects. Readers find the object whose number is `current`.
struct World {
    domain: Domain<Model>,
    current: AtomicU64,
    next: AtomicU64,
    /// These flags are not part of the model, so every access sees the latest value.
    freed: [AtomicBool; OBJECTS],
}

impl World {
    fn new() -> Arc<World> {
        Arc::new(World {
            domain: Domain::new(Model),
            current: AtomicU64::new(0),
            next: AtomicU64::new(1),
            freed: Default::default(),
        })
    }

    fn is_freed(&self, object: u64) -> bool {
        self.freed[object as usize].load(Relaxed)
    }

    /// The current object, which is not freed before the caller's section ends.
    fn find(&self) -> u64 {
        let found = self.current.load(Relaxed);
        self.check(found);
        found
    }

    /// Gives other threads time to free a found object, and checks that no thread has freed the object.
    fn check(&self, found: u64) {
        thread::yield_now();
        assert!(!self.is_freed(found), "an object was freed during a section that found it");
    }

    /// Replaces the current object, and defers a call that marks the old object as freed.
    fn replace(self: &Arc<World>, handle: &super::Handle<Model>) {
        let old = self.current.swap(self.next.fetch_add(1, Relaxed), Relaxed);
        let world = Arc::clone(self);
        handle.pin().defer(move || {
            thread::yield_now();
            assert!(!world.freed[old as usize].swap(true, Relaxed), "freed twice");
        });
    }

    /// Checks at the end that all objects except the current one are freed.
    fn check_end(&self) {
        self.domain.barrier();
        let current = self.current.load(Relaxed);
        assert!((0..current).all(|object| self.is_freed(object)), "an object was never freed");
    }
}

fn in_thread(world: &Arc<World>, does: fn(&Arc<World>)) -> thread::JoinHandle<()> {
    let world = Arc::clone(world);
    thread::spawn(move || does(&world))
}

/// Registers twice, and reads in nested and refreshed sections each time.
fn read(world: &Arc<World>) {
    for _ in 0..2 {
        let handle = world.domain.register();
        let mut guard = handle.pin();
        let first = world.find();
        let inner = handle.pin();
        world.check(first);
        drop(inner);
        world.check(first);
        guard.refresh();
        world.find();
    }
}

/// Registers three times, replaces an object each time, and frees the old object or leaves it to other
/// threads.
fn write(world: &Arc<World>) {
    for round in 0..3 {
        let handle = world.domain.register();
        world.replace(&handle);
        if round == 1 {
            handle.reclaim();
        }
    }
}

#[test]
fn short_lived_threads_find_live_objects_and_leave_nothing_behind() {
    check(|| {
        let world = World::new();
        let all = [read, read, read, write, write].map(|does| in_thread(&world, does));
        all.into_iter().for_each(|thread| thread.join().unwrap());
        world.check_end();
    });
}

#[test]
fn a_wait_covers_guards_and_migrating_sections() {
    check(|| {
        let world = World::new();
        let migrates = in_thread(&world, |world| {
            let section = world.domain.section();
            let found = world.find();
            thread::scope(|scope| {
                scope.spawn(|| {
                    world.check(found);
                    drop(section);
                });
            });
        });
        let online = in_thread(&world, |world| {
            let mut online = QsbrHandle::new(world.domain.register());
            for _ in 0..2 {
                world.find();
                online.quiescent();
            }
        });
        let waits = [(), ()].map(|()| {
            in_thread(&world, |world| {
                let old = world.current.swap(world.next.fetch_add(1, Relaxed), Relaxed);
                world.domain.synchronize();
                world.freed[old as usize].store(true, Relaxed);
            })
        });
        let polls = in_thread(&world, |world| {
            let cookie = world.domain.cookie();
            while !world.domain.poll(cookie) {
                thread::yield_now();
            }
            assert!(world.domain.is_over(cookie));
        });
        let all = [migrates, online, polls].into_iter().chain(waits);
        all.for_each(|thread| thread.join().unwrap());
        world.check_end();
    });
}

#[test]
fn a_barrier_returns_after_all_earlier_calls() {
    check(|| {
        let world = World::new();
        let before = world.domain.register();
        world.replace(&before);
        let others = [read, write, write].map(|does| in_thread(&world, does));
        before.release_without_reclaim();
        let frees = in_thread(&world, |world| world.domain.register().reclaim());
        world.domain.barrier();
        assert!(world.is_freed(0), "the call was deferred before the barrier");
        others.into_iter().chain([frees]).for_each(|thread| thread.join().unwrap());
        world.check_end();
    });
}
