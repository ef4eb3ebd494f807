//! A list of active sections, changed by 128-bit compare-exchange.
//!
//! The list begins with a permanent head, followed by the sections from the oldest to the newest. Each link
//! is a pair: a number, and the next link. A section has finished if its number is not greater than the
//! head's number. Numbers increase along the list, and a new section gets the largest number. So once another
//! pair has replaced the pair of a link, the link never holds the old pair again: there is no ABA problem.
//! The lowest bit of a link's `next` is set while this link is not in the list, or is being inserted or
//! removed. If a thread finds this bit set, it restarts at the head. When a section ends, it moves its own
//! number and `next` into the previous link, in one compare-exchange.
//!
//! The list is "lock-free" only in name: a thread does not block on a link that is being changed, but it
//! retries until the change is complete, which has the same effect. FreeBSD disables preemption while a
//! thread changes its link; a process cannot do that.

use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use knee_sync::Platform;

use super::form::{Invalidation, Stamp};
use crate::primitive::AtomicU128;
use knee_sync::{is_mutant, order};

/// Delayed invalidation as in FreeBSD since 2019.
///
/// Each `begin` and each `finish` walks the list of active sections and changes it with a 128-bit
/// compare-exchange, so this list scales no better than a spin lock. For FreeBSD the list was an improvement
/// nevertheless, because a thread that begins or finishes a section no longer blocks on a mutex. A waiter
/// waits for the sections that marked the page, and for all older sections.
#[derive(Debug)]
pub struct LockFree {
    head: Link,
}

/// A thread's link in the list of a [`LockFree`]: 16 bytes, aligned to 16. Every access covers all 16 bytes,
/// because Rust's memory model does not allow atomic accesses that overlap partially.
#[derive(Debug)]
pub struct Link(AtomicU128);

/// The content of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Pair {
    number: u64,
    /// The address of the next link, or 0. While [`INVALID`] is set, only the link's owner may change the
    /// pair, and no thread may follow `next`.
    next: u64,
}

/// The link is not in the list, or is being inserted or removed.
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

    /// Acquire: pairs with [`replace`](Link::replace).
    fn load(&self) -> Pair {
        Pair::unpack(self.0.load(order!(Acquire, "link_load")))
    }

    /// Called by the owner while no other thread changes the pair. Release: when the owner reopens a link
    /// that has a `next`, a thread that follows this `next` sees the next link initialized. No mutant weakens
    /// this Release: a thread that follows a stale link fails at its exchange and starts again.
    fn store(&self, pair: Pair) {
        self.0.store(pair.pack(), Release);
    }

    /// Release: a thread that sees the new number sees what the section with this number did. Acquire: this
    /// link may hold a number that another section moved here when it ended; the thread that sees the new
    /// number then also sees what that section did.
    fn replace(&self, old: Pair, new: Pair) -> bool {
        self.0
            .compare_exchange(old.pack(), new.pack(), order!(AcqRel, "link_replace"), Relaxed)
            .is_ok()
    }

    /// Makes the pair invalid, and returns its previous value.
    fn close(&self) -> Pair {
        let invalid = Pair { number: 0, next: INVALID };
        Pair::unpack(self.0.fetch_or(invalid.pack(), order!(AcqRel, "link_close")))
    }

    /// The link's own address, as the previous link stores it.
    fn name(&self) -> u64 {
        ptr::from_ref(self).expose_provenance() as u64
    }
}

impl LockFree {
    /// Returns an empty list of sections, or `None` if the CPU has no 128-bit compare-exchange (of all
    /// x86-64 CPUs, only AMD's first models have none).
    pub fn new() -> Option<LockFree> {
        AtomicU128::is_lock_free().then(|| LockFree { head: Link::new(0, 0) })
    }

    /// Finds the link whose `next` has this value, and returns the link and its pair. Returns `None` if the
    /// list has no such link, or if the walk comes to an invalid link.
    fn find(&self, next: u64) -> Option<(&Link, Pair)> {
        let mut link = &self.head;
        loop {
            let pair = link.load();
            match pair.next {
                found if found == next => return Some((link, pair)),
                other if other == 0 || other & INVALID != 0 => return None,
                // SAFETY: `begin` inserted each link of the list by its exposed address. The caller of
                // `begin` guarantees that links stay at their addresses as long as this `LockFree` exists.
                other => link = unsafe { &*ptr::with_exposed_provenance(other as usize) },
            }
        }
    }
}

// SAFETY: when the head has a number, all sections with this number or a smaller number have finished.
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
                // This exchange succeeds only if `last` is still the last link: a removed link is invalid,
                // and a link that was inserted again has a larger number.
                if last.replace(pair, Pair { next: place.name(), ..pair }) {
                    // Only the owner changes an invalid pair.
                    return place.store(Pair { number, next: 0 });
                }
            }
            platform.relax(round);
            round = round.saturating_add(1);
        }
    }

    unsafe fn mark(&self, place: &Link, stamp: &Stamp) {
        // When a newer section ended, it may have moved its own number into this link. The head gets the
        // number only after this section and all older sections have ended.
        let number = place.load().number;
        if stamp.number.load(Relaxed) < number {
            stamp.number.store(number, Relaxed);
        }
    }

    unsafe fn finish(&self, place: &Link, platform: &impl Platform) {
        let mut round = 0;
        loop {
            if let Some((before, pair)) = self.find(place.name()) {
                // Once this link is closed, no thread appends to the link or moves a number into it. So the
                // pair that moves to the previous link is final.
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
        // A number moves from link to link until it reaches the head, and each thread that moves it has
        // acquired it first.
        platform.sleep_while(|| number > self.head.load().number);
    }
}
