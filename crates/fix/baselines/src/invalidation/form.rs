//! The trait [`Invalidation`], which each implementation of delayed invalidation provides.

use knee_sync::Platform;

use crate::primitive::AtomicU64;

/// Records which sections marked a page, or a bucket of pages.
#[derive(Debug)]
pub struct Stamp {
    /// The number of the newest section that marked the page. Used only by implementations that number their
    /// sections.
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

/// An implementation of delayed invalidation. [`Tracker`](super::Tracker) is a safe interface to any
/// implementation.
///
/// # Safety
/// A caller of [`wait`](Invalidation::wait) first takes the lock of the stamp's page. Sections that began
/// with a place in `places` may have marked the stamp before the caller takes this lock. `wait` returns only
/// after all these sections have finished, and the caller then sees what they did. Callers free frames when
/// `wait` returns.
pub unsafe trait Invalidation: Sync {
    /// A place: the state of one thread that begins sections.
    type Place: Send + Sync;

    /// Returns a new instance, which has no sections yet, or `None` if the CPU lacks an instruction that the
    /// implementation needs.
    fn supported() -> Option<Self>
    where
        Self: Sized;

    /// Returns the place of a thread that has not begun a section yet.
    fn place(&self) -> Self::Place;

    /// Begins a section.
    ///
    /// # Safety
    /// Only one thread may call `begin`, `mark` and `finish` with this place. The place must stay at its
    /// address as long as `self` exists, and must be used with `self` only. If the place was used for an
    /// earlier section, that section must have finished.
    unsafe fn begin(&self, place: &Self::Place, platform: &impl Platform);

    /// Marks the stamp: records that the current section of `place` has removed a mapping of the stamp's
    /// page. The caller holds the page's lock.
    ///
    /// # Safety
    /// As for [`Invalidation::begin`], except that a section must have been begun with the place and must not
    /// have finished yet.
    unsafe fn mark(&self, place: &Self::Place, stamp: &Stamp);

    /// Ends the section. Before the call, the mappings that the section removed must have been invalidated on
    /// all CPUs.
    ///
    /// # Safety
    /// As for [`Invalidation::mark`].
    unsafe fn finish(&self, place: &Self::Place, platform: &impl Platform);

    /// Waits until all sections that have marked the stamp have finished. `places` must yield the place of
    /// each thread that begins sections.
    fn wait<'a>(
        &self,
        places: impl Iterator<Item = &'a Self::Place>,
        stamp: &Stamp,
        platform: &impl Platform,
    ) where
        Self::Place: 'a;
}
