//! Slots: a cache line for each thread, with the marks of its current section.
//!
//! Each thread numbers its own sections, and keeps the set of the stamps that its current section has
//! marked, as a Bloom filter of one word. A waiter loads the slots of all threads, and waits for each thread
//! that is in a section and whose set contains the waiter's stamp.
//!
//! No fence is needed, not even an asymmetric one, because the page's lock orders the marking thread and the
//! waiter. The marking thread stored its section number and its set before it released the lock, and the
//! waiter has taken the lock since then. So the waiter sees these stores, or later stores to the same slot.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::Platform;
use crate::primitive::{AtomicU64, constant};

/// Represents a page, or a bucket of pages, in the sets of marked pages. A stamp takes eight bytes.
#[derive(Debug)]
pub struct Stamp(AtomicU64);

impl Stamp {
    constant! {
        /// A stamp that no section has marked.
        pub fn new() -> Stamp {
            Stamp(AtomicU64::new(0))
        }
    }

    /// The stamp's bit, or 0 before the first mark.
    pub(super) fn bit(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// The stamp's bit. The bit is chosen at the first mark and stays the same, even if the stamp moves.
    fn mark(&self) -> u64 {
        match self.bit() {
            0 => {
                // Fibonacci hashing of the address: the highest bits of the product depend on all bits of
                // the address.
                let address = core::ptr::from_ref(self).addr() as u64;
                let bit = 1 << (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
                self.0.store(bit, Relaxed);
                bit
            }
            bit => bit,
        }
    }
}

impl Default for Stamp {
    fn default() -> Stamp {
        Stamp::new()
    }
}

/// The sections of one thread or CPU: the building block of a [`Tracker`](super::Tracker).
///
/// An embedder with per-CPU data has a slot for each CPU, in a cache line of its own, and passes the slots
/// of all CPUs to [`wait`](Slot::wait).
///
/// ```
/// use knee_sync::System;
/// use knee_sync::invalidation::{Slot, Stamp};
///
/// let (cpus, stamp) = ([Slot::new(), Slot::new()], Stamp::new());
/// // SAFETY: this thread alone is CPU 0, and it begins no other section before it ends this one.
/// unsafe {
///     cpus[0].begin();
///     cpus[0].mark(&stamp);
///     cpus[0].finish();
/// }
/// Slot::wait(cpus.iter(), &stamp, &System::detect());
/// ```
#[derive(Debug)]
pub struct Slot {
    /// The number of times that a section began or ended. The number is odd during a section.
    section: AtomicU64,
    /// The bits of the stamps that the section has marked.
    marked: AtomicU64,
}

impl Slot {
    constant! {
        /// A slot outside of any section.
        pub fn new() -> Slot {
            Slot { section: AtomicU64::new(0), marked: AtomicU64::new(0) }
        }
    }

    // All stores are Release, not only the store in `finish`. If a waiter sees any later store to the slot,
    // the waiter knows that the section has ended, and must then see what the section did.

    /// Begins a section.
    ///
    /// # Safety
    /// During the call, no other thread calls `begin`, `mark` or `finish` of this slot. The slot is outside
    /// of any section.
    #[inline]
    pub unsafe fn begin(&self) {
        self.marked.store(0, order!(Release, "slots_empty"));
        self.section.store(self.section.load(Relaxed) + 1, order!(Release, "slots_begin"));
    }

    /// Records that the section has removed something from the object that `stamp` belongs to. The caller
    /// holds the lock of that object.
    ///
    /// # Safety
    /// The contract of [`begin`](Slot::begin), except that the slot is in a section.
    #[inline]
    pub unsafe fn mark(&self, stamp: &Stamp) {
        if is_mutant!("slots_mark_once") && self.marked.load(Relaxed) != 0 {
            return;
        }
        // The stores in `begin` and the store below come before the release of the page's lock.
        let marked = self.marked.load(Relaxed) | stamp.mark();
        self.marked.store(marked, order!(Release, "slots_mark"));
    }

    /// Ends the section. The caller must have invalidated all cached copies of what the section removed.
    ///
    /// # Safety
    /// The contract of [`mark`](Slot::mark).
    #[inline]
    pub unsafe fn finish(&self) {
        self.section.store(self.section.load(Relaxed) + 1, order!(Release, "slots_finish"));
    }

    /// Waits for the end of every section in `slots` that has marked the stamp; see the
    /// [rules](super#rules). `slots` must contain the slots of all threads.
    pub fn wait<'a>(
        slots: impl Iterator<Item = &'a Slot>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) {
        // The caller took the page's lock after the threads that marked the page had released it. So
        // the caller sees the stamp's bit here, and `slots` contains the slots of these threads, because a
        // thread registers before it marks.
        let bit = stamp.bit();
        if bit == 0 {
            return;
        }
        for slot in slots {
            // Suppose that section n has marked the page. This load returns n or a larger number. A larger
            // number means that the section has ended. If the load returns n, the set has the stamp's bit,
            // unless the next section has already cleared the set. In that case, section n has ended, too.
            let section = slot.section.load(order!(Acquire, "slots_look"));
            if section % 2 == 0 || slot.marked.load(order!(Acquire, "slots_marked")) & bit == 0 {
                continue;
            }
            // This wait may be long: a section lasts until its thread has flushed, and the thread may be
            // preempted.
            platform.sleep_while(|| slot.section.load(order!(Acquire, "slots_wait")) == section);
        }
    }
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::new()
    }
}
