//! The fast path of readers, which bypasses the underlying lock while there are no writers.
//!
//! A reader writes the lock's number into a slot of its thread and checks whether the lock is *open*. If the
//! lock is open, the reader holds the lock, and has written only to the slots of its own thread. No other
//! thread writes the cache line of these slots, and other threads read it only when they shut a lock. A
//! writer takes the underlying lock, shuts the fast path, and waits until no slot has the lock's number.
//! Readers of a shut lock take the underlying lock, and after a while one of them opens the fast path again.
//! So a lock that is written all the time costs as much as the underlying lock plus one load.
//!
//! Slots hold the lock's number, not its address. If a thread leaks a guard, the guard's slot is never
//! emptied, but the lock may be moved or freed, and another lock may be created at the same address. If the
//! slot held the address, the thread would seem to hold that other lock.
//!
//! ```text
//! reader                          writer
//!   slot = number                   (takes the underlying lock)
//!   light fence                     open = false
//!   open?  yes: it has the lock     heavy fence
//!          no:  slot = none,        no slot has it?  yes: it has the lock
//!               the underlying lock                  no:  waits
//! ```

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lock_api::RawRwLockRecursive;

use super::readers::Readers;
use super::slots::{Slot, Slots};
use crate::event::Event;
use crate::mutant::{is_mutant, order};
use crate::platform::{Platform, light};
use crate::primitive::{AtomicU32, AtomicU64, constant};

/// To shut a lock, a writer executes a heavy fence and waits for readers. The lock then stays shut for at
/// least `INHIBIT_FACTOR` times the duration of this fence and this wait. So writers spend at most 1 /
/// (`INHIBIT_FACTOR` + 1) of the time on shutting the lock. This is BRAVO's inhibit factor.
const INHIBIT_FACTOR: u64 = 9;

/// Of this many reads of a shut lock, only one checks the time, because reading the clock costs more than
/// taking a lock.
const READS: u32 = if cfg!(any(loom, shuttle)) { 1 } else { 16 };

/// The value of `open` in a shut lock.
const SHUT: u64 = 0;

/// Lock numbers are multiples of this value, so their lowest bits are 0. Slots use these bits as flags.
const STEP: u64 = 4;

/// A lock with a fast path for readers, over the underlying lock `below`.
#[derive(Debug)]
pub(super) struct Bias<R> {
    /// The number that stands for this lock in slots; 0 until the first read.
    number: AtomicU64,
    /// The lock's number while the lock is open, or [`SHUT`] while it is shut. To take an open lock, a reader
    /// needs only a slot. Any holder of the underlying lock may open the lock; only an exclusive holder may
    /// shut it.
    open: AtomicU64,
    /// The approximate number of reads that took the underlying lock since the lock was shut.
    reads: AtomicU32,
    /// The earliest time at which a reader may open the lock again, by the platform's clock.
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

    /// The lock's number, which the first call chooses.
    fn name(&self) -> u64 {
        // The counter is not part of the model, because the algorithm only needs the numbers to differ.
        static NEXT: core::sync::atomic::AtomicU64 = core::sync::atomic::AtomicU64::new(STEP);
        match self.number.load(Relaxed) {
            0 => {
                let new = NEXT.fetch_add(STEP, Relaxed);
                self.number.compare_exchange(0, new, Relaxed, Relaxed).map_or_else(|n| n, |_| new)
            }
            number => number,
        }
    }

    /// The underlying lock, so that a test can check whether a writer waits for it.
    #[cfg(all(test, not(any(loom, shuttle))))]
    pub(super) fn below(&self) -> &R {
        &self.below
    }

    /// Takes the lock through a free slot, if the lock is open.
    #[inline]
    fn enter(&self, slot: &Slot, fence: impl FnOnce()) -> bool {
        let number = self.open.load(Relaxed);
        if number == SHUT {
            return false;
        }
        slot.set(number);
        fence();
        // The fences order this thread's store of the slot before its load of `open`, and a writer's store of
        // `open` before its load of the slot. If this load misses the writer's store, the writer sees the
        // slot and waits. If the load sees the store, this thread does not hold the lock. The load may also
        // see a later store: after the writer released the lock, another reader may have opened it again.
        // That reader held the underlying lock, so its Release store and this Acquire load make the writer's
        // stores visible to this thread.
        if is_mutant!("rm_no_recheck") || self.open.load(order!(Acquire, "rm_enter")) != SHUT {
            return true;
        }
        self.leave(slot);
        false
    }

    /// Releases a lock that was taken through a slot.
    #[inline]
    fn leave(&self, slot: &Slot) {
        slot.clear();
        // A writer first shuts the lock, and then waits until the slot is empty. On an asymmetric platform,
        // the fence in `shut` ensures that the writer sees the slot empty, or that the load below sees that
        // the lock is shut. On a symmetric platform, only a full fence here would ensure this, and all
        // readers would pay for it. So `leave` executes no full fence, and on a symmetric platform the writer
        // may wake up late.
        light(false);
        if self.open.load(Relaxed) == SHUT {
            self.left.notify();
        }
    }

