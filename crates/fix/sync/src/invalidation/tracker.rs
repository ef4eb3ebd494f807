//! Sections that begin and end in slots of a registry.

use core::fmt;
use core::ptr::NonNull;

use super::slot::{Slot, Stamp};
use crate::platform::Platform;
use crate::registry::{Node, Registry};
#[cfg(all(feature = "std", not(loom)))]
use crate::system::System;

/// The threads that invalidate, for those that wait for them: one tracker for an address space, a cache, a
/// process.
pub struct Tracker<P: Platform> {
    platform: P,
    slots: Registry<Slot>,
}

#[cfg(all(feature = "std", not(loom)))]
impl Tracker<System> {
    /// A tracker on this process's operating system.
    pub fn new() -> Tracker<System> {
        Tracker::on(System::detect())
    }
}

#[cfg(all(feature = "std", not(loom)))]
impl Default for Tracker<System> {
    fn default() -> Tracker<System> {
        Tracker::new()
    }
}

impl<P: Platform> Tracker<P> {
    /// A tracker on any platform.
    pub fn on(platform: P) -> Tracker<P> {
        Tracker { platform, slots: Registry::new() }
    }

    /// Takes part from now on, until the member is dropped. Allocates if more threads take part than ever
    /// before. A thread keeps its member: to join it searches the slots of all others.
    #[cfg(feature = "alloc")]
    pub fn join(&self) -> Member<'_> {
        Member::new(self.slots.take_or_make(Slot::new))
    }

    /// Takes part with a slot that a member has given back; none if there is none. See
    /// [`Tracker::join_in`].
    pub fn join_again(&self) -> Option<Member<'_>> {
        Some(Member::new(self.slots.take()?))
    }

    /// Takes part with a slot of the caller's, where nothing is allocated. Members that are dropped leave
    /// their slots to the next.
    ///
    /// # Safety
    /// The node has not been given to a tracker before, stays where it is for as long as the tracker
    /// is, and nobody has it exclusively.
    pub unsafe fn join_in(&self, node: NonNull<Node<Slot>>) -> Member<'_> {
        // SAFETY: the caller has the node added to one tracker, and keeps it for as long as the tracker.
        Member::new(unsafe { self.slots.add(node) })
    }

    /// Waits until all sections are over that marked this stamp before the caller had the lock of
    /// what it belongs to, and by chance for some others. The caller sees what they did.
    ///
    /// Spins first, and [sleeps](Platform::sleep_while) later where the platform can. Such waits are rare:
    /// FreeBSD counted six while 32 threads built its sources.
    #[inline]
    pub fn wait(&self, stamp: &Stamp) {
        Slot::wait(self.slots.values(), stamp, &self.platform);
    }
}

impl<P: Platform> fmt::Debug for Tracker<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tracker").finish_non_exhaustive()
    }
}

/// A thread that invalidates: at any time in one section or in none.
#[derive(Debug)]
pub struct Member<'a> {
    node: &'a Node<Slot>,
    is_inside: bool,
}

impl<'a> Member<'a> {
    fn new(node: &'a Node<Slot>) -> Member<'a> {
        Member { node, is_inside: false }
    }

    /// Begins a section, which ends when it is dropped. It may move to another thread.
    ///
    /// # Panics
    /// If the section before was forgotten.
    #[inline]
    pub fn begin(&mut self) -> Section<'_, 'a> {
        assert!(!self.is_inside, "the section before was forgotten, and so it never ends");
        self.is_inside = true;
        // SAFETY: the registry gave the slot to this member alone, which was in no section by its flag.
        unsafe { self.node.value.begin() };
        Section { member: self }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // Waiters wait for a forgotten section, so no other member may have its slot.
        if !self.is_inside {
            self.node.release();
        }
    }
}

/// From the first of several things that are taken out to the flush for all of them.
#[derive(Debug)]
pub struct Section<'m, 'a> {
    member: &'m mut Member<'a>,
}

impl Section<'_, '_> {
    /// Something was taken out of what the stamp belongs to, whose lock the caller has. A thread that has
    /// the lock later and waits for the stamp waits for this section.
    #[inline]
    pub fn mark(&self, stamp: &Stamp) {
        // SAFETY: the member's slot is its own, and in the section that `Member::begin` began.
        unsafe { self.member.node.value.mark(stamp) };
    }

    /// Everything that was taken out is invalidated. As dropping the section.
    #[inline]
    pub fn finish(self) {}
}

impl Drop for Section<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: as in `mark`.
        unsafe { self.member.node.value.finish() };
        self.member.is_inside = false;
    }
}
