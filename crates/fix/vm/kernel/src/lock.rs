//! A spin lock. A CPU that holds the lock must neither call knee-vm nor wait for another CPU to handle a
//! request.

use core::cell::UnsafeCell;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicBool, Ordering};

#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Lock<T> {
    is_taken: AtomicBool,
    value: UnsafeCell<T>,
}

// SAFETY: one CPU holds the lock at a time.
unsafe impl<T: Send> Sync for Lock<T> {}

pub(crate) struct Guard<'a, T>(&'a Lock<T>);

impl<T> Lock<T> {
    pub(crate) const fn new(value: T) -> Lock<T> {
        Lock { is_taken: AtomicBool::new(false), value: UnsafeCell::new(value) }
    }

    pub(crate) fn lock(&self) -> Guard<'_, T> {
        while self.is_taken.swap(true, Ordering::Acquire) {
            while self.is_taken.load(Ordering::Relaxed) {
                core::hint::spin_loop();
            }
        }
        Guard(self)
    }
}

impl<T> Deref for Guard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the guard holds the lock.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for Guard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: as for `deref`.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for Guard<'_, T> {
    fn drop(&mut self) {
        self.0.is_taken.store(false, Ordering::Release);
    }
}
