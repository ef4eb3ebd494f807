//! Epochs: a wait is for all sections, whatever they mark.
//!
//! A section copies the clock into its thread's line; a waiter moves the clock on and waits until no
//! line has an earlier time.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Release};

use knee_sync::Platform;

use super::form::{Invalidation, Stamp};
use crate::primitive::AtomicU64;
use knee_sync::{is_mutant, order};

/// Delayed invalidation by an epoch, as FreeBSD tried in 2018.
///
/// Begin and finish are cheap, and so are marks, which do nothing. Waits are not: each is a grace
/// period, and waits for all sections that began before it, whether they have marked the page or
/// not, or whether anybody has. In return, the waiter need not have had the page's lock.
#[derive(Debug)]
pub struct Epoch {
    clock: AtomicU64,
}

impl Epoch {
    /// The form, at the beginning of its time.
    pub fn new() -> Epoch {
        Epoch { clock: AtomicU64::new(IDLE + 1) }
    }
}

impl Default for Epoch {
    fn default() -> Epoch {
        Epoch::new()
    }
}

/// A thread's place in an [`Epoch`]: when its section began, or none.
#[derive(Debug)]
pub struct EpochPlace(AtomicU64);

/// Outside of any section.
const IDLE: u64 = 0;

// SAFETY: `begin` and `wait` say why no section is missed.
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
        // Acquire: a waiter does not wait for those who have read its new time, so that they have to
        // see what it did before. Release: a waiter for the section before may
        // find this one, see `Slots`.
        let now = self.clock.load(order!(Acquire, "di_epoch_clock"));
        place.0.store(now, order!(Release, "di_epoch_begin"));
        // With the heavy fence of `wait`: either the waiter sees this store and waits for us, or all
        // that the section does comes after what the waiter did before.
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
            // A section that reads the clock from now on gets `now` or later. One with an older time has
            // begun before, or has read the clock before and is a little late: to wait for that one is no
            // harm.
            platform.sleep_while(|| {
                (IDLE + 1..now - u64::from(is_mutant!("di_epoch_early")))
                    .contains(&place.0.load(order!(Acquire, "di_epoch_wait")))
            });
        }
    }
}
