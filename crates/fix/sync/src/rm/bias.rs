//! Readers that pass a lock by, for as long as nobody writes.
//!
//! A reader writes the lock's number into a slot of its thread and looks whether the lock is *open*.
//! If it is, it has the lock, and has written nothing that another thread writes or reads often. A
//! writer takes the lock below, shuts the lock, and waits until no slot has its number. Readers of a
//! shut lock take the lock below, and one of them opens it again after a while. So a lock that is
//! written all the time is the lock below and one load.
//!
//! A number, and not the lock's address: a thread may forget a guard, and then somebody frees or
//! moves the lock and makes another one there.
//!
//! ```text
//! reader                          writer
//!   slot = number                   (takes the lock below)
//!   light fence                     open = false
//!   open?  yes: it has the lock     heavy fence
//!          no:  slot = none,        no slot has it?  yes: it has the lock
//!               the lock below                             no:  waits
//! ```

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lock_api::RawRwLockRecursive;

use super::readers::Readers;
use super::slots::{Slot, Slots};
use crate::event::Event;
use crate::mutant::{is_mutant, order};
use crate::platform::{Platform, light};
use crate::primitive::{AtomicU32, AtomicU64, constant};

/// Writers wait for readers of an open lock at most 1 / (`INHIBIT_FACTOR` + 1) of the time: for so many
/// times the duration of the last wait the lock stays shut. BRAVO's number.
const INHIBIT_FACTOR: u64 = 9;

/// Reads of a shut lock for which nobody asks how late it is. A clock costs more than a lock.
const READS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// What `open` is if the lock is not.
const SHUT: u64 = 0;

/// From one lock's number to the next: the lowest bits are the slots'.
const STEP: u64 = 4;

/// A lock over the lock `below`.
#[derive(Debug)]
pub(super) struct Bias<R> {
    /// The lock's number in slots; 0 until somebody reads it.
    number: AtomicU64,
    /// The number again if the lock is open, that is, if readers need no more than a slot; else 0.
    /// Who has the lock below in any way may set it, who has it exclusively may clear it.
    open: AtomicU64,
    /// Reads that took the lock below since it was shut, or fewer: the count is not exact.
    reads: AtomicU32,
    /// When a reader may open the lock again, in the platform's time.
    shut_until: AtomicU64,
    left: Event,
    below: R,
}

impl<R: RawRwLockRecursive> Bias<R> {
    constant! {
        pub(super) fn new(below: R) -> Bias<R> {
            Bias {
                number: AtomicU64::new(0),
                open: AtomicU64::new(SHUT),
                reads: AtomicU32::new(0),
                shut_until: AtomicU64::new(0),
                left: Event::new(),
                below,
            }
        }
    }

    /// What slots call the lock. A new number must be in place before it is used.
    fn name(&self) -> u64 {
        // No part of the algorithm, and so none of its model.
        static NEXT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(STEP);
        match self.number.load(Relaxed) {
            0 => {
                let new = NEXT.fetch_add(STEP, Relaxed);
                self.number.compare_exchange(0, new, Relaxed, Relaxed).map_or_else(|n| n, |_| new)
            }
            number => number,
        }
    }

