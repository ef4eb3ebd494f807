//! Sections, and who is in one.

use core::fmt;
use core::ptr::NonNull;

use crate::platform::Platform;
use crate::primitive::{AtomicU64, constant};
use crate::registry::{Node, Registry};
#[cfg(all(feature = "std", not(loom)))]
use crate::system::System;

/// What a page, or a bucket of pages, remembers of those who marked it: eight bytes.
#[derive(Debug)]
pub struct Stamp(pub(super) AtomicU64);

impl Stamp {
    constant! {
        /// A stamp that nobody has marked.
        pub fn new() -> Stamp {
            Stamp(AtomicU64::new(0))
        }
    }
}

impl Default for Stamp {
    fn default() -> Stamp {
        Stamp::new()
    }
}

/// A form of delayed invalidation, see [the module](super). [`Tracker`] calls it by its rules.
///
/// The trait is sealed: those who reuse what was taken out rely on `wait` for the safety of their memory,
/// and so only this crate implements it.
///
/// ```compile_fail,E0277
/// use knee_sync::{Platform, invalidation::{Invalidation, Stamp}};
///
/// struct Nothing;
///
/// impl Invalidation for Nothing {
///     type Place = ();
///     fn place(&self) {}
///     unsafe fn begin(&self, _: &(), _: &impl Platform) {}
///     fn mark(&self, _: &(), _: &Stamp) {}
///     unsafe fn finish(&self, _: &(), _: &impl Platform) {}
///     fn wait<'a>(&self, _: impl Iterator<Item = &'a ()>, _: &Stamp, _: &impl Platform) {}
/// }
/// ```
pub trait Invalidation: Sync + sealed::Sealed {
    /// What each thread that takes part has.
    type Place: Send + Sync;

    /// A place outside of any section.
    fn place(&self) -> Self::Place;

    /// A section begins.
    ///
    /// # Safety
    /// The caller is the only one who calls `begin`, `mark` and `finish` with this place, which stays
    /// where it is as long as the form, and is used with this form only. The place is outside of any
    /// section.
    unsafe fn begin(&self, place: &Self::Place, platform: &impl Platform);

    /// The section of this place has taken something out of what `stamp` belongs to. The caller has
    /// the lock of that.
    fn mark(&self, place: &Self::Place, stamp: &Stamp);

    /// The section ends: what it took out is invalidated everywhere.
    ///
    /// # Safety
    /// As [`Invalidation::begin`]; the place is in a section.
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

/// What other crates cannot name.
pub(super) mod sealed {
    pub trait Sealed {}
}

/// Those who invalidate and those who wait for them: one for an address space, a cache, a process.
pub struct Tracker<F: Invalidation, P: Platform> {
    form: F,
    platform: P,
    places: Registry<F::Place>,
}

#[cfg(all(feature = "std", not(loom)))]
impl<F: Invalidation> Tracker<F, System> {
    /// A tracker on this process's operating system.
    pub fn new(form: F) -> Tracker<F, System> {
        Tracker::on(System::detect(), form)
    }
}

impl<F: Invalidation, P: Platform> Tracker<F, P> {
    /// A tracker on any platform.
    pub fn on(platform: P, form: F) -> Tracker<F, P> {
        Tracker { form, platform, places: Registry::new() }
    }

    /// Takes part from now on, until the member is dropped. Allocates if more take part than ever
    /// before. A thread keeps its member: to join costs a look at all others.
    #[cfg(feature = "alloc")]
    pub fn join(&self) -> Member<'_, F, P> {
        self.member(self.places.take_or_make(|| self.form.place()))
    }

    /// Takes part with a place that a member has given back; none if there is none. See
    /// [`Tracker::join_in`].
    pub fn join_again(&self) -> Option<Member<'_, F, P>> {
        Some(self.member(self.places.take()?))
    }

    /// Takes part with a place of the caller's ([`Invalidation::place`]), where nothing is allocated.
    /// Members that are dropped leave their places to the next.
    ///
    /// # Safety
    /// The node has not been given to a tracker before, stays where it is for as long as the tracker
    /// is, and nobody has it exclusively.
    pub unsafe fn join_in(&self, node: NonNull<Node<F::Place>>) -> Member<'_, F, P> {
        // SAFETY: the caller says so.
        self.member(unsafe { self.places.add(node) })
    }

    fn member<'a>(&'a self, node: &'a Node<F::Place>) -> Member<'a, F, P> {
        Member { tracker: self, node, is_inside: false }
    }

    /// The form.
    pub fn form(&self) -> &F {
        &self.form
    }

    /// Waits until all sections are over that marked this stamp before the caller had the lock of
    /// what it belongs to (depending on the [form](super), also for some others). What they did is
    /// seen by the caller.
    ///
    /// Spins first and yields the CPU later; [`Locked`](super::Locked) sleeps. Such waits are rare:
    /// FreeBSD counted six while 32 threads built its sources.
    #[inline]
    pub fn wait(&self, stamp: &Stamp) {
        self.form.wait(self.places.values(), stamp, &self.platform);
    }
}

impl<F: Invalidation, P: Platform> fmt::Debug for Tracker<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}

/// One who invalidates: at any time in one section or in none.
pub struct Member<'a, F: Invalidation, P: Platform> {
    tracker: &'a Tracker<F, P>,
    node: &'a Node<F::Place>,
    is_inside: bool,
}

impl<'a, F: Invalidation, P: Platform> Member<'a, F, P> {
    /// Begins a section, which ends when it is dropped. It may move to another thread.
    ///
    /// # Panics
    /// If the section before was forgotten.
    #[inline]
    pub fn begin(&mut self) -> Section<'_, 'a, F, P> {
        assert!(!self.is_inside, "the section before was forgotten, and so it never ends");
        self.is_inside = true;
        // SAFETY: the place is ours alone, and the tracker keeps it; the flag says the rest.
        unsafe { self.tracker.form.begin(&self.node.value, &self.tracker.platform) };
        Section { member: self }
    }
}

impl<F: Invalidation, P: Platform> Drop for Member<'_, F, P> {
    fn drop(&mut self) {
        // Waiters wait for a forgotten section, so nobody else may have its place.
        if !self.is_inside {
            self.node.release();
        }
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
    /// Something was taken out of what the stamp belongs to, whose lock the caller has. Whoever has
    /// the lock later and waits for the stamp waits for this section.
    #[inline]
    pub fn mark(&self, stamp: &Stamp) {
        self.member.tracker.form.mark(&self.member.node.value, stamp);
    }

    /// Everything that was taken out is invalidated. As dropping the section.
    #[inline]
    pub fn finish(self) {}
}

impl<F: Invalidation, P: Platform> Drop for Section<'_, '_, F, P> {
    #[inline]
    fn drop(&mut self) {
        let tracker = self.member.tracker;
        // SAFETY: as in `Member::begin`, which began it.
        unsafe { tracker.form.finish(&self.member.node.value, &tracker.platform) };
        self.member.is_inside = false;
    }
}
