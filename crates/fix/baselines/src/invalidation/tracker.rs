//! Registers threads, and tracks the sections in which they invalidate mappings. All forms of delayed
//! invalidation use this module.

use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use knee_sync::Platform;
#[cfg(not(any(loom, shuttle)))]
use knee_sync::System;

use super::form::{Invalidation, Stamp};
use crate::primitive::Mutex;

/// Registers threads, and tracks the sections in which they invalidate mappings, so that any thread can wait
/// for these sections.
pub struct Tracker<F: Invalidation, P: Platform> {
    // `form` precedes `places`, so it is dropped first: the elements of `places` must outlive `form`.
    form: F,
    platform: P,
    places: Mutex<Vec<Arc<CachePadded<F::Place>>>>,
}

#[cfg(not(any(loom, shuttle)))]
impl<F: Invalidation> Tracker<F, System> {
    /// Creates a tracker on the operating system's platform.
    pub fn new(form: F) -> Tracker<F, System> {
        Tracker::on(System::detect(), form)
    }
}

impl<F: Invalidation, P: Platform> Tracker<F, P> {
    /// Creates a tracker on any platform.
    pub fn on(platform: P, form: F) -> Tracker<F, P> {
        Tracker { form, platform, places: Mutex::new(Vec::new()) }
    }

    /// Registers the calling thread. The tracker keeps the state of the thread until the tracker is dropped.
    pub fn join(&self) -> Member<'_, F, P> {
        let place = Arc::new(CachePadded::new(self.form.place()));
        self.places.lock().push(Arc::clone(&place));
        Member { tracker: self, place, is_inside: false }
    }

    /// Waits for the end of all sections that marked `stamp` before the caller took the lock of the stamp's
    /// page. The caller then sees what these sections did. Some [forms](super) also wait for other sections.
    #[inline]
    pub fn wait(&self, stamp: &Stamp) {
        // The list is copied, so that a joining thread does not wait for the lock while this thread waits for
        // sections.
        let places = self.places.lock().clone();
        self.form.wait(places.iter().map(|place| &***place), stamp, &self.platform);
    }
}

impl<F: Invalidation, P: Platform> fmt::Debug for Tracker<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}

/// A registered thread, which invalidates mappings in sections. The thread is in at most one section at a
/// time.
pub struct Member<'a, F: Invalidation, P: Platform> {
    tracker: &'a Tracker<F, P>,
    place: Arc<CachePadded<F::Place>>,
    is_inside: bool,
}

impl<'a, F: Invalidation, P: Platform> Member<'a, F, P> {
    /// Begins a section, which ends when the guard is dropped.
    ///
    /// # Panics
    /// If the previous section was leaked, for example by `mem::forget`.
    #[inline]
    pub fn begin(&mut self) -> Section<'_, 'a, F, P> {
        assert!(!self.is_inside, "the previous section was leaked and never ends");
        self.is_inside = true;
        // SAFETY: only this `Member` uses `self.place`, and the tracker keeps it allocated. `is_inside` was
        // false, so this thread is not in a section.
        unsafe { self.tracker.form.begin(&self.place, &self.tracker.platform) };
        Section { member: self }
    }
}

impl<F: Invalidation, P: Platform> fmt::Debug for Member<'_, F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("is_inside", &self.is_inside).finish_non_exhaustive()
    }
}

/// A section, in which a thread removes mappings. The section lasts from the removal of the first mapping to
/// the flush of all removed mappings.
#[derive(Debug)]
pub struct Section<'m, 'a, F: Invalidation, P: Platform> {
    member: &'m mut Member<'a, F, P>,
}

impl<F: Invalidation, P: Platform> Section<'_, '_, F, P> {
    /// Records that a mapping of the stamp's page was removed. The caller holds the page's lock.
    #[inline]
    pub fn mark(&self, stamp: &Stamp) {
        // SAFETY: as in `Member::begin`, which began the section.
        unsafe { self.member.tracker.form.mark(&self.member.place, stamp) };
    }

    /// Ends the section, as dropping it does. All mappings that the section removed must already have been
    /// invalidated on all CPUs.
    #[inline]
    pub fn finish(self) {}
}

impl<F: Invalidation, P: Platform> Drop for Section<'_, '_, F, P> {
    #[inline]
    fn drop(&mut self) {
        let tracker = self.member.tracker;
        // SAFETY: as in `Member::begin`, which began the section.
        unsafe { tracker.form.finish(&self.member.place, &tracker.platform) };
        self.member.is_inside = false;
    }
}
