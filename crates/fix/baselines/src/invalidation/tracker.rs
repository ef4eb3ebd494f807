//! Sections of any form, and the threads that are in one.

use std::fmt;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use knee_sync::Platform;
#[cfg(not(any(loom, shuttle)))]
use knee_sync::System;

use super::form::{Invalidation, Stamp};
use crate::primitive::Mutex;

/// The threads that invalidate, for those that wait for them.
pub struct Tracker<F: Invalidation, P: Platform> {
    // Before the places, which outlive it.
    form: F,
    platform: P,
    places: Mutex<Vec<Arc<CachePadded<F::Place>>>>,
}

#[cfg(not(any(loom, shuttle)))]
impl<F: Invalidation> Tracker<F, System> {
    /// A tracker on this process's operating system.
    pub fn new(form: F) -> Tracker<F, System> {
        Tracker::on(System::detect(), form)
    }
}

impl<F: Invalidation, P: Platform> Tracker<F, P> {
    /// A tracker on any platform.
    pub fn on(platform: P, form: F) -> Tracker<F, P> {
        Tracker { form, platform, places: Mutex::new(Vec::new()) }
    }

    /// Takes part from now on, with a place that stays as long as the tracker.
    pub fn join(&self) -> Member<'_, F, P> {
        let place = Arc::new(CachePadded::new(self.form.place()));
        self.places.lock().push(Arc::clone(&place));
        Member { tracker: self, place, is_inside: false }
    }

    /// Waits until all sections are over that marked this stamp before the caller had the lock of
    /// what it belongs to, and depending on the [form](super) for some others. The caller sees what they
    /// did.
    #[inline]
    pub fn wait(&self, stamp: &Stamp) {
        // A thread that joins does not wait for a section.
        let places = self.places.lock().clone();
        self.form.wait(places.iter().map(|place| &***place), stamp, &self.platform);
    }
}

impl<F: Invalidation, P: Platform> fmt::Debug for Tracker<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}

/// A thread that invalidates: at any time in one section or in none.
pub struct Member<'a, F: Invalidation, P: Platform> {
    tracker: &'a Tracker<F, P>,
    place: Arc<CachePadded<F::Place>>,
    is_inside: bool,
}

impl<'a, F: Invalidation, P: Platform> Member<'a, F, P> {
    /// Begins a section, which ends when it is dropped.
    ///
    /// # Panics
    /// If the section before was forgotten.
    #[inline]
    pub fn begin(&mut self) -> Section<'_, 'a, F, P> {
        assert!(!self.is_inside, "the section before was forgotten, and so it never ends");
        self.is_inside = true;
        // SAFETY: the place is this member's alone, and the tracker keeps it; by the flag it is in no section.
        unsafe { self.tracker.form.begin(&self.place, &self.tracker.platform) };
        Section { member: self }
    }
}

impl<F: Invalidation, P: Platform> fmt::Debug for Member<'_, F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Member").field("is_inside", &self.is_inside).finish_non_exhaustive()
    }
}

/// From the first of several things that are taken out to the flush for all of them.
#[derive(Debug)]
pub struct Section<'m, 'a, F: Invalidation, P: Platform> {
    member: &'m mut Member<'a, F, P>,
}

impl<F: Invalidation, P: Platform> Section<'_, '_, F, P> {
    /// Something was taken out of what the stamp belongs to, whose lock the caller has.
    #[inline]
    pub fn mark(&self, stamp: &Stamp) {
        // SAFETY: as in `Member::begin`, which began the section.
        unsafe { self.member.tracker.form.mark(&self.member.place, stamp) };
    }

    /// Everything that was taken out is invalidated. As dropping the section.
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
