//! One value that is replaced while other threads read it.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{AcqRel, Relaxed, Release};

use crate::mutant::order;
use crate::primitive::AtomicPtr;

use super::{Guard, protect, retire};

/// An optional boxed value that is replaced as a whole while other threads read it.
///
/// [`load`](AtomicBox::load) costs about a nanosecond, however many threads load the value, and writes to no
/// shared cache line. Replacing costs an atomic exchange and, some time later, a share of a heavy fence. A
/// reader may keep a loaded value for any length of time; this delays only the freeing of that value.
///
/// Use an `AtomicBox` for configurations, routes and tables. Put values that must be consistent with each
/// other into one box. For a value that fits into a machine word, use an atomic.
pub struct AtomicBox<T: Send + Sync + 'static> {
    pointer: AtomicPtr<T>,
    owns: PhantomData<Box<T>>,
}

impl<T: Send + Sync + 'static> AtomicBox<T> {
    /// All zero-sized objects share one address: a guard of one object would protect all of them.
    const HAS_SIZE: () = assert!(size_of::<T>() != 0, "an AtomicBox cannot hold zero-sized values");

    /// A box with a value. `T` must not be zero-sized.
    pub fn new(value: T) -> AtomicBox<T> {
        AtomicBox::from(Some(Box::new(value)))
    }

    /// A box without a value.
    pub const fn empty() -> AtomicBox<T> {
        let () = Self::HAS_SIZE;
        AtomicBox { pointer: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// The current value. The value stays unchanged while the guard exists, whatever other threads store.
    #[inline]
    pub fn load(&self) -> Option<Guard<'static, T>> {
        // SAFETY: the pointer came from a `Box` of a `Send` and `Sync` type. Only the thread whose exchange
        // removes the pointer retires it to the process's domain, and no thread stores it again.
        unsafe { protect(&self.pointer) }
    }

    /// Replaces the value.
    pub fn store(&self, new: Option<Box<T>>) {
        // Release: a reader that loads the new value sees its content. Before a thread frees the old value,
        // it executes a heavy fence, which acquires everything that came before the store of the old value.
        let old = self.pointer.swap(into_raw(new), order!(Release, "box_store"));
        // SAFETY: the exchange removed `old`, so no other thread retires it.
        unsafe { retire_any(old) };
    }

    /// Replaces the value and returns the old one, which stays valid until the guard is dropped.
    pub fn swap(&self, new: Option<Box<T>>) -> Option<Guard<'static, T>> {
        // Release: as in `store`. Acquire: this thread sees the content of the old value. No mutant weakens
        // the Acquire, because in builds for Miri and loom the fence in `protect` would hide the mistake.
        let old = self.pointer.swap(into_raw(new), AcqRel);
        // SAFETY: the exchange removed `old`, so only this function retires it, which it does below. Until
        // then, the object is alive.
        let guard = unsafe { protect(&AtomicPtr::new(old)) };
        // SAFETY: the exchange removed `old`, so no other thread retires it.
        unsafe { retire_any(old) };
        guard
    }

    /// Replaces the value if it is still `current`, which the caller has loaded.
    ///
    /// The guard keeps `current` from being freed, so no other value can have its address, and there is no
    /// ABA problem.
    ///
    /// # Errors
    /// Returns `new` if the box no longer contains `current`.
    pub fn compare_exchange(
        &self,
        current: Option<&Guard<'_, T>>,
        new: Option<Box<T>>,
    ) -> Result<(), Option<Box<T>>> {
        let current = current.map_or(ptr::null_mut(), Guard::as_ptr);
        let new = into_raw(new);
        // Release: as in `store`.
        let release = order!(Release, "box_exchange");
        match self.pointer.compare_exchange(current, new, release, Relaxed) {
            Ok(old) => {
                // SAFETY: the exchange removed `old`, so no other thread retires it.
                unsafe { retire_any(old) };
                Ok(())
            }
            // SAFETY: `new` came from the caller's box, and the failed exchange has not published it.
            Err(_) => Err((!new.is_null()).then(|| unsafe { Box::from_raw(new) })),
        }
    }
}

fn into_raw<T>(value: Option<Box<T>>) -> *mut T {
    value.map_or(ptr::null_mut(), Box::into_raw)
}

/// # Safety
/// The contract of [`retire`], unless the pointer is null.
unsafe fn retire_any<T: Send + 'static>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: the contract is the same, and the pointer is not null.
        unsafe { retire(pointer) };
    }
}

impl<T: Send + Sync + 'static> From<Option<Box<T>>> for AtomicBox<T> {
    fn from(value: Option<Box<T>>) -> AtomicBox<T> {
        let () = Self::HAS_SIZE;
        AtomicBox { pointer: AtomicPtr::new(into_raw(value)), owns: PhantomData }
    }
}

impl<T: Send + Sync + 'static> From<T> for AtomicBox<T> {
    fn from(value: T) -> AtomicBox<T> {
        AtomicBox::new(value)
    }
}

impl<T: Send + Sync + 'static> Default for AtomicBox<T> {
    fn default() -> AtomicBox<T> {
        AtomicBox::empty()
    }
}

impl<T: Send + Sync + 'static> Drop for AtomicBox<T> {
    fn drop(&mut self) {
        // Guards may outlive the box, so the value is retired and not dropped.
        self.store(None);
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for AtomicBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("AtomicBox").field(&self.load()).finish()
    }
}
