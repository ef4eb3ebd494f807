//! knee-sync's implementation of delayed invalidation, behind the trait [`Invalidation`].

use knee_sync::Platform;
use knee_sync::invalidation::Slot;

use super::form::{Invalidation, Stamp};

/// Delayed invalidation with a cache line for each thread: [`knee_sync::invalidation`].
#[derive(Debug, Default)]
pub struct Slots;

// SAFETY: `Slot::wait` makes the guarantee that `Invalidation::wait` requires.
unsafe impl Invalidation for Slots {
    type Place = Slot;

    fn supported() -> Option<Slots> {
        Some(Slots)
    }

    fn place(&self) -> Slot {
        Slot::new()
    }

    #[inline]
    unsafe fn begin(&self, place: &Slot, _: &impl Platform) {
        // SAFETY: the caller guarantees that only one thread uses the place.
        unsafe { place.begin() };
    }

    #[inline]
    unsafe fn mark(&self, place: &Slot, stamp: &Stamp) {
        // SAFETY: as above.
        unsafe { place.mark(&stamp.slots) };
    }

    #[inline]
    unsafe fn finish(&self, place: &Slot, _: &impl Platform) {
        // SAFETY: as above.
        unsafe { place.finish() };
    }

    fn wait<'a>(
        &self,
        places: impl Iterator<Item = &'a Slot>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) {
        Slot::wait(places, &stamp.slots, platform);
    }
}
