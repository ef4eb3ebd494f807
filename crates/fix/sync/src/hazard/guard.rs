//! Slots and guards. Each guard keeps a pointer in a slot.

use core::fmt;
use core::marker::PhantomData;
use core::ops::Deref;
use core::ptr::{self, NonNull};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::light;
use crate::primitive::{AtomicBool, AtomicPtr, fence};
use crate::registry::Node;

/// The number of slots in a record. With eight slots, a record fills two cache lines. A thread with more
/// guards takes another record.
#[cfg(not(any(loom, shuttle)))]
pub(super) const SLOTS: usize = 8;
/// One slot keeps loom's models small, and makes threads run out of slots in shuttle's schedules.
#[cfg(any(loom, shuttle))]
pub(super) const SLOTS: usize = 1;

/// The slots of a thread.
#[derive(Debug)]
pub(super) struct Record {
    /// A free slot is null. Only the thread that owns the record writes to the slots.
    slots: [AtomicPtr<()>; SLOTS],
    /// Whether the thread has unregistered. If the record still has guards when the thread unregisters,
    /// dropping the last of these guards releases the record.
    left: AtomicBool,
    /// A copy of `Platform::is_symmetric`, in a cache line that readers load anyway.
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

    /// A free slot, for the thread that owns the record.
    #[inline]
    pub(super) fn free(&self) -> Option<&AtomicPtr<()>> {
        // Usually the first slot is free. A bit mask of free slots would be slower, because each guard
        // would depend on the mask that the previous guard has stored.
        self.slots.iter().find(|slot| slot.load(Relaxed).is_null())
    }

    /// Clears all slots of a thread that is missing in the child of a fork.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(super) fn forget(&self) {
        self.slots.iter().for_each(clear);
        self.left.store(false, Relaxed);
    }

    fn is_free(&self) -> bool {
        self.slots.iter().all(|slot| slot.load(Relaxed).is_null())
    }

    /// The pointers in the slots that are in use. Acquire: see [`clear`].
    pub(super) fn protected(&self) -> impl Iterator<Item = *mut ()> {
        self.slots
            .iter()
            .map(|slot| slot.load(order!(Acquire, "hazard_look")))
            .filter(|pointer| !pointer.is_null())
    }
}

/// Unregisters the thread. The record stays in use while the thread still has guards.
pub(super) fn leave(node: &Node<Record>) {
    let record = &node.value;
    record.left.store(true, Relaxed);
    give_back(node);
}

/// Releases the record of a thread that has unregistered, if the record has no guards.
#[cold]
fn give_back(node: &Node<Record>) {
    if node.value.is_free() {
        node.value.left.store(false, Relaxed);
        node.release();
    }
}

/// Loads a value from `source`, passes it to `object`, and protects the object that the returned pointer
/// points to. Returns the value as well.
///
/// # Safety
/// The calling thread owns the record, and `slot` is one of the record's free slots. See also
/// [`Handle::protect_with`].
///
/// [`Handle::protect_with`]: super::Handle::protect_with
#[inline]
pub(super) unsafe fn protect<'d, T>(
    node: &'d Node<Record>,
    slot: &'d AtomicPtr<()>,
    source: &AtomicPtr<T>,
    object: impl Fn(*mut T) -> *mut T,
) -> (*mut T, Option<Guard<'d, T>>) {
    let mut value = source.load(Relaxed);
    while let Some(pointer) = NonNull::new(object(value)) {
        debug_assert!(
            pointer.is_aligned(),
            "a link with a mark is not a pointer; use `protect_with`"
        );
        // Release, although this store publishes nothing: a scan that finds this pointer concludes that the
        // slot's previous object is not used any more, so the scan must acquire the uses of that object.
        slot.store(pointer.as_ptr().cast(), order!(Release, "hazard_protect"));
        // Before a scan that may free the object, a writer removed the value from `source`, and then the
        // scanning thread executed `heavy`. If the scan loads the slot too early to see the store above, the
        // load below comes late enough to see the removal. So if the load below still finds the value, the
        // scan finds the pointer in the slot.
        light(node.value.symmetric);
        // Acquire: this thread sees the object as its writer published it.
        let again = source.load(order!(Acquire, "hazard_again"));
        if again == value || is_mutant!("hazard_no_recheck") {
            return (value, Some(Guard { pointer, node, slot, thread: PhantomData }));
        }
        value = again;
    }
    clear(slot);
    if !value.is_null() {
        // `object` returned null for this link, for example because the link is marked. The caller must see
        // what came before the store of the link, so this fence turns the loads above into Acquire loads.
        fence(Acquire);
    }
    (value, None)
}

/// Empties a slot. Release, with the Acquire of a scan: the uses of the object come before the object is
/// freed.
#[inline]
fn clear(slot: &AtomicPtr<()>) {
    slot.store(ptr::null_mut(), order!(Release, "hazard_clear"));
}

/// Protects an object: the object is not freed before the guard is dropped.
///
/// A guard holds one slot of its thread, so it stays on the thread. Guards may be dropped in any order and
/// held for any length of time. A leaked guard keeps its object and its record of slots in use forever, and
/// has no other effect.
pub struct Guard<'d, T> {
    pointer: NonNull<T>,
    node: &'d Node<Record>,
    slot: &'d AtomicPtr<()>,
    /// Neither `Send` nor `Sync`: the record belongs to this thread.
    thread: PhantomData<*mut ()>,
}

impl<T> Guard<'_, T> {
    /// The pointer to the object, for comparisons with the current pointer of a structure.
    #[inline]
    pub fn as_ptr(&self) -> *mut T {
        self.pointer.as_ptr()
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        // SAFETY: the caller of `protect` guarantees that `source` points to live objects that are
        // retired before they are freed. This pointer has been in a slot since before the object was
        // retired.
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
