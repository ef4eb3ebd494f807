//! Statics that the first CPU initializes.

use core::cell::UnsafeCell;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicBool, Ordering};

/// A value that is set once, and read after that.
pub(crate) struct Late<T> {
    is_set: AtomicBool,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: after `set`, there are only shared references to the value.
unsafe impl<T: Sync + Send> Sync for Late<T> {}

impl<T> Late<T> {
    pub(crate) const fn new() -> Late<T> {
        Late { is_set: AtomicBool::new(false), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    /// Sets the value.
    ///
    /// # Safety
    /// Must be called at most once.
    pub(crate) unsafe fn set(&self, value: T) -> &T {
        // SAFETY: this is the only call, and `get` returns nothing before the flag is set.
        unsafe { (*self.value.get()).write(value) };
        self.is_set.store(true, Ordering::Release);
        self.get().expect("it was set")
    }

    /// Returns the value, if it is set.
    pub(crate) fn get(&self) -> Option<&T> {
        // SAFETY: the closure runs only if the flag is set. The flag is set after the value was written, and
        // from then on there are only shared references to the value.
        self.is_set
            .load(Ordering::Acquire)
            .then(|| unsafe { (*self.value.get()).assume_init_ref() })
    }
}
