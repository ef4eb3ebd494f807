//! Runs readers and writers of two locks under many schedules.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use lock_api::{RawRwLock, RawRwLockRecursive};

use super::bias::Bias;
use super::readers::Readers;
use super::slots::Slots;
use crate::model::{Model, check, thread};
use crate::primitive::AtomicU32;

/// An underlying lock: the number of readers, or `WRITER`. While a writer waits, only recursive readers get
/// the lock.
#[derive(Debug)]
struct Below {
    word: AtomicU32,
    waiting: AtomicU32,
}

const WRITER: u32 = 1 << 31;

// SAFETY: a compare-exchange takes the lock, and a writer needs a count of 0.
unsafe impl RawRwLock for Below {
    #[allow(clippy::declare_interior_mutable_const)] // The trait requires it.
    const INIT: Below = Below { word: AtomicU32::new(0), waiting: AtomicU32::new(0) };

    type GuardMarker = lock_api::GuardNoSend;

    fn lock_shared(&self) {
        while !self.try_lock_shared() {
            thread::yield_now();
        }
    }

    fn try_lock_shared(&self) -> bool {
        self.waiting.load(Relaxed) == 0 && self.try_lock_shared_recursive()
    }

    unsafe fn unlock_shared(&self) {
        let readers = self.word.fetch_sub(1, Relaxed);
        assert!((1..WRITER).contains(&readers), "an unlocked lock was unlocked");
    }

    fn lock_exclusive(&self) {
        self.waiting.fetch_add(1, Relaxed);
        while !self.try_lock_exclusive() {
            thread::yield_now();
        }
        self.waiting.fetch_sub(1, Relaxed);
    }

    fn try_lock_exclusive(&self) -> bool {
        self.word.compare_exchange(0, WRITER, Relaxed, Relaxed).is_ok()
    }

    unsafe fn unlock_exclusive(&self) {
        assert_eq!(self.word.swap(0, Relaxed), WRITER, "an unlocked lock was unlocked");
    }
}

// SAFETY: recursive readers do not wait for waiting writers.
unsafe impl RawRwLockRecursive for Below {
    fn lock_shared_recursive(&self) {
        while !self.try_lock_shared_recursive() {
            thread::yield_now();
        }
    }

    fn try_lock_shared_recursive(&self) -> bool {
        let readers = self.word.load(Relaxed);
        readers != WRITER
            && self.word.compare_exchange(readers, readers + 1, Relaxed, Relaxed).is_ok()
    }
}

/// A lock, and the number of readers that have it, or -1 if a writer has it. The number is not part of the
/// model, so each access sees the latest value.
struct Place {
    lock: Bias<Below>,
    inside: AtomicI64,
}

struct World {
    readers: Readers,
    places: [Place; 2],
}

impl World {
    fn new() -> Arc<World> {
        let place = || Place { lock: Bias::new(Below::INIT), inside: AtomicI64::new(0) };
        Arc::new(World { readers: Readers::new(), places: [place(), place()] })
    }

    fn write(&self, place: usize, waits: bool) {
        let Place { lock, inside } = &self.places[place];
        // Lets readers open the lock.
        thread::yield_now();
        if waits {
            lock.lock_exclusive(&self.readers, || Model);
        } else if !lock.try_lock_exclusive(&self.readers, || Model) {
            return;
        }
        assert_eq!(inside.swap(-1, Relaxed), 0, "another thread is inside");
        thread::yield_now();
        assert_eq!(inside.swap(0, Relaxed), -1, "another thread took the lock");
        // SAFETY: this thread has the lock.
        unsafe { lock.unlock_exclusive() };
    }
}

impl Place {
    fn read(&self, slots: &Slots, with: impl FnOnce()) {
        self.lock.lock_shared(Some(slots), || Model);
        assert!(self.inside.fetch_add(1, Relaxed) >= 0, "a writer is inside");
        with();
        assert!(self.inside.fetch_sub(1, Relaxed) > 0, "a writer is inside");
        // SAFETY: this thread has the lock.
        unsafe { self.lock.unlock_shared(Some(slots)) };
    }
}

#[test]
fn writers_exclude_three_nesting_readers() {
    check(|| {
        let world = World::new();
        let in_thread = |does: fn(&World)| {
            let world = Arc::clone(&world);
            thread::spawn(move || does(&world))
        };
        let reads = |world: &World| {
            let [first, second] = &world.places;
            for _ in 0..2 {
                let reader = world.readers.register(&Model);
                let slots = reader.slots();
                first.read(slots, thread::yield_now);
                // A nested read does not wait for a waiting writer.
                first.read(slots, || first.read(slots, || second.read(slots, thread::yield_now)));
            }
        };
        let writes = |world: &World| {
            world.write(0, true);
            world.write(1, true);
            world.write(0, true);
        };
        let tries = |world: &World| (0..4).for_each(|turn| world.write(turn % 2, false));
        let all = [reads, reads, reads, writes, writes, tries].map(in_thread);
        all.into_iter().for_each(|thread| thread.join().unwrap());
    });
}