    /// The lock below, to see who waits there.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn below(&self) -> &R {
        &self.below
    }

    /// Takes the lock by a free slot, if it is open.
    #[inline]
    fn enter(&self, slot: &Slot, fence: impl FnOnce()) -> bool {
        let number = self.open.load(Relaxed);
        if number == SHUT {
            return false;
        }
        slot.set(number);
        fence();
        // The fences order our store of the slot and this load, and a writer's store of `open` and
        // load of the slot. If our load misses the writer's store, the writer sees the slot and
        // waits for us. If it sees the store, we are not inside. It may also see that a reader has
        // opened the lock after that writer: Acquire, and the Release of that reader, who had the
        // lock below then, let us see what the writer wrote.
        if is_mutant!("rm_no_recheck") || self.open.load(order!(Acquire, "rm_enter")) != SHUT {
            return true;
        }
        self.leave(slot);
        false
    }

    /// Gives back a lock that was taken by a slot.
    #[inline]
    fn leave(&self, slot: &Slot) {
        slot.clear();
        // If a writer sleeps for the slot, it has shut the lock before it looked at the slot. So
        // either it has seen the slot empty, or this load sees that the lock is shut: by the fence
        // of `shut` where the platform is asymmetric. A full fence would cost more than it is
        // worth, so a symmetric platform has none, and the writer may wake up late.
        light(false);
        if self.open.load(Relaxed) == SHUT {
            self.left.notify();
        }
    }

    /// Takes the lock for a reader, whose thread has these slots or, when it is about to exit, none.
    #[inline]
    pub(super) fn lock_shared<P: Platform>(
        &self,
        slots: Option<&Slots>,
        platform: impl FnOnce() -> P,
    ) {
        if !self.enter_first(slots) {
            self.lock_shared_below(slots, &platform());
        }
    }

    /// As [`Bias::lock_shared`], if no writer has the lock.
    #[inline]
    pub(super) fn try_lock_shared<P: Platform>(
        &self,
        slots: Option<&Slots>,
        platform: impl FnOnce() -> P,
    ) -> bool {
        self.enter_first(slots) || self.try_lock_shared_below(slots, &platform())
    }

    #[inline]
    fn enter_first(&self, slots: Option<&Slots>) -> bool {
        slots.is_some_and(|slots| {
            slots.first().is_free() && self.enter(slots.first(), || light(false))
        })
    }

    #[cold]
    fn lock_shared_below(&self, slots: Option<&Slots>, platform: &impl Platform) {
        if self.enter_any(slots) {
            return;
        }
        match is_new(slots) {
            true => self.below.lock_shared(),
            false => self.below.lock_shared_recursive(),
        }
        self.locked_below(slots, platform);
    }

    #[cold]
    fn try_lock_shared_below(&self, slots: Option<&Slots>, platform: &impl Platform) -> bool {
        if self.enter_any(slots) {
            return true;
        }
        let locked = match is_new(slots) {
            true => self.below.try_lock_shared(),
            false => self.below.try_lock_shared_recursive(),
        };
        if locked {
            self.locked_below(slots, platform);
        }
        locked
    }

    /// Takes the lock again if the thread has it, and else by any free slot.
    fn enter_any(&self, slots: Option<&Slots>) -> bool {
        let Some(slots) = slots else { return false };
        if let Some(slot) = slots.of(self.name()) {
            // A writer may wait for us: to wait for it would be for ever.
            slot.nest();
            return true;
        }
        slots.free().is_some_and(|slot| self.enter(slot, || slots.light()))
    }

    /// Notes that the thread has the lock below, and opens this one if it is time.
    fn locked_below(&self, slots: Option<&Slots>, platform: &impl Platform) {
        if let Some(slots) = slots {
            match slots.free() {
                Some(slot) => slot.set_below(self.name()),
                None => slots.count_unrecorded(),
            }
        }
        // Counts get lost when two readers are here; nobody needs them all.
        let reads = self.reads.load(Relaxed);
        self.reads.store(reads.wrapping_add(1), Relaxed);
        if reads.is_multiple_of(READS)
            && self.open.load(Relaxed) == SHUT
            && platform.now() >= self.shut_until.load(Relaxed)
        {
            // The lock below is ours, so no writer is inside, and the next one will shut the lock.
            // Release: see `enter`.
            self.open.store(self.name(), order!(Release, "rm_open"));
        }
    }

    /// Gives back a reader's lock.
    ///
    /// # Safety
    /// The thread of these slots has it.
    #[inline]
    pub(super) unsafe fn unlock_shared(&self, slots: Option<&Slots>) {
        if let Some(slots) = slots
            && slots.first().is_single(self.number.load(Relaxed))
        {
            return self.leave(slots.first());
        }
        // SAFETY: the caller says so.
        unsafe { self.unlock_shared_any(slots) };
    }

    /// # Safety
    /// As [`Bias::unlock_shared`].
    #[cold]
    unsafe fn unlock_shared_any(&self, slots: Option<&Slots>) {
        if let Some(slots) = slots {
            match slots.of(self.name()) {
                Some(slot) if slot.unnest() => return,
                Some(slot) if !slot.is_below() => return self.leave(slot),
                Some(slot) => slot.clear(),
                None => slots.uncount_unrecorded(),
            }
        }
        // SAFETY: the thread has the lock, and not by a slot alone, so it has the lock below.
        unsafe { self.below.unlock_shared() };
    }

    /// Takes the lock for a writer.
    #[inline]
    pub(super) fn lock_exclusive<P: Platform>(
        &self,
        readers: &Readers,
        platform: impl FnOnce() -> P,
    ) {
        self.below.lock_exclusive();
        if self.open.load(Relaxed) != SHUT {
            self.shut(readers, &platform());
        }
    }

    /// Takes the lock for a writer if nobody has it. This may cost a heavy fence, and does not wait
    /// for readers.
    #[inline]
    pub(super) fn try_lock_exclusive<P: Platform>(
        &self,
        readers: &Readers,
        platform: impl FnOnce() -> P,
    ) -> bool {
        self.below.try_lock_exclusive()
            && (self.open.load(Relaxed) == SHUT || self.try_shut(readers, &platform()))
    }

    /// Sends readers to the lock below, which is ours, and waits until those of before are out.
    #[cold]
    fn shut(&self, readers: &Readers, platform: &impl Platform) {
        let number = self.number.load(Relaxed);
        let began = platform.now();
        self.open.store(SHUT, Relaxed);
        // The other side is in `enter`. A thread that came into the registry meanwhile is a store
        // like that of its slot: if we miss it, it sees that the lock is shut.
        if !is_mutant!("rm_no_fence") {
            platform.heavy();
        }
        // Once is enough for each slot: nobody enters a shut lock, but for those who have it.
        for slot in readers.slots() {
            self.left.wait(platform, || !slot.holds(number));
        }
        let now = platform.now();
        self.reads.store(1, Relaxed);
        self.shut_until.store(now + INHIBIT_FACTOR * (now - began), Relaxed);
    }

    /// As [`Bias::shut`]; if readers are inside, opens the lock again and gives the lock below back.
    #[cold]
    fn try_shut(&self, readers: &Readers, platform: &impl Platform) -> bool {
        let number = self.number.load(Relaxed);
        self.open.store(SHUT, Relaxed);
        if !is_mutant!("rm_try_no_fence") {
            platform.heavy();
        }
        let is_read = readers.slots().any(|slot| slot.holds(number));
        if is_read {
            // Relaxed: `heavy` was a full fence, so whoever finds it open sees what was written before.
            self.open.store(self.name(), Relaxed);
            // SAFETY: it is ours since `try_lock_exclusive`.
            unsafe { self.below.unlock_exclusive() };
        } else {
            self.reads.store(1, Relaxed);
        }
        !is_read
    }

    /// Gives back a writer's lock.
    ///
    /// # Safety
    /// The thread has it.
    #[inline]
    pub(super) unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller says so, and a writer has the lock below.
        unsafe { self.below.unlock_exclusive() };
    }
}

/// Whether a thread with these slots, none of which has the lock, surely does not have it. A lock
/// below that lets writers first would wait for itself, if it did.
fn is_new(slots: Option<&Slots>) -> bool {
    slots.is_some_and(|slots| !slots.has_unrecorded())
}
