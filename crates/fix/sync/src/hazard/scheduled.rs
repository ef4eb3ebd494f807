//! Schedules of threads that protect, replace, retire and leave.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use super::{Domain, Handle};
use crate::model::{Model, check, thread};
use crate::primitive::AtomicPtr;

/// An object that stays when it is freed. Not part of the model: every access sees the latest value.
#[derive(Default)]
struct Object {
    freed: AtomicBool,
}

unsafe fn free(object: *mut ()) {
    // SAFETY: it is an object of the world, which is there as long as its domain.
    let freed = &unsafe { &*object.cast::<Object>() }.freed;
    assert!(!freed.swap(true, Relaxed), "freed twice");
}

struct World {
    domain: Domain<Model>,
    objects: Vec<Object>,
    /// Each points to one of the objects.
    sources: [AtomicPtr<Object>; 2],
}

impl World {
    /// A world with this many objects.
    fn new(objects: usize) -> Arc<World> {
        let objects: Vec<Object> = (0..objects).map(|_| Object::default()).collect();
        let source = |object: &Object| AtomicPtr::new(std::ptr::from_ref(object).cast_mut());
        let sources = [source(&objects[0]), source(&objects[1])];
        Arc::new(World { domain: Domain::with_batch(Model, 2), objects, sources })
    }

    /// Replaces what a source points to by this object.
    fn replace(&self, handle: &Handle<Model>, source: usize, object: usize) {
        // By now readers have protected what is there.
        thread::yield_now();
        let new = std::ptr::from_ref(&self.objects[object]).cast_mut();
        let old = self.sources[source].swap(new, Relaxed);
        // SAFETY: the exchange has unlinked it, and objects live as long as the domain.
        unsafe { handle.retire_with(old.cast(), free) };
    }

    /// Protects what both point to, and looks at it.
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
        let world = World::new(10);
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
                // It leaves what it cannot free.
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
        assert_eq!(freed, 8, "two can be found");
    });
}
