//! Shuttle models of a domain: threads register, protect, replace and retire objects, call barriers, and
//! unregister.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Domain, Handle};
use crate::model::{Model, check, thread};
use crate::primitive::AtomicPtr;

/// An object whose memory stays valid: freeing the object only sets the flag. The model checker does not
/// control the flag, so each access sees the latest value.
#[derive(Default)]
struct Object {
    freed: AtomicBool,
}

unsafe fn free(object: *mut ()) {
    // SAFETY: `object` is an object of the world, which lives as long as the domain.
    let freed = &unsafe { &*object.cast::<Object>() }.freed;
    assert!(!freed.swap(true, Relaxed), "freed twice");
}

/// Like `free`, but lets other threads run before the object is freed.
unsafe fn free_slowly(object: *mut ()) {
    thread::yield_now();
    // SAFETY: the contract is the same.
    unsafe { free(object) };
}

struct World {
    domain: Domain<Model>,
    objects: Vec<Object>,
    /// Each source points to one of the objects.
    sources: [AtomicPtr<Object>; 2],
}

impl World {
    /// A world with `objects` objects, whose threads scan when they have retired `batch` objects.
    fn new(objects: usize, batch: usize) -> Arc<World> {
        let objects: Vec<Object> = (0..objects).map(|_| Object::default()).collect();
        let source = |object: &Object| AtomicPtr::new(std::ptr::from_ref(object).cast_mut());
        let sources = [source(&objects[0]), source(&objects[1])];
        Arc::new(World { domain: Domain::with_batch(Model, batch), objects, sources })
    }

    /// Replaces the object of a source.
    fn replace(&self, handle: &Handle<Model>, source: usize, object: usize) {
        self.replace_with(handle, source, object, free);
    }

    fn replace_with(
        &self,
        handle: &Handle<Model>,
        source: usize,
        object: usize,
        free: unsafe fn(*mut ()),
    ) {
        // Lets other threads run, so that they can protect the old object.
        thread::yield_now();
        let new = std::ptr::from_ref(&self.objects[object]).cast_mut();
        let old = self.sources[source].swap(new, Relaxed);
        // SAFETY: the exchange has unlinked `old`, and objects live as long as the domain.
        unsafe { handle.retire_with(old.cast(), free) };
    }

    /// Protects the objects of both sources and checks that they are not freed.
    fn read(&self, handle: &Handle<Model>) {
        // SAFETY: the thread that removes an object from its source retires it.
        let guards = self.sources.each_ref().map(|source| unsafe { handle.protect(source) });
        for _ in 0..2 {
            for guard in guards.iter().flatten() {
                assert!(!guard.freed.load(Relaxed), "a protected object was freed");
            }
            thread::yield_now();
        }
    }
}

#[test]
fn objects_are_freed_once_and_not_under_a_guard() {
    check(|| {
        let world = World::new(10, 2);
        let in_thread = |does: fn(&World)| {
            let world = Arc::clone(&world);
            thread::spawn(move || does(&world))
        };
        let read = |world: &World| {
            for _ in 0..2 {
                let handle = world.domain.register();
                world.read(&handle);
                world.read(&handle);
            }
        };
        let replace_first = |world: &World| {
            for object in 2..6 {
                // If the handle cannot free an object, it leaves the object to other threads.
                world.replace(&world.domain.register(), 0, object);
            }
        };
        let replace_second = |world: &World| {
            for object in 6..10 {
                let handle = world.domain.register();
                world.replace(&handle, 1, object);
                handle.reclaim();
            }
        };
        let all = [read, read, read, replace_first, replace_second].map(in_thread);
        all.into_iter().for_each(|thread| thread.join().unwrap());
        let last = world.domain.register();
        last.reclaim();
        assert_eq!(last.garbage(), 0);
        let freed = world.objects.iter().filter(|object| object.freed.load(Relaxed)).count();
        assert_eq!(freed, 8, "all objects except the two current ones are freed");
    });
}

#[test]
fn a_barrier_returns_after_all_earlier_objects_are_freed() {
    check(|| {
        let world = World::new(6, 10);
        let replace = |source: usize| {
            let world = Arc::clone(&world);
            thread::spawn(move || {
                let reader = world.domain.register();
                let mut old = source;
                for new in [2 + source, 4 + source] {
                    // SAFETY: the thread that removes an object from its source retires it.
                    let guard = unsafe { reader.protect(&world.sources[source]) };
                    // The guard protects the object, so the temporary handle leaves the object to other
                    // threads.
                    world.replace_with(&world.domain.register(), source, new, free_slowly);
                    drop(guard);
                    world.domain.barrier();
                    assert!(world.objects[old].freed.load(Relaxed), "a barrier missed an object");
                    old = new;
                }
            })
        };
        let reclaim = {
            let world = Arc::clone(&world);
            move || (0..4).for_each(|_| world.domain.register().reclaim())
        };
        let all = [replace(0), replace(1), thread::spawn(reclaim)];
        all.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
