//! The interface of all forms of delayed invalidation.

use knee_sync::Platform;

use crate::primitive::AtomicU64;

/// Records which sections marked a page, or a bucket of pages. All forms use this type.
#[derive(Debug)]
pub struct Stamp {
    /// The number of the newest section that marked the page, in forms whose sections have numbers.
    pub(super) number: AtomicU64,
    pub(super) slots: knee_sync::invalidation::Stamp,
}

impl Stamp {
    /// Returns a stamp that no section has marked.
    pub fn new() -> Stamp {
        Stamp { number: AtomicU64::new(0), slots: knee_sync::invalidation::Stamp::new() }
    }
}

impl Default for Stamp {
    fn default() -> Stamp {
        Stamp::new()
    }
}

/// A form of delayed invalidation. [`Tracker`](super::Tracker) is a safe interface to any form.
///
/// # Safety
/// A caller of [`wait`](Invalidation::wait) first takes the lock of the stamp's page. When the caller takes
/// this lock, some sections of `places` may have marked the stamp. `wait` returns only after all these
/// sections have finished, and the caller then sees what they did. Callers free frames when `wait` returns.
pub unsafe trait Invalidation: Sync {
    /// The state of each participating thread.
    type Place: Send + Sync;

    /// Returns a form that has no sections yet, or `None` if the CPU does not have an instruction that the
    /// form needs.
    fn supported() -> Option<Self>
    where
        Self: Sized;

    /// Returns a place that is not in a section.
    fn place(&self) -> Self::Place;

    /// Begins a section.
    ///
    /// # Safety
    /// Only one thread may call `begin`, `mark` and `finish` with this place. The place must stay at its
    /// address as long as the form exists, must be used with this form only, and must not be in a section.
    unsafe fn begin(&self, place: &Self::Place, platform: &impl Platform);

    /// Marks the stamp: records that the current section of `place` has removed a mapping of the stamp's
    /// page. The caller holds the page's lock.
    ///
    /// # Safety
    /// As for [`Invalidation::begin`], but the place must be in a section.
    unsafe fn mark(&self, place: &Self::Place, stamp: &Stamp);

    /// Ends the section. Before the call, the mappings that the section removed must have been invalidated on
    /// all CPUs.
    ///
    /// # Safety
    /// As for [`Invalidation::mark`].
    unsafe fn finish(&self, place: &Self::Place, platform: &impl Platform);

    /// Waits until all sections that have marked the stamp have finished. `places` are the places of all
    /// threads.
    fn wait<'a>(
        &self,
        places: impl Iterator<Item = &'a Self::Place>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) where
        Self::Place: 'a;
}