    /// Takes the lock for a reader. `slots` may be `None` if the thread is exiting.
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

    /// Like [`Bias::lock_shared`], but fails if a writer holds the lock.
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

    /// Tries to take the lock without the underlying lock. This succeeds if the thread already has a slot
    /// for the lock, or if the lock is open and the thread has a free slot.
    fn enter_any(&self, slots: Option<&Slots>) -> bool {
        let Some(slots) = slots else { return false };
        if let Some(slot) = slots.of(self.name()) {
            // A writer may be waiting for this thread, so this thread must not wait for the writer.
            slot.nest();
            return true;
        }
        slots.free().is_some_and(|slot| self.enter(slot, || slots.light()))
    }

    /// Records that the thread holds the underlying lock, and opens the fast path if it has been shut for
    /// long enough.
    fn locked_below(&self, slots: Option<&Slots>, platform: &impl Platform) {
        if let Some(slots) = slots {
            match slots.free() {
                Some(slot) => slot.set_below(self.name()),
                None => slots.count_unrecorded(),
            }
        }
        // Concurrent readers may lose counts, but the number need not be exact.
        let reads = self.reads.load(Relaxed);
        self.reads.store(reads.wrapping_add(1), Relaxed);
        if reads.is_multiple_of(READS)
            && self.open.load(Relaxed) == SHUT
            && platform.now() >= self.shut_until.load(Relaxed)
        {
            // This thread holds the underlying lock, so no writer holds it, and the next writer will shut the
            // lock. Release: see `enter`.
            self.open.store(self.name(), order!(Release, "rm_open"));
        }
    }

    /// Releases a reader's lock.
    ///
    /// # Safety
    /// The thread that owns these slots holds the lock.
    #[inline]
    pub(super) unsafe fn unlock_shared(&self, slots: Option<&Slots>) {
        if let Some(slots) = slots
            && slots.first().is_single(self.number.load(Relaxed))
        {
            return self.leave(slots.first());
        }
        // SAFETY: the contract is the same.
        unsafe { self.unlock_shared_any(slots) };
    }

    /// # Safety
    /// The contract of [`Bias::unlock_shared`].
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
        // SAFETY: the caller guarantees that the thread holds the lock. If the thread held the lock only through
        // a slot, this function would have returned above. So the thread holds the underlying lock.
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

    /// Takes the lock for a writer if no thread has it. The call may cost a heavy fence, but does not wait
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

    /// Shuts the fast path and waits for its readers. The caller holds the underlying lock.
    #[cold]
    fn shut(&self, readers: &Readers, platform: &impl Platform) {
        let number = self.number.load(Relaxed);
        let began = platform.now();
        self.open.store(SHUT, Relaxed);
        // This fence pairs with the fence in `enter`. If the loop below misses a thread that registers or
        // stores its slot at the same time, that thread sees that the lock is shut.
        if !is_mutant!("rm_no_fence") {
            platform.heavy();
        }
        // One pass suffices: while the lock is shut, only a thread whose slot already holds the lock's number
        // can take the lock again through that slot. So no reader takes the lock through a slot that the loop
        // has already checked.
        for slot in readers.slots() {
            self.left.wait(platform, || !slot.holds(number));
        }
        let now = platform.now();
        self.reads.store(1, Relaxed);
        self.shut_until.store(now + INHIBIT_FACTOR * (now - began), Relaxed);
    }

    /// Like [`Bias::shut`], but does not wait: if there are readers, opens the lock again, releases the
    /// underlying lock and returns false.
    #[cold]
    fn try_shut(&self, readers: &Readers, platform: &impl Platform) -> bool {
        let number = self.number.load(Relaxed);
        self.open.store(SHUT, Relaxed);
        if !is_mutant!("rm_try_no_fence") {
            platform.heavy();
        }
        let is_read = readers.slots().any(|slot| slot.holds(number));
        if is_read {
            // Relaxed: `heavy` was a full fence, so if a reader finds the lock open, the reader sees what
            // earlier writers wrote.
            self.open.store(self.name(), Relaxed);
            // SAFETY: `try_lock_exclusive` has taken the underlying lock.
            unsafe { self.below.unlock_exclusive() };
        } else {
            self.reads.store(1, Relaxed);
        }
        !is_read
    }

    /// Releases a writer's lock.
    ///
    /// # Safety
    /// The thread holds the lock.
    #[inline]
    pub(super) unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller guarantees that the thread holds the lock as a writer, so it holds the
        // underlying lock.
        unsafe { self.below.unlock_exclusive() };
    }
}

/// Whether the slots record all read locks of the thread. If so, the thread does not hold a lock that is in
/// none of its slots, and may take that lock with a non-recursive read. If the thread already held the lock,
/// a non-recursive read could deadlock with a waiting writer.
fn is_new(slots: Option<&Slots>) -> bool {
    slots.is_some_and(|slots| !slots.has_unrecorded())
}
