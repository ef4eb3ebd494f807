//! Epochs: a waiter waits for all sections, whatever they mark.
//!
//! A section copies the clock into its thread's cache line. A waiter advances the clock, and waits until no
//! thread's line contains an earlier time.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use knee_sync::Platform;

use super::form::{Invalidation, Stamp};
use crate::primitive::AtomicU64;
use knee_sync::{is_mutant, order};

/// Delayed invalidation by an epoch, as FreeBSD tried in 2018.
///
/// `begin` and `finish` are cheap, and `mark` does nothing. A wait is expensive, because it is a grace
/// period: it lasts until all sections that began before it have ended, even if none of these sections has
/// marked the page. In return, the waiter need not have held the page's lock.
#[derive(Debug)]
pub struct Epoch {
    clock: AtomicU64,
}

impl Epoch {
    /// Creates an epoch without sections.
    pub fn new() -> Epoch {
        Epoch { clock: AtomicU64::new(IDLE + 1) }
    }
}

impl Default for Epoch {
    fn default() -> Epoch {
        Epoch::new()
    }
}

/// The time at which a thread's section in an [`Epoch`] began, or `IDLE`.
#[derive(Debug)]
pub struct EpochPlace(AtomicU64);

/// The thread is not in a section.
const IDLE: u64 = 0;

// SAFETY: the comments in `begin` and `wait` explain why a waiter misses no section.
unsafe impl Invalidation for Epoch {
    type Place = EpochPlace;

    fn supported() -> Option<Epoch> {
        Some(Epoch::new())
    }

    fn place(&self) -> EpochPlace {
        EpochPlace(AtomicU64::new(IDLE))
    }

    #[inline]
    unsafe fn begin(&self, place: &EpochPlace, platform: &impl Platform) {
        // Acquire: a waiter does not wait for sections that have read its new time, so these sections must
        // see what the waiter did before it advanced the clock. Release: a waiter that waits for the thread's
        // previous section may load this value instead of `IDLE`, and must then see what the previous section
        // did.
        let now = self.clock.load(order!(Acquire, "di_epoch_clock"));
        place.0.store(now, order!(Release, "di_epoch_begin"));
        // Pairs with the heavy fence of `wait`: either the waiter sees this store and waits for this section,
        // or everything in the section happens after what the waiter did before its fence.
        platform.light();
    }

    #[inline]
    unsafe fn mark(&self, _: &EpochPlace, _: &Stamp) {}

    #[inline]
    unsafe fn finish(&self, place: &EpochPlace, _: &impl Platform) {
        place.0.store(IDLE, order!(Release, "di_epoch_finish"));
    }

    fn wait<'a>(
        &self,
        places: impl Iterator<Item = &'a EpochPlace>,
        _: &Stamp,
        platform: &impl Platform,
    ) {
        let now = self.clock.fetch_add(1, order!(AcqRel, "di_epoch_tick")) + 1;
        if !is_mutant!("di_epoch_no_fence") {
            platform.heavy();
        }
        for place in places {
            // A section that reads the clock after this fence gets `now` or a later time. A section with an
            // earlier time either began earlier, or read the clock earlier and stores that time late. In the
            // second case, waiting for the section is unnecessary but harmless.
            platform.sleep_while(|| {
                (IDLE + 1..now - u64::from(is_mutant!("di_epoch_early")))
                    .contains(&place.0.load(order!(Acquire, "di_epoch_wait")))
            });
        }
    }
}
