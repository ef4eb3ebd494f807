//! Schedules of threads that take and drop references, strong and weak, of some objects, of threads that
//! come and go, and of two that tick.

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::Relaxed};

use super::cache::{self, Refcache, WeakRef};
use crate::model::{Model, RawLock, check, thread};

type Header = cache::Header<RawLock>;
type Local<'a> = cache::Local<'a, Model, RawLock>;

/// More than a cache has places: they are evicted in the middle of epochs.
const OBJECTS: usize = 4;

/// An object that stays when it is freed. What is true of it is no part of the model: whoever looks sees
/// it.
#[repr(C)]
struct Object {
    header: Header,
    references: AtomicI64,
    freed: AtomicBool,
}

unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the header is the beginning of an object, which is kept.
    let object = unsafe { header.cast::<Object>().as_ref() };
    assert_eq!(object.references.load(Relaxed), 0, "freed with references");
    assert!(!object.freed.swap(true, Relaxed), "freed twice");
}

struct World {
    refcache: Refcache<Model, RawLock>,
    /// Boxes by their pointers, each with one reference.
    objects: [NonNull<Object>; OBJECTS],
    words: [Arc<WeakRef>; OBJECTS],
}

// SAFETY: what is in it is; the pointers are the world's own.
unsafe impl Send for World {}
// SAFETY: as for the other marker trait.
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
        // SAFETY: they are there, each with a reference.
        let words = objects.map(|object| unsafe { Header::weak_ref(object.cast()) });
        Arc::new(World { refcache: Refcache::new(Model), objects, words })
    }

    fn object(&self, number: usize) -> &Object {
        // SAFETY: it is kept for as long as the world.
        unsafe { self.objects[number].as_ref() }
    }

    /// Takes a reference from one.
    fn take(&self, local: Local, number: usize) {
        self.object(number).references.fetch_add(1, Relaxed);
        // SAFETY: the caller has joined, and has a reference.
        unsafe { local.add(self.objects[number].cast(), 1) };
    }

    fn give(&self, local: Local, number: usize) {
        assert!(!self.object(number).freed.load(Relaxed), "there is a reference");
        self.object(number).references.fetch_sub(1, Relaxed);
        // SAFETY: the caller has joined, and has a reference.
        unsafe { local.add(self.objects[number].cast(), -1) };
    }

    /// Takes a reference if the object is there.
    fn upgrade(&self, local: Local, number: usize) -> bool {
        // SAFETY: the caller has joined.
        let is_there = unsafe { local.upgrade(&self.words[number]) }.is_some();
        if is_there {
            self.object(number).references.fetch_add(1, Relaxed);
            assert!(!self.object(number).freed.load(Relaxed), "an upgrade found what was freed");
        }
        is_there
    }

    /// Calls `with` with a part of a thread that comes and goes.
    fn with_local(&self, with: impl FnOnce(Local)) {
        let local = self.refcache.register();
        with(local);
        // SAFETY: there is no other copy.
        unsafe { local.unregister() };
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // SAFETY: they came from boxes, and no other thread has them.
        self.objects.iter().for_each(|object| drop(unsafe { Box::from_raw(object.as_ptr()) }));
    }
}

#[test]
fn objects_live_as_long_as_references_and_three_ticks() {
    check(|| {
        let world = World::new();
        let in_thread = |does: fn(&World)| {
            let world = Arc::clone(&world);
            thread::spawn(move || does(&world))
        };
        // Has a reference of each by the first thread, and hands one of them on.
        let first = world.refcache.register();
        (0..OBJECTS).for_each(|number| world.take(first, number));
        let owner = in_thread(|world| {
            world.with_local(|local| {
                for number in 0..OBJECTS {
                    world.take(local, number);
                    world.give(local, number);
                }
            });
            // Another cache, mostly.
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
        (0..OBJECTS).for_each(|number| world.give(first, number));
        let all = [owner].into_iter().chain(finders).chain(tickers);
        all.for_each(|thread| thread.join().unwrap());
        (0..3).for_each(|_| world.refcache.tick());
        for number in 0..OBJECTS {
            assert!(world.object(number).freed.load(Relaxed), "the third tick frees it");
            assert!(!world.upgrade(first, number));
        }
    });
}
