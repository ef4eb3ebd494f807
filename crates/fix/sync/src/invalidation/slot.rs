//! A line for each thread, and in it what its section has marked.
//!
//! Nothing is shared but what a waiter must look at: each thread numbers its own sections and keeps a
//! set of the stamps that the current one has marked, as a Bloom filter of one word. A waiter looks
//! at all threads, and waits for those in a section with its stamp in the set.
//!
//! No fence is needed, not even an asymmetric one. A thread that looks for others without having
//! anything in common with them must order its look and their stores. Here it has: the marker wrote
//! its number and its set before it gave the page's lock back, and the waiter has had the lock since.
//! What was written earlier is seen, or something later.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::Platform;
use crate::primitive::{AtomicU64, constant};

/// What a page, or a bucket of pages, remembers of the sections that marked it: eight bytes.
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

    /// The stamp's bit. It is chosen at the first mark and stays, also if the stamp moves.
    fn mark(&self) -> u64 {
        match self.bit() {
            0 => {
                // Fibonacci hashing of the address: the highest bits of the product depend on all others.
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

/// The sections of one thread or CPU: what a [`Tracker`](super::Tracker) is made of.
///
/// An embedder that keeps data for each CPU has a slot there, in a line of its own, and passes the slots of
/// all CPUs to [`wait`](Slot::wait).
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
    /// How often a section began or ended: odd within one.
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

    // All stores are Release, though only that in `finish` says something. A waiter for a section
    // that is over may find any later store of the thread in its slot, and must see then what the
    // section did.

    /// A section begins.
    ///
    /// # Safety
    /// No other thread calls `begin`, `mark` or `finish` of this slot meanwhile, and the slot is outside of
    /// any section.
    #[inline]
    pub unsafe fn begin(&self) {
        self.marked.store(0, order!(Release, "slots_empty"));
        self.section.store(self.section.load(Relaxed) + 1, order!(Release, "slots_begin"));
    }

    /// The section has taken something out of what `stamp` belongs to, whose lock the caller has.
    ///
    /// # Safety
    /// As [`begin`](Slot::begin), but the slot is in a section.
    #[inline]
    pub unsafe fn mark(&self, stamp: &Stamp) {
        if is_mutant!("slots_mark_once") && self.marked.load(Relaxed) != 0 {
            return;
        }
        // The stores of `begin` and this one come before the release of the page's lock.
        let marked = self.marked.load(Relaxed) | stamp.mark();
        self.marked.store(marked, order!(Release, "slots_mark"));
    }

    /// The section ends: what it took out is invalidated everywhere.
    ///
    /// # Safety
    /// As [`mark`](Slot::mark).
    #[inline]
    pub unsafe fn finish(&self) {
        self.section.store(self.section.load(Relaxed) + 1, order!(Release, "slots_finish"));
    }

    /// Waits until every section of these slots is over that has marked the stamp, see the
    /// [rules](super#rules). `slots` are those of all threads.
    pub fn wait<'a>(
        slots: impl Iterator<Item = &'a Slot>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) {
        // We have had the page's lock after the threads that marked. So we see their bit here, and a thread
        // that joined to mark is among `slots`.
        let bit = stamp.bit();
        if bit == 0 {
            return;
        }
        for slot in slots {
            // Let a section have the number n and have marked the page. We read n or a larger
            // number, with which the section is over. If we read n, the set has our bit, or that of a
            // later section is there already, and the section is over as well.
            let section = slot.section.load(order!(Acquire, "slots_look"));
            if section % 2 == 0 || slot.marked.load(order!(Acquire, "slots_marked")) & bit == 0 {
                continue;
            }
            // A section lasts as long as its thread takes to flush, which may be preempted.
            platform.sleep_while(|| slot.section.load(order!(Acquire, "slots_wait")) == section);
        }
    }
}

impl Default for Slot {
    fn default() -> Slot {
        Slot::new()
    }
}
