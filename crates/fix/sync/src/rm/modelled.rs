//! Models of readers and writers of a lock.

use loom::sync::Arc;
use std::mem::ManuallyDrop;
use std::sync::OnceLock;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use lock_api::{GuardNoSend, RawRwLock, RawRwLockRecursive};

use super::bias::Bias;
use super::readers::Readers;
use super::slots::Slots;
use crate::model::{Model, check, interrupt, thread};
use crate::primitive::{AtomicU32, Guarded};

/// An underlying lock: the number of readers, or `WRITER`.
#[derive(Default)]
struct Below(OnceLock<AtomicU32>);

const WRITER: u32 = 1 << 31;

impl Below {
    /// Creates the atomic at its first use, because loom's atomics cannot be created in a constant.
    fn word(&self) -> &AtomicU32 {
        self.0.get_or_init(|| AtomicU32::new(0))
    }
}

// SAFETY: a compare-exchange takes the lock, and a writer needs a count of 0.
unsafe impl RawRwLock for Below {
    const INIT: Below = Below(OnceLock::new());

    type GuardMarker = GuardNoSend;

    fn lock_shared(&self) {
        while !self.try_lock_shared() {
            thread::yield_now();
        }
    }

    fn try_lock_shared(&self) -> bool {
        let readers = self.word().load(Relaxed);
        readers != WRITER
            && self.word().compare_exchange(readers, readers + 1, AcqRel, Relaxed).is_ok()
    }

    unsafe fn unlock_shared(&self) {
        self.word().fetch_sub(1, AcqRel);
    }

    fn lock_exclusive(&self) {
        while !self.try_lock_exclusive() {
            thread::yield_now();
        }
    }

    fn try_lock_exclusive(&self) -> bool {
        self.word().compare_exchange(0, WRITER, Acquire, Relaxed).is_ok()
    }

    unsafe fn unlock_exclusive(&self) {
        self.word().store(0, Release);
    }
}

// SAFETY: readers do not wait for waiting writers.
unsafe impl RawRwLockRecursive for Below {
    fn lock_shared_recursive(&self) {
        self.lock_shared();
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.try_lock_shared()
    }
}

/// A lock, its threads and a value. loom fails if a thread writes the value while another thread reads it.
struct Place {
    lock: Bias<Below>,
    readers: Readers,
    value: Guarded<u32>,
}

// SAFETY: the lock guards the value.
unsafe impl Sync for Place {}
// SAFETY: as for `Sync`.
unsafe impl Send for Place {}

impl Place {
    fn new() -> Arc<Place> {
        let below = Below::default();
        below.word();
        Arc::new(Place { lock: Bias::new(below), readers: Readers::new(), value: Guarded::new(0) })
    }

    /// The slots of a thread that stays registered.
    fn slots(&self) -> &Slots {
        ManuallyDrop::new(self.readers.register(&Model)).slots()
    }

    /// Reads as the owner of `slots`.
    fn read(&self, slots: &Slots, inside: impl FnOnce()) -> u32 {
        self.lock.lock_shared(Some(slots), || Model);
        interrupt();
        // SAFETY: this thread has the lock. loom's cell counts this access as a write, so no model has two
        // readers at the same time.
        let value = self.value.with(|value| unsafe { *value });
        inside();
        // SAFETY: this thread has the lock.
        unsafe { self.lock.unlock_shared(Some(slots)) };
        value
    }

    fn add(&self) {
        // SAFETY: the caller has the lock.
        self.value.with(|value| unsafe { *value += 1 });
        // SAFETY: the caller has the lock.
        unsafe { self.lock.unlock_exclusive() };
    }

    fn write(&self) {
        self.lock.lock_exclusive(&self.readers, || Model);
        self.add();
    }
}

/// Calls a function in another thread.
fn in_thread<R: 'static>(place: &Arc<Place>, does: fn(&Place) -> R) -> thread::JoinHandle<R> {
    let place = Arc::clone(place);
    thread::spawn(move || does(&place))
}

