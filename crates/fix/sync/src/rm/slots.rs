//! What a thread reads at the moment.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::{Platform, light};
use crate::primitive::{AtomicU32, AtomicU64};

/// Locks that a thread can read at the same time without a trace on the locks themselves. More are
/// possible, and cost what they cost in the lock below. Four fill one line.
const SLOTS: usize = 4;

/// Says that the thread has the lock of the slot by the lock below: nobody need wait for the slot.
const BELOW: u64 = 1;

/// Says that the thread reads the lock of the slot more than once.
const NESTED: u64 = 2;

/// What the first slot of a thread is for ever where readers execute a fence: no lock, and not free.
/// So those who have found it free need not ask for a fence.
const CLOSED: u64 = BELOW;

/// The locks that a thread reads. Only that thread writes here.
#[derive(Debug)]
pub struct Slots {
    slots: [Slot; SLOTS],
    /// Reads of locks that found no slot.
    unrecorded: AtomicU32,
    /// What the platform says, in a line that readers have anyway.
    is_symmetric: bool,
}

/// One lock that a thread reads.
#[derive(Debug)]
pub(super) struct Slot {
    /// The lock's number with [`BELOW`] and [`NESTED`]; 0 for none.
    lock: AtomicU64,
    /// How often more than once the thread reads it.
    nested: AtomicU32,
}

impl Slots {
    /// Slots of a thread of this platform, which reads nothing.
    pub fn new(platform: &impl Platform) -> Slots {
        let is_symmetric = platform.is_symmetric();
        let content = |slot| if slot == 0 && is_symmetric { CLOSED } else { 0 };
        let slot = |slot| Slot { lock: AtomicU64::new(content(slot)), nested: AtomicU32::new(0) };
        Slots { slots: core::array::from_fn(slot), unrecorded: AtomicU32::new(0), is_symmetric }
    }

    /// The slot that is looked at first. When it is free or a lock has it, the thread executes no
    /// fence for it.
    #[inline]
    pub(super) fn first(&self) -> &Slot {
        &self.slots[0]
    }

    /// The fence of a reader.
    pub(super) fn light(&self) {
        light(self.is_symmetric);
    }

    pub(super) fn free(&self) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.is_free())
    }

    /// The slot that holds this lock, by itself or by the lock below.
    pub(super) fn of(&self, lock: u64) -> Option<&Slot> {
        self.slots.iter().find(|slot| slot.lock.load(Relaxed) & !(BELOW | NESTED) == lock)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter()
    }

    /// Whether the thread reads nothing.
    pub(super) fn is_idle(&self) -> bool {
        self.slots.iter().all(Slot::is_idle) && !self.has_unrecorded()
    }

    pub(super) fn has_unrecorded(&self) -> bool {
        self.unrecorded.load(Relaxed) > 0
    }

    pub(super) fn count_unrecorded(&self) {
        self.unrecorded.store(one_more(self.unrecorded.load(Relaxed)), Relaxed);
    }

    /// Reads nothing any more, in the child of a fork whose parent has the thread.
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

    /// Whether it has no lock.
    fn is_idle(&self) -> bool {
        self.lock.load(Relaxed) & !(BELOW | NESTED) == 0
    }

    /// Whether a writer of this lock waits for the slot. Whoever sees that it need not sees also
    /// what the thread did before it left.
    pub(super) fn holds(&self, lock: u64) -> bool {
        let nested = if is_mutant!("rm_nested") { 0 } else { NESTED };
        self.lock.load(order!(Acquire, "rm_holds")) & !nested == lock
    }

    /// Whether the thread reads this lock once, and by the slot alone.
    #[inline]
    pub(super) fn is_single(&self, lock: u64) -> bool {
        self.lock.load(Relaxed) == lock
    }

    /// Takes the slot. Release: a writer that finds another lock here than its own must see what the
    /// thread did when it had the writer's.
    #[inline]
    pub(super) fn set(&self, lock: u64) {
        self.lock.store(lock, order!(Release, "rm_set"));
    }

    /// Takes the slot for a lock that the thread has by the lock below.
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

    /// One more read of the slot's lock.
    pub(super) fn nest(&self) {
        self.nested.store(one_more(self.nested.load(Relaxed)), Relaxed);
        self.set(self.lock.load(Relaxed) | NESTED);
    }

    /// Whether there was a read within another, which is over now.
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

/// A count of guards. Who forgets four thousand millions of them must not get to 0 again.
fn one_more(count: u32) -> u32 {
    count.checked_add(1).expect("a thread has fewer than 2^32 guards of one lock")
}
