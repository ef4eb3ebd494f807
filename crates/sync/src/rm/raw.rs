//! The lock of a process.

use lock_api::{GuardNoSend, RawRwLock, RawRwLockRecursive};

use super::bias::Bias;
use super::thread::{READERS, slots};
use crate::system::System;

/// A value that many read and few write, see [the module](super). Below is parking_lot's lock; for
/// another one, name it: `lock_api::RwLock<RawRmLock<R>, T>`.
pub type RmLock<T> = lock_api::RwLock<RawRmLock, T>;

/// What a reader of an [`RmLock`] has.
pub type RmReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRmLock, T>;

/// What a writer of an [`RmLock`] has.
pub type RmWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRmLock, T>;

/// The lock of an [`RmLock`], without a value. `R` is the lock below, for writers and for readers
/// after a write.
#[derive(Debug)]
pub struct RawRmLock<R = parking_lot::RawRwLock>(pub(super) Bias<R>);

// SAFETY: `Bias` excludes as its two sides argue; the guards stay on their thread, and so does the
// record of what the thread has.
unsafe impl<R: RawRwLockRecursive> RawRwLock for RawRmLock<R> {
    #[allow(clippy::declare_interior_mutable_const)] // The trait wants it.
    const INIT: RawRmLock<R> = RawRmLock(Bias::new(R::INIT));

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.0.lock_shared(slots(), System::detect);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.0.try_lock_shared(slots(), System::detect)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller says so.
        unsafe { self.0.unlock_shared(slots()) };
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.0.lock_exclusive(&READERS, System::detect);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.0.try_lock_exclusive(&READERS, System::detect)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller says so.
        unsafe { self.0.unlock_exclusive() };
    }
}

// SAFETY: a read within another is counted in the slot of the first, or takes the lock below
// recursively.
unsafe impl<R: RawRwLockRecursive> RawRwLockRecursive for RawRmLock<R> {
    #[inline]
    fn lock_shared_recursive(&self) {
        self.lock_shared();
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.try_lock_shared()
    }
}