#[test]
fn a_writer_excludes_a_reader_that_registers() {
    check(3, || {
        let place = Place::new();
        // Opens the lock.
        place.read(place.slots(), || ());
        let reader = in_thread(&place, |place| place.read(place.slots(), || ()));
        place.write();
        assert!(reader.join().unwrap() <= 1);
    });
}

#[test]
fn two_reads_of_a_thread_see_two_writes_in_order() {
    check(3, || {
        let place = Place::new();
        let reader = in_thread(&place, |place| {
            let slots = place.slots();
            let first = place.read(slots, || ());
            let second = place.read(slots, || ());
            assert!(first <= second);
        });
        place.write();
        place.write();
        reader.join().unwrap();
        assert_eq!(place.read(place.slots(), || ()), 2);
    });
}

#[test]
fn a_read_within_a_read_does_not_wait_for_a_writer() {
    check(3, || {
        let place = Place::new();
        let slots = place.slots();
        place.read(slots, || ());
        let writer = in_thread(&place, Place::write);
        place.read(slots, || {
            place.lock.lock_shared(Some(slots), || Model);
            // SAFETY: this thread has the lock twice.
            unsafe { place.lock.unlock_shared(Some(slots)) };
        });
        writer.join().unwrap();
    });
}

#[test]
fn a_try_write_excludes_readers_or_fails() {
    check(3, || {
        let place = Place::new();
        place.read(place.slots(), || ());
        let reader = in_thread(&place, |place| {
            let slots = place.slots();
            place.read(slots, || ());
            place.read(slots, || ());
        });
        if place.lock.try_lock_exclusive(&place.readers, || Model) {
            place.add();
        }
        reader.join().unwrap();
    });
}

#[test]
fn a_reader_of_a_reopened_lock_sees_the_previous_write() {
    check(3, || {
        let place = Place::new();
        place.read(place.slots(), || ());
        let reader = in_thread(&place, |place| place.read(place.slots(), || ()));
        place.write();
        let slots = place.slots();
        place.lock.lock_shared(Some(slots), || Model);
        // SAFETY: this thread has the lock, and loom panics on a concurrent access.
        unsafe { place.lock.unlock_shared(Some(slots)) };
        reader.join().unwrap();
    });
}

#[test]
fn a_writer_that_finds_another_lock_in_a_slot_sees_the_end_of_the_previous_read() {
    check(3, || {
        let (first, second) = (Place::new(), Place::new());
        second.read(second.slots(), || ());
        let slots = first.slots();
        first.read(slots, || ());
        let writer = in_thread(&first, Place::write);
        first.read(slots, || ());
        second.read(slots, || ());
        writer.join().unwrap();
    });
}

#[test]
fn a_writer_that_finds_the_below_flag_in_a_slot_sees_the_end_of_the_previous_read() {
    check(3, || {
        let (first, second) = (Place::new(), Place::new());
        let slots = first.slots();
        first.read(slots, || ());
        let writer = in_thread(&first, Place::write);
        first.read(slots, || ());
        // The second lock is not open, so this read takes the underlying lock.
        second.read(slots, || ());
        writer.join().unwrap();
    });
}

#[test]
fn a_reader_after_a_failed_try_write_sees_the_previous_write() {
    check(2, || {
        let place = Place::new();
        let reader = in_thread(&place, |place| place.read(place.slots(), || ()));
        place.write();
        let slots = place.slots();
        let read = || {
            place.lock.lock_shared(Some(slots), || Model);
            // SAFETY: this thread has the lock, and loom panics on a concurrent access.
            let unlock = || unsafe { place.lock.unlock_shared(Some(slots)) };
            unlock
        };
        read()();
        let unlock = read();
        assert!(!place.lock.try_lock_exclusive(&place.readers, || Model), "a reader has the lock");
        unlock();
        reader.join().unwrap();
    });
}
