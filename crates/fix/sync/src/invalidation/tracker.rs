//! A registry of slots, in which threads begin and end sections.

use core::fmt;

use super::slot::{Slot, Stamp};
use crate::platform::Platform;
use crate::registry::{Node, Registry};
#[cfg(all(feature = "std", not(loom)))]
use crate::system::System;

/// A set of threads that invalidate the same TLBs or the same cache. Other threads wait for the sections of
/// these threads.
pub struct Tracker<P: Platform> {
    platform: P,
    slots: Registry<Slot>,
}

#[cfg(all(feature = "std", not(loom)))]
impl Tracker<System> {
    /// A tracker on the operating system of this process.
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

    /// Registers the calling thread, until the member is dropped. Allocates a slot if none is free. A thread
    /// should keep its member, because `register` searches the slots of all threads.
    #[cfg(feature = "alloc")]
    pub fn register(&self) -> Member<'_> {
        Member::new(self.slots.take_or_make(Slot::new))
    }

    /// Like `register`, but never allocates a slot: if none is free, returns `None`. See
    /// [`Tracker::add_node`].
    pub fn try_register(&self) -> Option<Member<'_>> {
        Some(Member::new(self.slots.take()?))
    }

    /// Adds a free slot. An embedder without an allocator adds one slot for each thread or CPU. A slot is
    /// free again when its member is dropped.
    ///
    /// # Panics
    /// If the node was added before, to this tracker or to another.
    pub fn add_node(&self, node: &'static Node<Slot>) {
        self.slots.add_free(node);
    }

    /// Waits for the end of all sections that marked this stamp before the caller took the lock of the
    /// stamp's object. The caller then sees what these sections did. The call may wait for other sections as
    /// well.
    ///
    /// A wait spins at first, and [sleeps](Platform::sleep_while) later if the platform can sleep. Calls that
    /// have to wait at all are rare: FreeBSD's kernel counted six during a build of its sources with 32
    /// threads.
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

/// A registered thread, which is in at most one section at a time.
#[derive(Debug)]
pub struct Member<'a> {
    node: &'a Node<Slot>,
    is_inside: bool,
}

impl<'a> Member<'a> {
    fn new(node: &'a Node<Slot>) -> Member<'a> {
        Member { node, is_inside: false }
    }

    /// Begins a section, which ends when the [`Section`] is dropped. The section may move to another thread.
    ///
    /// # Panics
    /// If the last section was forgotten ([`core::mem::forget`]).
    #[inline]
    pub fn begin(&mut self) -> Section<'_, 'a> {
        assert!(!self.is_inside, "the member's last section was forgotten and never ends");
        self.is_inside = true;
        // SAFETY: the registry gave the slot to this member alone, and `is_inside` shows that the slot is
        // in no section.
        unsafe { self.node.value.begin() };
        Section { member: self }
    }
}

impl Drop for Member<'_> {
    fn drop(&mut self) {
        // The slot of a forgotten section is not released: if another member began a section in it, waiters
        // would believe that the forgotten section has ended.
        if !self.is_inside {
            self.node.release();
        }
    }
}

/// A batch of removals, from the first removal to the flush that covers all of them.
#[derive(Debug)]
pub struct Section<'m, 'a> {
    member: &'m mut Member<'a>,
}

impl Section<'_, '_> {
    /// Records that the section has removed something from the object that `stamp` belongs to. The caller
    /// must hold the object's lock. If a thread takes the lock later and then waits for the stamp, it waits
    /// for this section.
    #[inline]
    pub fn mark(&self, stamp: &Stamp) {
        // SAFETY: only this member has the slot, and the section that `Member::begin` began in the slot has
        // not ended.
        unsafe { self.member.node.value.mark(stamp) };
    }

    /// Ends the section, as dropping it does. The caller must already have invalidated all cached copies of
    /// what the section removed.
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
