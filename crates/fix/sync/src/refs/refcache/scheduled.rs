//! Models for shuttle: threads register, take and drop strong and weak references, and unregister, while two
//! threads tick.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use super::cache::{self, Refcache, WeakRef};
use crate::model::{Model, RawLock, check, thread};

type Header = cache::Header<RawLock>;
type Local<'a> = cache::Local<'a, Model, RawLock>;

/// More objects than a cache has slots, so that deltas are evicted in the middle of epochs.
const OBJECTS: usize = 4;

/// An object that stays in memory when it is freed. Its state is in atomics of `std`, which are not part of
/// the model.
#[repr(C)]
struct Object {
    header: Header,
    references: AtomicI64,
    freed: AtomicBool,
}

unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the header is the first field of an object, which stays in memory.
    let object = unsafe { header.cast::<Object>().as_ref() };
    assert_eq!(object.references.load(Relaxed), 0, "freed with references");
    assert!(!object.freed.swap(true, Relaxed), "freed twice");
}

struct World {
    refcache: Refcache<Model, RawLock>,
    /// Pointers from boxes. Each object begins with one reference.
    objects: [NonNull<Object>; OBJECTS],
    words: [Arc<WeakRef>; OBJECTS],
}

// SAFETY: the refcache and the words are `Send`, and the world owns the objects.
unsafe impl Send for World {}
// SAFETY: as for `Send`.
unsafe impl Sync for World {}

impl World {
    fn new() -> Arc<World> {
        let objects: [_; OBJECTS] = std::array::from_fn(|_| {
            NonNull::from(Box::leak(Box::new(Object {
                header: Header::new(free),
                references: AtomicI64::new(1),
                freed: AtomicBool::new(false),
            })))
        });
        // SAFETY: each object has a reference, and its pointer came from its box.
        let words = objects.map(|object| unsafe { Header::weak_ref(object.cast()) });
        Arc::new(World { refcache: Refcache::new(Model), objects, words })
    }

    fn object(&self, number: usize) -> &Object {
        // SAFETY: the objects stay in memory until the world is dropped.
        unsafe { self.objects[number].as_ref() }
    }

    /// Clones a reference.
    fn take(&self, local: &Local, number: usize) {
        self.object(number).references.fetch_add(1, Relaxed);
        // SAFETY: the caller has a reference.
        unsafe { local.add(self.objects[number].cast(), 1) };
    }

    /// Drops a reference.
    fn give(&self, local: &Local, number: usize) {
        assert!(!self.object(number).freed.load(Relaxed), "freed with a reference");
        self.object(number).references.fetch_sub(1, Relaxed);
        // SAFETY: the caller has a reference.
        unsafe { local.add(self.objects[number].cast(), -1) };
    }

    /// Takes a reference if the object has not been freed.
    fn upgrade(&self, local: &Local, number: usize) -> bool {
        let is_there = local.upgrade(&self.words[number]).is_some();
        if is_there {
            self.object(number).references.fetch_add(1, Relaxed);
            assert!(
                !self.object(number).freed.load(Relaxed),
                "an upgrade of a freed object succeeded"
            );
        }
        is_there
    }

    /// Registers, passes the `Local` to `with`, and unregisters.
    fn with_local(&self, with: impl FnOnce(&Local)) {
        with(&self.refcache.register());
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: the objects came from boxes, and only this thread has the world.
        self.objects.iter().for_each(|object| drop(unsafe { Box::from_raw(object.as_ptr()) }));
    }
}

#[test]
fn an_object_lives_while_it_is_referenced_and_is_freed_by_the_third_tick() {
    check(|| {
        let world = World::new();
        let in_thread = |does: fn(&World)| {
            let world = Arc::clone(&world);
            thread::spawn(move || does(&world))
        };
        // This thread takes references and caches their deltas. Another thread drops these references.
        let first = world.refcache.register();
        (0..OBJECTS).for_each(|number| world.take(&first, number));
        let owner = in_thread(|world| {
            world.with_local(|local| {
                for number in 0..OBJECTS {
                    world.take(local, number);
                    world.give(local, number);
                }
            });
            // The second registration usually has a different cache.
            world.with_local(|local| (0..OBJECTS).for_each(|number| world.give(local, number)));
        });
        let finds = |world: &World| {
            for _ in 0..2 {
                world.with_local(|local| {
                    for number in (0..OBJECTS).rev() {
                        if world.upgrade(local, number) {
                            thread::yield_now();
                            world.give(local, number);
                        }
                    }
                });
            }
        };
        let finders = [in_thread(finds), in_thread(finds)];
        let ticks = |world: &World| (0..4).for_each(|_| world.refcache.tick());
        let tickers = [in_thread(ticks), in_thread(ticks)];
        (0..OBJECTS).for_each(|number| world.give(&first, number));
        let all = [owner].into_iter().chain(finders).chain(tickers);
        all.for_each(|thread| thread.join().unwrap());
        (0..3).for_each(|_| world.refcache.tick());
        for number in 0..OBJECTS {
            assert!(world.object(number).freed.load(Relaxed), "not freed by the third tick");
            assert!(!world.upgrade(&first, number));
        }
    });
}
