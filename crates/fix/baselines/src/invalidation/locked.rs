//! A list of active sections under a mutex.
//!
//! Sections are numbered, and the list begins with the newest. When the oldest section ends, it publishes its
//! number: no section with this number or a smaller one is active any more. When any other section ends, it
//! passes its number to the next older section, which publishes the number or passes it on in turn.

use core::fmt;
use core::ptr;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use knee_sync::Platform;

use super::form::{Invalidation, Stamp};
use crate::primitive::{AtomicPtr, AtomicU64, Mutex};
use knee_sync::{is_mutant, order};

/// Delayed invalidation as in FreeBSD from 2016 to 2019, and today on CPUs without `cmpxchg16b`.
///
/// Each section takes one global mutex twice. A waiter waits for the sections that marked the page, and for
/// all older sections.
pub struct Locked {
    list: Mutex<List>,
    /// The largest finished number: no section with this or a smaller number is active.
    finished: AtomicU64,
}

#[derive(Debug)]
struct List {
    newest: AtomicPtr<LockedPlace>,
}

/// A thread's place in [`Locked`], whose mutex guards the links between places.
#[derive(Debug)]
pub struct LockedPlace {
    /// The section's number, or 0.
    number: AtomicU64,
    newer: AtomicPtr<LockedPlace>,
    older: AtomicPtr<LockedPlace>,
}

impl Locked {
    /// Creates an empty list of sections.
    pub fn new() -> Locked {
        let list = Mutex::new(List { newest: AtomicPtr::new(ptr::null_mut()) });
        Locked { list, finished: AtomicU64::new(0) }
    }
}

impl Default for Locked {
    fn default() -> Locked {
        Locked::new()
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("Locked").field("finished", &self.finished).finish_non_exhaustive()
    }
}

// SAFETY: a number is published as finished only when no section with this or a smaller number is in the
// list.
unsafe impl Invalidation for Locked {
    type Place = LockedPlace;

    fn supported() -> Option<Locked> {
        Some(Locked::new())
    }

    fn place(&self) -> LockedPlace {
        LockedPlace {
            number: AtomicU64::new(0),
            newer: AtomicPtr::new(ptr::null_mut()),
            older: AtomicPtr::new(ptr::null_mut()),
        }
    }

    unsafe fn begin(&self, place: &LockedPlace, _: &impl Platform) {
        let me = ptr::from_ref(place).cast_mut();
        let list = self.list.lock();
        let newest = list.newest.load(Relaxed);
        // SAFETY: the caller of `begin` guarantees that places in the list stay at their addresses.
        let before = match unsafe { newest.as_ref() } {
            Some(newest) => {
                newest.newer.store(me, Relaxed);
                newest.number.load(Relaxed)
            }
            None => self.finished.load(Relaxed),
        };
        place.number.store(before + 1, Relaxed);
        place.newer.store(ptr::null_mut(), Relaxed);
        place.older.store(newest, Relaxed);
        list.newest.store(me, Relaxed);
    }

    unsafe fn mark(&self, place: &LockedPlace, stamp: &Stamp) {
        // When a newer section ended, it may have passed its number to this section. The number is finished
        // only when this section and all older sections have ended.
        let number = place.number.load(Relaxed);
        if stamp.number.load(Relaxed) < number {
            stamp.number.store(number, Relaxed);
        }
    }

    unsafe fn finish(&self, place: &LockedPlace, _: &impl Platform) {
        let list = self.list.lock();
        let number = place.number.load(Relaxed);
        let (newer, older) = (place.newer.load(Relaxed), place.older.load(Relaxed));
        // SAFETY: as in `begin`.
        match unsafe { newer.as_ref() } {
            Some(newer) => newer.older.store(older, Relaxed),
            None => list.newest.store(older, Relaxed),
        }
        // SAFETY: as in `begin`.
        match unsafe { older.as_ref() } {
            Some(older) => {
                older.newer.store(newer, Relaxed);
                if !is_mutant!("locked_keeps") {
                    older.number.store(number, Relaxed);
                }
            }
            None => {
                // Sections pass their numbers on under the mutex, so this store also happens after everything
                // that those sections did.
                self.finished.store(number, order!(Release, "locked_finish"));
            }
        }
        place.number.store(0, Relaxed);
    }

    fn wait<'a>(
        &self,
        _: impl Iterator<Item = &'a LockedPlace>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) {
        let number = stamp.number.load(Relaxed);
        // Acquire: the waiter sees what the finished sections did, without taking the mutex.
        platform.sleep_while(|| number > self.finished.load(order!(Acquire, "locked_wait")));
    }
}
