//! Models of a thread that takes and drops references, and of a thread that ticks.

use std::ptr::NonNull;
use std::sync::Arc;

use super::cache::{self, Refcache, WeakRef};
use crate::model::{Model, RawLock, check, interrupt, thread};
use crate::primitive::Guarded;

type Header = cache::Header<RawLock>;
type Local<'a> = cache::Local<'a, Model, RawLock>;

/// An object that stays in memory when it is freed, so that loom can panic on a use that is not ordered
/// before the free.
#[repr(C)]
struct Object {
    header: Header,
    freed: Guarded<bool>,
}

#[derive(Clone, Copy)]
struct Pointer(NonNull<Object>);

// SAFETY: loom checks every use of the object.
unsafe impl Send for Pointer {}

unsafe fn free(header: NonNull<Header>) {
    // SAFETY: the header is the first field of an object, which stays in memory.
    let object = unsafe { header.cast::<Object>().as_ref() };
    // SAFETY: loom panics on a concurrent access.
    object.freed.with(|freed| assert!(!unsafe { freed.replace(true) }, "freed twice"));
}

impl Pointer {
    /// An object with one reference.
    fn new() -> Pointer {
        let object = Object { header: Header::new(free), freed: Guarded::new(false) };
        Pointer(NonNull::from(Box::leak(Box::new(object))))
    }

    fn word(self) -> Arc<WeakRef> {
        // SAFETY: the object stays in memory.
        unsafe { Header::weak_ref(self.0.cast()) }
    }

    fn add(self, local: &Local, change: i64) {
        // SAFETY: the object stays in memory.
        unsafe { local.add(self.0.cast(), change) };
    }

    fn is_freed(self) -> bool {
        interrupt();
        // SAFETY: the object is never deallocated: `free` only sets `freed`. loom panics if `free` sets it
        // concurrently with this read.
        unsafe { self.0.as_ref() }.freed.with(|freed| unsafe { *freed })
    }
}

#[test]
fn a_reference_keeps_its_object_alive_through_ticks_of_any_thread() {
    check(2, || {
        let refcache = Arc::new(Refcache::new(Model));
        let object = Pointer::new();
        // Each registration has a cache of its own.
        let (first, second) = (refcache.register(), refcache.register());
        object.add(&first, 1);
        let user = thread::spawn({
            let refcache = Arc::clone(&refcache);
            move || {
                let local = refcache.register();
                object.add(&local, 1);
                object.add(&local, -1);
                assert!(!object.is_freed());
                object.add(&local, -1);
            }
        });
        object.add(&second, -1);
        (0..2).for_each(|_| refcache.tick());
        user.join().unwrap();
        (0..3).for_each(|_| refcache.tick());
        assert!(object.is_freed());
    });
}

#[test]
fn an_upgrade_keeps_the_object_alive_or_fails() {
    check(2, || {
        let refcache = Arc::new(Refcache::new(Model));
        let object = Pointer::new();
        let word = object.word();
        let user = thread::spawn({
            let (refcache, word) = (Arc::clone(&refcache), Arc::clone(&word));
            move || {
                let local = refcache.register();
                if local.upgrade(&word).is_some() {
                    assert!(!object.is_freed());
                    object.add(&local, -1);
                }
            }
        });
        let local = refcache.register();
        object.add(&local, -1);
        (0..3).for_each(|_| refcache.tick());
        user.join().unwrap();
        (0..3).for_each(|_| refcache.tick());
        assert!(object.is_freed());
    });
}
