//! The lock as an implementation of lock_api's traits.

use core::marker::PhantomData;

use lock_api::{GuardNoSend, RawRwLock, RawRwLockRecursive};

use super::bias::Bias;
use super::readers::{Reader, Threads};
use super::slots::Slots;
#[cfg(feature = "std")]
use super::thread::ThisProcess;

/// A value that is read often and written rarely; see [the module](super). The underlying lock is
/// parking_lot's; to use another one, write `lock_api::RwLock<RawRmLock<R>, T>`.
#[cfg(feature = "std")]
pub type RmLock<T> = lock_api::RwLock<RawRmLock, T>;

/// The guard of an [`RmLock`] that is locked for reading.
#[cfg(feature = "std")]
pub type RmReadGuard<'a, T> = lock_api::RwLockReadGuard<'a, RawRmLock, T>;

/// The guard of an [`RmLock`] that is locked for writing.
#[cfg(feature = "std")]
pub type RmWriteGuard<'a, T> = lock_api::RwLockWriteGuard<'a, RawRmLock, T>;

/// The lock of an `RmLock`, without a value. `R` is the underlying lock. Writers take the underlying lock,
/// and readers take it for a while after a write. Readers may lock it recursively, so `R` implements
/// [`RawRwLockRecursive`]. `T` is the set of threads, by default the threads of the process.
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
fn with_slots<T: Threads, R>(with: impl FnOnce(Option<&Slots>) -> R) -> R {
    T::with_reader(|reader| with(reader.map(Reader::slots)))
}

// SAFETY: while a writer holds the lock, `Bias` excludes all other threads, as the comments at its fences
// show. Guards are not `Send`, so each lock is released by the thread that took it, and a thread's slots
// record the locks of that thread.
unsafe impl<R: RawRwLockRecursive, T: Threads> RawRwLock for RawRmLock<R, T> {
    #[allow(clippy::declare_interior_mutable_const)] // The trait requires it.
    const INIT: RawRmLock<R, T> = RawRmLock { bias: Bias::new(R::INIT), threads: PhantomData };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        with_slots::<T, _>(|slots| self.bias.lock_shared(slots, T::platform));
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        with_slots::<T, _>(|slots| self.bias.try_lock_shared(slots, T::platform))
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        // SAFETY: the contract is the same.
        with_slots::<T, _>(|slots| unsafe { self.bias.unlock_shared(slots) });
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
        // SAFETY: the contract is the same.
        unsafe { self.bias.unlock_exclusive() };
    }
}

// SAFETY: a nested read is counted in the slot of the first read, or takes the underlying lock recursively.
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
