//! Models of a reader and of threads that replace what it reads.

use std::sync::Arc;

use core::ptr;
use core::sync::atomic::Ordering::AcqRel;

use crate::model::{Model, check, interrupt, thread};
use crate::primitive::{AtomicPtr, Guarded};

use super::{Domain, Handle};

/// What is shared: loom reports unordered accesses.
type Object = Guarded<u32>;

const FREED: u32 = 0xdead;

/// "Frees" by writing, so that loom detects a concurrent read.
unsafe fn free(pointer: *mut ()) {
    // SAFETY: it is an object of the model, which leaks it.
    unsafe { &*pointer.cast::<Object>() }.with(|value| {
        // SAFETY: loom panics on a concurrent access.
        let before = unsafe { value.replace(FREED) };
        assert_ne!(before, FREED, "freed twice");
    });
}

struct Shared {
    domain: Domain<Model>,
    source: AtomicPtr<Object>,
}

fn shared() -> Arc<Shared> {
    Arc::new(Shared { domain: Domain::with_batch(Model, 1), source: AtomicPtr::new(object()) })
}

fn object() -> *mut Object {
    Box::leak(Box::new(Guarded::new(1)))
}

fn read(shared: &Shared, handle: &Handle<Model>) {
    // SAFETY: the thread that removes the pointer from `source` retires it to this domain.
    if let Some(guard) = unsafe { handle.protect(&shared.source) } {
        interrupt();
        // SAFETY: loom panics on a concurrent write.
        assert_ne!(guard.with(|value| unsafe { *value }), FREED);
    }
}

fn replace(shared: &Shared, new: *mut Object) {
    let handle = shared.domain.register();
    let old = shared.source.swap(new, AcqRel);
    if !old.is_null() {
        // SAFETY: the exchange took it out, and `free` may be called by any thread.
        unsafe { handle.retire_with(old.cast(), free) };
    }
}

#[test]
fn a_protected_object_is_not_freed() {
    check(3, || {
        let shared = shared();
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || read(&shared, &shared.domain.register())
        });
        replace(&shared, ptr::null_mut());
        reader.join().unwrap();
    });
}

#[test]
fn a_reused_slot_releases_its_last_object() {
    check(3, || {
        let shared = shared();
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let handle = shared.domain.register();
                read(&shared, &handle);
                read(&shared, &handle);
            }
        });
        replace(&shared, object());
        reader.join().unwrap();
    });
}

#[test]
fn orphans_of_one_thread_are_freed_by_another_and_only_once() {
    check(2, || {
        let shared = shared();
        let reader = thread::spawn({
            let shared = Arc::clone(&shared);
            move || read(&shared, &shared.domain.register())
        });
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || replace(&shared, ptr::null_mut())
        });
        shared.domain.register().reclaim();
        reader.join().unwrap();
        writer.join().unwrap();
        let left = shared.domain.register();
        left.reclaim();
        assert_eq!(left.garbage(), 0);
    });
}

#[test]
fn the_thread_that_frees_an_orphan_acquires_its_uses() {
    check(3, || {
        let shared = shared();
        let handle = shared.domain.register();
        // SAFETY: as in `read`.
        let guard = unsafe { handle.protect(&shared.source) };
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let old = shared.source.swap(ptr::null_mut(), AcqRel);
                // SAFETY: it is not freed, and loom panics on a concurrent access.
                unsafe { &*old }.with(|value| unsafe { *value += 1 });
                let handle = shared.domain.register();
                // SAFETY: as in `replace`.
                unsafe { handle.retire_with(old.cast(), free) };
            }
        });
        drop(guard);
        handle.reclaim();
        writer.join().unwrap();
    });
}
