//! All orders in which a thread that takes and drops references meets one that ticks, up to a number of
//! preemptions.

use std::ptr::NonNull;
use std::sync::Arc;

use super::cache::{self, Refcache, WeakRef};
use crate::model::{Model, RawLock, check, interrupt, thread};
use crate::primitive::Guarded;

type Header = cache::Header<RawLock>;
type Local<'a> = cache::Local<'a, Model, RawLock>;

/// An object that stays when it is freed: loom complains of a use that is not ordered with that.
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
    // SAFETY: the header is the beginning of an object, which is kept.
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
        // SAFETY: it is kept.
        unsafe { Header::weak_ref(self.0.cast()) }
    }

    fn add(self, local: Local, change: i64) {
        // SAFETY: the caller is the thread that has joined; the object is kept.
        unsafe { local.add(self.0.cast(), change) };
    }

    fn is_freed(self) -> bool {
        interrupt();
        // SAFETY: it is kept; loom panics if it is freed meanwhile.
        unsafe { self.0.as_ref() }.freed.with(|freed| unsafe { *freed })
    }
}

#[test]
fn a_reference_keeps_its_object_through_ticks_of_any_thread() {
    check(2, || {
        let refcache = Arc::new(Refcache::new(Model));
        let object = Pointer::new();
        object.add(refcache.register(), 1);
        let user = thread::spawn({
            let refcache = Arc::clone(&refcache);
            move || {
                let local = refcache.register();
                object.add(local, 1);
                object.add(local, -1);
                assert!(!object.is_freed());
                object.add(local, -1);
            }
        });
        object.add(refcache.register(), -1);
        (0..2).for_each(|_| refcache.tick());
        user.join().unwrap();
        (0..3).for_each(|_| refcache.tick());
        assert!(object.is_freed());
    });
}

#[test]
fn an_upgrade_comes_before_the_end_or_fails() {
    check(2, || {
        let refcache = Arc::new(Refcache::new(Model));
        let object = Pointer::new();
        let word = object.word();
        let user = thread::spawn({
            let (refcache, word) = (Arc::clone(&refcache), Arc::clone(&word));
            move || {
                let local = refcache.register();
                // SAFETY: this thread has joined.
                if unsafe { local.upgrade(&word) }.is_some() {
                    assert!(!object.is_freed());
                    object.add(local, -1);
                }
            }
        });
        object.add(refcache.register(), -1);
        (0..3).for_each(|_| refcache.tick());
        user.join().unwrap();
        (0..3).for_each(|_| refcache.tick());
        assert!(object.is_freed());
    });
}
