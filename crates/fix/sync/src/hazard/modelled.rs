//! Models in which a thread reads an object, other threads replace the object, and barriers run.

use std::sync::Arc;

use core::mem;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::model::{Model, check, check_symmetric, interrupt, thread};
use crate::primitive::{AtomicBool, AtomicPtr, Guarded};

use super::{Domain, Handle};

/// A shared object: loom panics on unordered accesses.
type Object = Guarded<u32>;

const FREED: u32 = 0xdead;

/// "Frees" by writing, so that loom detects a concurrent read.
unsafe fn free(pointer: *mut ()) {
    // SAFETY: `pointer` came from `object`, which leaks its objects.
    unsafe { &*pointer.cast::<Object>() }.with(|value| {
        // SAFETY: loom panics on a concurrent access.
        let before = unsafe { value.replace(FREED) };
        assert_ne!(before, FREED, "freed twice");
    });
}

struct Shared {
    domain: Domain<Model>,
    source: AtomicPtr<Object>,
    /// Whether the first object of `source` has been retired.
    is_retired: AtomicBool,
}

/// A domain whose threads scan when they have retired one object.
fn shared() -> Arc<Shared> {
    shared_with(1)
}

/// A domain whose threads scan when they have retired `batch` objects.
fn shared_with(batch: usize) -> Arc<Shared> {
    Arc::new(Shared {
        domain: Domain::with_batch(Model, batch),
        source: AtomicPtr::new(object()),
        is_retired: AtomicBool::new(false),
    })
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
    retire(shared, &shared.domain.register(), new);
}

/// Replaces the object in `source`, and retires the old object.
fn retire(shared: &Shared, handle: &Handle<Model>, new: *mut Object) {
    let old = shared.source.swap(new, AcqRel);
    if !old.is_null() {
        // SAFETY: the exchange removed `old`, and any thread may call `free`.
        unsafe { handle.retire_with(old.cast(), free) };
    }
}

/// Asserts that the object was freed, and that loom orders the free before this load.
fn assert_freed(object: &Object) {
    // SAFETY: loom panics on a concurrent write.
    object.with(|value| assert_eq!(unsafe { *value }, FREED));
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
fn orphans_of_one_thread_are_freed_once_by_another_thread() {
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
                // SAFETY: the object is not freed, and loom panics on a concurrent access.
                unsafe { &*old }.with(|value| unsafe { *value += 1 });
                let handle = shared.domain.register();
                // SAFETY: as in `retire`.
                unsafe { handle.retire_with(old.cast(), free) };
            }
        });
        drop(guard);
        handle.reclaim();
        writer.join().unwrap();
    });
}

#[test]
fn a_barrier_frees_an_object_that_an_earlier_scan_kept_for_a_guard() {
    check(2, || {
        let shared = shared_with(2);
        let handle = shared.domain.register();
        // SAFETY: as in `read`.
        let guard = unsafe { handle.protect(&shared.source) }.expect("there is an object");
        // SAFETY: the model leaks its objects.
        let object = unsafe { &*guard.as_ptr() };
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let handle = shared.domain.register();
                retire(&shared, &handle, ptr::null_mut());
                shared.is_retired.store(true, Release);
                handle.reclaim();
                // The handle is not dropped, because its destructor would reclaim again.
                mem::forget(handle);
            }
        });
        thread::yield_now();
        drop(guard);
        if shared.is_retired.load(Acquire) {
            shared.domain.barrier();
            assert_freed(object);
        }
        writer.join().unwrap();
    });
}

/// Checks that a barrier frees an object that an unregistered thread has left behind, even while another
/// thread runs `other`.
fn check_barrier_frees_orphan_during(other: fn(&Shared)) {
    check_symmetric(2, move || {
        let shared = shared();
        let handle = shared.domain.register();
        // SAFETY: as in `read`.
        let guard = unsafe { handle.protect(&shared.source) }.expect("there is an object");
        // SAFETY: the model leaks its objects.
        let object = unsafe { &*guard.as_ptr() };
        replace(&shared, ptr::null_mut());
        drop(guard);
        let other = thread::spawn({
            let shared = Arc::clone(&shared);
            move || other(&shared)
        });
        shared.domain.barrier();
        assert_freed(object);
        other.join().unwrap();
    });
}

#[test]
fn a_barrier_waits_for_the_destructors_of_an_adopting_thread() {
    check_barrier_frees_orphan_during(|shared| shared.domain.register().reclaim());
}

#[test]
fn a_barrier_waits_for_the_destructors_of_the_previous_barrier() {
    check_barrier_frees_orphan_during(|shared| shared.domain.barrier());
}

#[test]
fn a_barrier_and_a_thread_that_retires_exclude_each_other() {
    check(2, || {
        let shared = shared_with(2);
        // SAFETY: the model leaks its objects.
        let object = unsafe { &*shared.source.load(Relaxed) };
        // This call creates the record of retired objects that the writer will take, so the barrier finds
        // that record.
        shared.domain.register().reclaim();
        let writer = thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                let handle = shared.domain.register();
                retire(&shared, &handle, ptr::null_mut());
                mem::forget(handle);
            }
        });
        shared.domain.barrier();
        writer.join().unwrap();
        shared.domain.barrier();
        assert_freed(object);
    });
}
