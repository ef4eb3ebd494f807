//! A list of active sections that is changed by compare-exchanges of 128 bits.
//!
//! The list has the oldest section first, after a head that is always there. Each link is a pair: a
//! number, and the next link. The head's number is the largest that is finished; numbers grow along
//! the list, so a pair never comes back. The lowest bit of `next` is set while a link is not in the
//! list, or on its way into or out of it; whoever meets it goes back to the head. A section that ends
//! puts its own number and next into the link before it, in one compare-exchange.
//!
//! It is "lock-free" in that a thread which finds a link on its way does not wait for its owner but
//! tries again, to the same effect. FreeBSD keeps the owner on its CPU meanwhile; a process cannot.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

use knee_sync::Platform;

use super::form::{Invalidation, Stamp};
use crate::primitive::AtomicU128;
use knee_sync::{is_mutant, order};

/// Delayed invalidation as in FreeBSD since 2019.
///
/// Each begin and each finish walks the list of active sections and changes it with a 128-bit
/// compare-exchange, so it scales no better than a spin lock; FreeBSD won by not sleeping. A wait is
/// for sections that marked the page and for older ones.
#[derive(Debug)]
pub struct LockFree {
    head: Link,
}

/// A thread's place in [`LockFree`], 16 bytes at a multiple of 16. Every access is to all of it:
/// Rust's memory model has none where an atomic overlaps another one.
#[derive(Debug)]
pub struct Link(AtomicU128);

/// The content of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    number: u64,
    /// The address of the next link; 0 for none. With [`INVALID`], nobody may follow or change it.
    next: u64,
}

/// The link is not in the list, or on its way.
const INVALID: u64 = 1;

impl Pair {
    fn pack(self) -> u128 {
        u128::from(self.next) << 64 | u128::from(self.number)
    }

    fn unpack(word: u128) -> Pair {
        Pair { number: word as u64, next: (word >> 64) as u64 }
    }
}

impl Link {
    fn new(number: u64, next: u64) -> Link {
        Link(AtomicU128::new(Pair { number, next }.pack()))
    }

    /// Acquire, with [`replace`](Link::replace).
    fn load(&self) -> Pair {
        Pair::unpack(self.0.load(order!(Acquire, "link_load")))
    }

    /// By the owner, while nobody else changes it. Relaxed: who comes to the link comes by a pair that was
    /// put into the list after this; and what others had put here before is what
    /// [`close`](Link::close) has acquired.
    fn store(&self, pair: Pair) {
        self.0.store(pair.pack(), Relaxed);
    }

    /// Release: who sees the new number sees what the section did whose number it is. Acquire: and
    /// what those did who put theirs here before.
    fn replace(&self, old: Pair, new: Pair) -> bool {
        self.0
            .compare_exchange(old.pack(), new.pack(), order!(AcqRel, "link_replace"), Relaxed)
            .is_ok()
    }

    /// Makes the pair invalid, and returns what it was.
    fn close(&self) -> Pair {
        let invalid = Pair { number: 0, next: INVALID };
        Pair::unpack(self.0.fetch_or(invalid.pack(), order!(AcqRel, "link_close")))
    }

    /// The address as the link before this one has it.
    fn name(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }
}

impl LockFree {
    /// The form, without sections; none on CPUs that cannot compare and exchange 128 bits (of the
    /// x86-64 ones, the first AMD made).
    pub fn new() -> Option<LockFree> {
        AtomicU128::is_lock_free().then(|| LockFree { head: Link::new(0, 0) })
    }

    /// The link in the list with this `next`, and its pair at that time; none if a link on the way was
    /// invalid, or there is no such.
    fn find(&self, next: u64) -> Option<(&Link, Pair)> {
        let mut link = &self.head;
        loop {
            let pair = link.load();
            match pair.next {
                found if found == next => return Some((link, pair)),
                other if other == 0 || other & INVALID != 0 => return None,
                // SAFETY: only `begin` makes links to places, by their exposed address; its caller
                // keeps them, and they outlive the form.
                other => link = unsafe { &*ptr::with_exposed_provenance(other as usize) },
            }
        }
    }
}

// SAFETY: the head's number is the largest that is finished with all before it.
unsafe impl Invalidation for LockFree {
    type Place = Link;

    fn supported() -> Option<LockFree> {
        LockFree::new()
    }

    fn place(&self) -> Link {
        Link::new(0, INVALID)
    }

    unsafe fn begin(&self, place: &Link, platform: &impl Platform) {
        let mut round = 0;
        loop {
            if let Some((last, pair)) = self.find(0) {
                let number = pair.number + 1;
                place.store(Pair { number, next: INVALID });
                // It succeeds only if `last` is still the last: a link that has left the list is
                // invalid, and one that came back has a larger number.
                if last.replace(pair, Pair { next: place.name(), ..pair }) {
                    // Nobody changes an invalid pair but its owner.
                    return place.store(Pair { number, next: 0 });
                }
            }
            platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    unsafe fn mark(&self, place: &Link, stamp: &Stamp) {
        // A newer section may put its number here meanwhile: either is over when we are.
        let number = place.load().number;
        if stamp.number.load(Relaxed) < number {
            stamp.number.store(number, Relaxed);
        }
    }

    unsafe fn finish(&self, place: &Link, platform: &impl Platform) {
        let mut round = 0;
        loop {
            if let Some((before, pair)) = self.find(place.name()) {
                // From here on nobody appends to us or hands a number to us, so the pair that goes to
                // the link before is the last that we have.
                let mine = if is_mutant!("link_stays_open") { place.load() } else { place.close() };
                if before.replace(pair, mine) {
                    return;
                }
                place.store(mine);
            }
            platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    fn wait<'a>(&self, _: impl Iterator<Item = &'a Link>, stamp: &Stamp, platform: &impl Platform) {
        let number = stamp.number.load(Relaxed);
        // The numbers came here from link to link, each time by somebody who acquired the one before.
        platform.sleep_while(|| number > self.head.load().number);
    }
}
