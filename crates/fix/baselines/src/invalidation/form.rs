//! What the forms of delayed invalidation have in common.

use knee_sync::Platform;

use crate::primitive::AtomicU64;

/// What a page, or a bucket of pages, remembers of the sections that marked it, in any form.
#[derive(Debug)]
pub struct Stamp {
    /// Of the newest section that marked it, where sections have numbers.
    pub(super) number: AtomicU64,
    pub(super) slots: knee_sync::invalidation::Stamp,
}

impl Stamp {
    /// A stamp that no section has marked.
    pub fn new() -> Stamp {
        Stamp { number: AtomicU64::new(0), slots: knee_sync::invalidation::Stamp::new() }
    }
}

impl Default for Stamp {
    fn default() -> Stamp {
        Stamp::new()
    }
}

/// A form of delayed invalidation. [`Tracker`](super::Tracker) calls it by its rules.
///
/// # Safety
/// [`wait`](Invalidation::wait) returns only when every section of these places is over that marked the stamp
/// before the caller had the lock of what the stamp belongs to, and the caller then sees what these sections
/// did: frames are freed on its word.
pub unsafe trait Invalidation: Sync {
    /// What each thread that takes part has.
    type Place: Send + Sync;

    /// The form, without sections; `None` on CPUs that lack an instruction it needs.
    fn supported() -> Option<Self>
    where
        Self: Sized;

    /// A place outside of any section.
    fn place(&self) -> Self::Place;

    /// A section begins.
    ///
    /// # Safety
    /// No other thread calls `begin`, `mark` and `finish` with this place, which stays
    /// where it is as long as the form, and is used with this form only. The place is outside of any
    /// section.
    unsafe fn begin(&self, place: &Self::Place, platform: &impl Platform);

    /// The section of this place has taken something out of what `stamp` belongs to. The caller has
    /// the lock of that.
    ///
    /// # Safety
    /// As [`Invalidation::begin`]; the place is in a section.
    unsafe fn mark(&self, place: &Self::Place, stamp: &Stamp);

    /// The section ends: what it took out is invalidated everywhere.
    ///
    /// # Safety
    /// As [`Invalidation::mark`].
    unsafe fn finish(&self, place: &Self::Place, platform: &impl Platform);

    /// Waits until all sections that have marked the stamp are over. `places` are those of all
    /// threads.
    fn wait<'a>(
        &self,
        places: impl Iterator<Item = &'a Self::Place>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) where
        Self::Place: 'a;
}
