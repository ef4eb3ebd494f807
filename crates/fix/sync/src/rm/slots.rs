//! The locks that a thread currently holds for reading.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::{Platform, light};
use crate::primitive::{AtomicU32, AtomicU64};

/// The number of read locks that a thread can hold at the same time without writing to the locks
/// themselves. Further read locks cost as much as the underlying lock. Four slots fill one cache line.
const SLOTS: usize = 4;

/// This bit is set if the thread took the underlying lock in order to read. Writers take the underlying lock,
/// too, so they need not wait for a slot with this bit.
const BELOW: u64 = 1;

/// This bit is set if the thread holds the slot's lock more than once.
const NESTED: u64 = 2;

/// On symmetric platforms, the first slot of a thread always has this value: it is not free, but it records
/// no lock. Readers take the first slot without a fence, which is possible only on asymmetric platforms.
const CLOSED: u64 = BELOW;

/// The slots of a thread, to which no other thread writes.
#[derive(Debug)]
pub struct Slots {
    slots: [Slot; SLOTS],
    /// How many of the thread's current reads are recorded in no slot.
    unrecorded: AtomicU32,
    /// A copy of `Platform::is_symmetric`, in a cache line that readers load anyway.
    is_symmetric: bool,
}

/// A lock that the thread holds for reading.
#[derive(Debug)]
pub(super) struct Slot {
    /// The lock's number, with the bits [`BELOW`] and [`NESTED`]; 0 in a free slot.
    lock: AtomicU64,
    /// How many times the thread holds the lock, minus one.
    nested: AtomicU32,
}

impl Slots {
    /// The slots of a thread on this platform.
    pub fn new(platform: &impl Platform) -> Slots {
        let is_symmetric = platform.is_symmetric();
        let content = |slot| if slot == 0 && is_symmetric { CLOSED } else { 0 };
        let slot = |slot| Slot { lock: AtomicU64::new(content(slot)), nested: AtomicU32::new(0) };
        Slots { slots: core::array::from_fn(slot), unrecorded: AtomicU32::new(0), is_symmetric }
    }

    /// The slot that a reader tries first. The reader needs no fence to take this slot.
    #[inline]
    pub(super) fn first(&self) -> &Slot {
        &self.slots[0]
    }

    /// The fence that a reader executes after it has taken a slot and before it checks whether the lock is
    /// open.
    pub(super) fn light(&self) {
        light(self.is_symmetric);
    }

    pub(super) fn free(&self) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.is_free())
    }

    /// The slot with this lock's number, whether or not [`BELOW`] is set.
    pub(super) fn of(&self, lock: u64) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.lock.load(Relaxed) & !(BELOW | NESTED) == lock)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// Whether the thread holds no read lock.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().all(Slot::is_idle) && !self.has_unrecorded()
    }

    pub(super) fn has_unrecorded(&self) -> bool {
        self.unrecorded.load(Relaxed) > 0
    }

    pub(super) fn count_unrecorded(&self) {
        self.unrecorded.store(one_more(self.unrecorded.load(Relaxed)), Relaxed);
    }

    /// Called in the child of a fork: frees all slots of a thread that exists only in the parent.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forget(&self) {
        for slot in self.slots.iter().filter(|slot| !slot.is_idle()) {
            slot.clear();
            slot.nested.store(0, Relaxed);
        }
        self.unrecorded.store(0, Relaxed);
    }

    pub(super) fn uncount_unrecorded(&self) {
        self.unrecorded.store(self.unrecorded.load(Relaxed) - 1, Relaxed);
    }
}

impl Slot {
    #[inline]
    pub(super) fn is_free(&self) -> bool {
        self.lock.load(Relaxed) == 0
    }

    /// Whether the slot records no lock.
    fn is_idle(&self) -> bool {
        self.lock.load(Relaxed) & !(BELOW | NESTED) == 0
    }

    /// Whether a writer of this lock must wait for the slot. If the result is false, the writer sees what the
    /// thread did before the thread released the lock.
    pub(super) fn holds(&self, lock: u64) -> bool {
        let nested = if is_mutant!("rm_nested") { 0 } else { NESTED };
        self.lock.load(order!(Acquire, "rm_holds")) & !nested == lock
    }

    /// Whether the thread holds this lock exactly once, and does not hold the underlying lock.
    #[inline]
    pub(super) fn is_single(&self, lock: u64) -> bool {
        self.lock.load(Relaxed) == lock
    }

    /// Takes the slot. Release: a writer that waits for the slot's previous lock may find this lock in the
    /// slot. The writer must then see what this thread did while it held the previous lock.
    #[inline]
    pub(super) fn set(&self, lock: u64) {
        self.lock.store(lock, order!(Release, "rm_set"));
    }

    /// Records a lock in the slot. The thread must hold the underlying lock.
    pub(super) fn set_below(&self, lock: u64) {
        self.lock.store(lock | BELOW, order!(Release, "rm_set_below"));
    }

    #[inline]
    pub(super) fn clear(&self) {
        self.lock.store(0, order!(Release, "rm_clear"));
    }

    pub(super) fn is_below(&self) -> bool {
        self.lock.load(Relaxed) & BELOW != 0
    }

    /// Counts one more read of the slot's lock.
    pub(super) fn nest(&self) {
        self.nested.store(one_more(self.nested.load(Relaxed)), Relaxed);
        self.set(self.lock.load(Relaxed) | NESTED);
    }

    /// Ends a nested read. Returns false if the lock has no nested read.
    pub(super) fn unnest(&self) -> bool {
        let nested = self.nested.load(Relaxed);
        match nested {
            0 => return false,
            1 => self.set(self.lock.load(Relaxed) & !NESTED),
            _ => (),
        }
        self.nested.store(nested - 1, Relaxed);
        true
    }
}

/// Increments a count of guards, and panics if 2^32 leaked guards would wrap it to 0.
fn one_more(count: u32) -> u32 {
    count.checked_add(1).expect("a thread has fewer than 2^32 guards of one lock")
}
