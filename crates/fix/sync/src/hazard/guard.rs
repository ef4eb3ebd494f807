//! Slots, and what is in them.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::light;
use crate::primitive::{AtomicBool, AtomicPtr};
use crate::registry::Node;

/// Slots of a record, which then fills its two lines. A thread that needs more takes another record.
#[cfg(not(any(loom, shuttle)))]
pub(super) const SLOTS: usize = 8;
/// loom tries all orders of what touches them, and with shuttle more threads need more.
#[cfg(any(loom, shuttle))]
pub(super) const SLOTS: usize = 1;

/// The slots of a thread.
#[derive(Debug)]
pub(super) struct Record {
    /// Null where it is free. Only the thread that has the record writes to them.
    slots: [AtomicPtr<()>; SLOTS],
    /// The thread has left and its guards have not: the last of them gives the record back.
    left: AtomicBool,
    /// What the domain's platform says; here because the line is at hand.
    symmetric: bool,
}

impl Record {
    pub(super) fn new(symmetric: bool) -> Record {
        Record {
            slots: core::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            left: AtomicBool::new(false),
            symmetric,
        }
    }

    /// A slot that is free, for the thread that has the record.
    #[inline]
    pub(super) fn free(&self) -> Option<&AtomicPtr<()>> {
        // Mostly the first. To keep a mask of them instead would make each guard wait for the mask
        // that the one before it has stored.
        self.slots.iter().find(|slot| slot.load(Relaxed).is_null())
    }

    /// Protects nothing any more, in the child of a fork whose parent has the thread.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forget(&self) {
        self.slots.iter().for_each(clear);
        self.left.store(false, Relaxed);
    }

    fn is_free(&self) -> bool {
        self.slots.iter().all(|slot| slot.load(Relaxed).is_null())
    }

    /// What is protected. Acquire: see [`clear`].
    pub(super) fn protected(&self) -> impl Iterator<Item = *mut ()> {
        self.slots
            .iter()
            .map(|slot| slot.load(order!(Acquire, "hazard_look")))
            .filter(|pointer| !pointer.is_null())
    }
}

/// The thread needs the record no more, but for guards that it still has.
pub(super) fn leave(node: &Node<Record>) {
    let record = &node.value;
    record.left.store(true, Relaxed);
    give_back(node);
}

/// Gives the record of a thread that has left back if it has no guards.
#[cold]
fn give_back(node: &Node<Record>) {
    if node.value.is_free() {
        node.value.left.store(false, Relaxed);
        node.release();
    }
}

/// Protects what `source` points to, if that is anything.
///
/// # Safety
/// The calling thread has the record, and the slot is one of it that is free. See also [`Handle::protect`].
///
/// [`Handle::protect`]: super::Handle::protect
#[inline]
pub(super) unsafe fn protect<'d, T>(
    node: &'d Node<Record>,
    slot: &'d AtomicPtr<()>,
    source: &AtomicPtr<T>,
) -> Option<Guard<'d, T>> {
    let mut pointer = source.load(Relaxed);
    while let Some(found) = NonNull::new(pointer) {
        // Release, though nothing is published: a reclaimer that finds this pointer concludes that
        // the one before it is not used any more, so it must see those uses as past.
        slot.store(pointer.cast(), order!(Release, "hazard_protect"));
        // The reclaimer has removed the pointer from `source`, executed `heavy` and then looks at the
        // slot. If it looks too early to see our store, our load below comes late enough to see the
        // removal; if our load still finds the pointer, the reclaimer finds it in the slot.
        light(node.value.symmetric);
        // Acquire: we go on to read what the pointer's writer wrote there.
        let again = source.load(order!(Acquire, "hazard_again"));
        if again == pointer || is_mutant!("hazard_no_recheck") {
            return Some(Guard { pointer: found, node, slot, thread: PhantomData });
        }
        pointer = again;
    }
    clear(slot);
    None
}

/// Empties a slot. Release: our uses of the object come before, and a reclaimer's Acquire of the slot
/// before it frees.
#[inline]
fn clear(slot: &AtomicPtr<()>) {
    slot.store(ptr::null_mut(), order!(Release, "hazard_clear"));
}

/// An object that is not freed as long as the guard is there.
///
/// It holds one of its thread's slots, so it stays on the thread. Guards may be dropped in any order
/// and held for any time; one that is forgotten keeps its object forever, and harms nothing else.
pub struct Guard<'d, T> {
    pointer: NonNull<T>,
    node: &'d Node<Record>,
    slot: &'d AtomicPtr<()>,
    /// The record is this thread's.
    thread: PhantomData<*mut ()>,
}

impl<T> Guard<'_, T> {
    /// The object, for comparisons with what is in the structure now.
    #[inline]
    pub fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: who called `protect` says that `source` points to live objects that are retired
        // before they are freed, and this one is in a slot since before it could be retired.
        unsafe { self.pointer.as_ref() }
    }
}

impl<T> Drop for Guard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        clear(self.slot);
        if self.node.value.left.load(Relaxed) {
            give_back(self.node);
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Guard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("Guard").field(&**self).finish()
    }
}
