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

use super::tracker::sealed::Sealed;
use super::tracker::{Invalidation, Stamp};
use crate::mutant::{is_mutant, order};
use crate::platform::Platform;
use crate::primitive::AtomicU64;

/// Delayed invalidation with a line for each thread: the form to use.
///
/// Begin and finish are three stores to the thread's own line. A wait for a page that was never
/// marked costs a load, and for another one a load for each thread, and one more for each in a
/// section. It waits for sections that have marked the page or, by chance, another one with the same
/// of 64 bits; sections that begin while it waits do not prolong it.
#[derive(Debug, Default)]
pub struct Slots(());

impl Slots {
    /// The form; its state is in the threads' places.
    pub const fn new() -> Slots {
        Slots(())
    }
}

/// A thread's place in [`Slots`].
#[derive(Debug)]
pub struct SlotsPlace {
    /// How often a section began or ended: odd within one.
    section: AtomicU64,
    /// The bits of the stamps that the section has marked.
    marked: AtomicU64,
}

/// A stamp's bit. It is chosen at the stamp's first mark and stays, also if the stamp moves.
fn bit(stamp: &Stamp) -> u64 {
    match stamp.0.load(Relaxed) {
        0 => {
            // Fibonacci hashing of the address: the highest bits of the product depend on all others.
            let address = core::ptr::from_ref(stamp).addr() as u64;
            let bit = 1 << (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58);
            stamp.0.store(bit, Relaxed);
            bit
        }
        bit => bit,
    }
}

impl Sealed for Slots {}

impl Invalidation for Slots {
    type Place = SlotsPlace;

    fn place(&self) -> SlotsPlace {
        SlotsPlace { section: AtomicU64::new(0), marked: AtomicU64::new(0) }
    }

    // All stores are Release, though only that in `finish` says something. A waiter for a section
    // that is over may find any later store of the thread in its place, and must see then what the
    // section did.

    #[inline]
    unsafe fn begin(&self, place: &SlotsPlace, _: &impl Platform) {
        place.marked.store(0, order!(Release, "slots_empty"));
        place.section.store(place.section.load(Relaxed) + 1, order!(Release, "slots_begin"));
    }

    #[inline]
    fn mark(&self, place: &SlotsPlace, stamp: &Stamp) {
        if is_mutant!("slots_mark_once") && place.marked.load(Relaxed) != 0 {
            return;
        }
        // The stores of `begin` and this one come before the release of the page's lock.
        place.marked.store(place.marked.load(Relaxed) | bit(stamp), order!(Release, "slots_mark"));
    }

    #[inline]
    unsafe fn finish(&self, place: &SlotsPlace, _: &impl Platform) {
        place.section.store(place.section.load(Relaxed) + 1, order!(Release, "slots_finish"));
    }

    fn wait<'a>(
        &self,
        places: impl Iterator<Item = &'a SlotsPlace>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) {
        // We have had the page's lock after those who marked. So we see their bit here, and a thread
        // that joined to mark is among `places`.
        let bit = stamp.0.load(Relaxed);
        if bit == 0 {
            return;
        }
        for place in places {
            // Let a section have the number n and have marked the page. We read n or a larger
            // number, with which the section is over. If we read n, the set has our bit, or that of a
            // later section is there already, and the section is over as well.
            let section = place.section.load(order!(Acquire, "slots_look"));
            if section % 2 == 0 || place.marked.load(order!(Acquire, "slots_marked")) & bit == 0 {
                continue;
            }
            platform.wait_while(|| place.section.load(order!(Acquire, "slots_wait")) == section);
        }
    }
}
