//! The lock as lock_api knows locks.

use core::marker::PhantomData;

use lock_api::{GuardNoSend, RawRwLock, RawRwLockRecursive};

use super::bias::Bias;
use super::readers::{Reader, Threads};
use super::slots::Slots;
#[cfg(feature = "std")]
use super::thread::ThisProcess;

/// A value that many read and few write, see [the module](super). Below is parking_lot's lock; for
/// another one, name it: `lock_api::RwLock<RawRmLock<R>, T>`.
#[cfg(feature = "std")]
pub type RmLock<T> = lock_api::RwLock<RawRmLock, T>;

/// What a reader of an [`RmLock`] has.
#[cfg(feature = "std")]
pub type RmReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRmLock, T>;

/// What a writer of an [`RmLock`] has.
#[cfg(feature = "std")]
pub type RmWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRmLock, T>;

/// The lock of an `RmLock`, without a value. `R` is the lock below, for writers and for readers after a
/// write, which may read again: so it is a [`RawRwLockRecursive`]. `T` are the threads, those of the
/// process unless there is none.
#[derive(Debug)]
pub struct RawRmLock<
    #[cfg(feature = "std")] R = parking_lot::RawRwLock,
    #[cfg(not(feature = "std"))] R,
    #[cfg(feature = "std")] T = ThisProcess,
    #[cfg(not(feature = "std"))] T,
> {
    pub(super) bias: Bias<R>,
    threads: PhantomData<fn() -> T>,
}

#[inline]
fn slots<T: Threads>() -> Option<&'static Slots> {
    T::reader().map(Reader::slots)
}

// SAFETY: `Bias` excludes as its two sides argue; the guards stay on their thread, and so does the
// record of what the thread has.
unsafe impl<R: RawRwLockRecursive, T: Threads> RawRwLock for RawRmLock<R, T> {
    #[allow(clippy::declare_interior_mutable_const)] // The trait wants it.
    const INIT: RawRmLock<R, T> = RawRmLock { bias: Bias::new(R::INIT), threads: PhantomData };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        self.bias.lock_shared(slots::<T>(), T::platform);
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.bias.try_lock_shared(slots::<T>(), T::platform)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the caller says so.
        unsafe { self.bias.unlock_shared(slots::<T>()) };
    }

    #[inline]
    fn lock_exclusive(&self) {
        self.bias.lock_exclusive(T::readers(), T::platform);
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.bias.try_lock_exclusive(T::readers(), T::platform)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        // SAFETY: the caller says so.
        unsafe { self.bias.unlock_exclusive() };
    }
}

// SAFETY: a read within another is counted in the slot of the first, or takes the lock below
// recursively.
unsafe impl<R: RawRwLockRecursive, T: Threads> RawRwLockRecursive for RawRmLock<R, T> {
    #[inline]
    fn lock_shared_recursive(&self) {
        self.lock_shared();
    }

    #[inline]
    fn try_lock_shared_recursive(&self) -> bool {
        self.try_lock_shared()
    }
}
