//! A list of active sections under a mutex, and numbers that are handed down it.
//!
//! Sections are numbered, and the list has the newest first. The oldest section tells when it ends
//! that its number is finished, and with it all smaller ones. Another section hands its number to the
//! next older one instead: when that ends, both are over.

use std::ptr;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicU64};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::tracker::{Invalidation, Stamp};
use crate::platform::Platform;

/// Delayed invalidation as in FreeBSD from 2016 to 2019, and today on CPUs without `cmpxchg16b`.
///
/// All sections of the system meet in one mutex, twice each. A wait is for sections that marked the
/// page and for older ones; waiters sleep.
#[derive(Debug, Default)]
pub struct Locked {
    list: Mutex<List>,
    /// The largest number such that no section with it or a smaller one is active.
    finished: AtomicU64,
    progress: Condvar,
}

#[derive(Debug, Default)]
struct List {
    newest: AtomicPtr<LockedPlace>,
    waiters: usize,
}

/// A thread's place in [`Locked`]. Its links are written and read with the mutex.
#[derive(Debug, Default)]
pub struct LockedPlace {
    /// The section's number; 0 outside of any.
    number: AtomicU64,
    newer: AtomicPtr<LockedPlace>,
    older: AtomicPtr<LockedPlace>,
}

impl Locked {
    /// The form, without sections.
    pub fn new() -> Locked {
        Locked::default()
    }

    fn list(&self) -> MutexGuard<'_, List> {
        // Nothing panics with it.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Invalidation for Locked {
    type Place = LockedPlace;

    fn place(&self) -> LockedPlace {
        LockedPlace::default()
    }

    unsafe fn begin(&self, place: &LockedPlace, _: &impl Platform) {
        let me = ptr::from_ref(place).cast_mut();
        let list = self.list();
        let newest = list.newest.load(Relaxed);
        // SAFETY: places in the list stay where they are, says `begin`'s caller.
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

    fn mark(&self, place: &LockedPlace, stamp: &Stamp) {
        // A newer section may hand its number down meanwhile: either number is over when we are.
        let number = place.number.load(Relaxed);
        if stamp.0.load(Relaxed) < number {
            stamp.0.store(number, Relaxed);
        }
    }

    unsafe fn finish(&self, place: &LockedPlace, _: &impl Platform) {
        let list = self.list();
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
                older.number.store(number, Relaxed);
            }
            None => {
                // Those who handed their numbers down did so with the mutex, so what they did comes
                // before this as well.
                self.finished.store(number, Release);
                if list.waiters > 0 {
                    self.progress.notify_all();
                }
            }
        }
        place.number.store(0, Relaxed);
    }

    fn wait<'a>(&self, _: impl Iterator<Item = &'a LockedPlace>, stamp: &Stamp, _: &impl Platform) {
        let number = stamp.0.load(Relaxed);
        // Acquire: who does not take the mutex sees what those sections did. No model shows it: these
        // are std's mutex and condition variable.
        if number <= self.finished.load(Acquire) {
            return;
        }
        let mut list = self.list();
        list.waiters += 1;
        while number > self.finished.load(Relaxed) {
            list = self.progress.wait(list).unwrap_or_else(PoisonError::into_inner);
        }
        list.waiters -= 1;
    }
}
