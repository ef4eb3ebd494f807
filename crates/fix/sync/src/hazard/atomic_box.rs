//! One value that is replaced while others read it.

use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::mutant::order;
use crate::primitive::AtomicPtr;

use super::{Guard, protect, retire};

/// A box, or none, that is replaced as a whole while others read what is in it.
///
/// To [`load`](AtomicBox::load) costs about a nanosecond on any number of threads and writes to no
/// line that others write. To replace costs an atomic exchange and, some time later, a share of a heavy
/// fence. A reader keeps what it has loaded as long as it wants; only that one object waits for it.
///
/// Use it for configurations, routes, tables. Where several values have to agree, put them into one
/// box. For a value of a machine word use an atomic.
pub struct AtomicBox<T: Send + Sync + 'static> {
    pointer: AtomicPtr<T>,
    owns: PhantomData<Box<T>>,
}

impl<T: Send + Sync + 'static> AtomicBox<T> {
    /// Objects without a size are all at one address: one that is protected would protect all.
    const HAS_SIZE: () =
        assert!(size_of::<T>() != 0, "an AtomicBox is for values that have a size");

    /// A box with a value in it, which is not of size zero.
    pub fn new(value: T) -> AtomicBox<T> {
        AtomicBox::from(Some(Box::new(value)))
    }

    /// No box.
    pub const fn empty() -> AtomicBox<T> {
        let () = Self::HAS_SIZE;
        AtomicBox { pointer: AtomicPtr::new(ptr::null_mut()), owns: PhantomData }
    }

    /// What is in it now. It stays as it is while the guard is there, whatever others store.
    #[inline]
    pub fn load(&self) -> Option<Guard<'static, T>> {
        // SAFETY: what is here was a box, is `Send` and `Sync`, and is retired to the process's domain
        // by the one whose exchange takes it out, and by no one else. It never comes back.
        unsafe { protect(&self.pointer) }
    }

    /// Replaces the value.
    pub fn store(&self, new: Option<Box<T>>) {
        let old = self.exchange(new);
        // SAFETY: the exchange removed it, so no other thread retires it.
        unsafe { retire_any(old) };
    }

    /// Replaces the value and returns the old one, which stays until the guard is dropped.
    pub fn swap(&self, new: Option<Box<T>>) -> Option<Guard<'static, T>> {
        let old = self.exchange(new);
        // SAFETY: the exchange removed it, and it is retired below: it is alive as long as only this
        // function has it.
        let guard = unsafe { protect(&AtomicPtr::new(old)) };
        // SAFETY: the exchange removed it, so no other thread retires it.
        unsafe { retire_any(old) };
        guard
    }

    fn exchange(&self, new: Option<Box<T>>) -> *mut T {
        // Release: a reader that loads the new value sees its content. The thread that frees the old one
        // executes a heavy fence before that, which acquires what the writer of the old one did.
        self.pointer.swap(into_raw(new), order!(Release, "box_store"))
    }

    /// Replaces what is in it, if that is still what the caller has loaded.
    ///
    /// As the guard keeps the object, no other can have its address meanwhile (no "ABA").
    ///
    /// # Errors
    /// Gives `new` back if something else is in it by now.
    pub fn compare_exchange(
        &self,
        current: Option<&Guard<'_, T>>,
        new: Option<Box<T>>,
    ) -> Result<(), Option<Box<T>>> {
        let current = current.map_or(ptr::null_mut(), Guard::as_ptr);
        let new = into_raw(new);
        // As in `store`.
        let release = order!(Release, "box_exchange");
        match self.pointer.compare_exchange(current, new, release, Relaxed) {
            Ok(old) => {
                // SAFETY: as in `store`.
                unsafe { retire_any(old) };
                Ok(())
            }
            // SAFETY: it came from the caller's box, and nobody has seen it.
            Err(_) => Err((!new.is_null()).then(|| unsafe { Box::from_raw(new) })),
        }
    }
}

fn into_raw<T>(value: Option<Box<T>>) -> *mut T {
    value.map_or(ptr::null_mut(), Box::into_raw)
}

/// # Safety
/// As with [`retire`], unless it is null.
unsafe fn retire_any<T: Send + 'static>(pointer: *mut T) {
    if !pointer.is_null() {
        // SAFETY: said by the caller.
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
        // Guards may outlive the box.
        self.store(None);
    }
}

impl<T: Send + Sync + fmt::Debug + 'static> fmt::Debug for AtomicBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("AtomicBox").field(&self.load()).finish()
    }
}
