//! What the lock protocol and mailboxes are made of: the language's atomics and cells, or those of loom,
//! which tries every order of them.

use core::sync::atomic::Ordering;

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
#[cfg(not(loom))]
pub(crate) use plain::Guarded;
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, fence};
#[cfg(all(test, loom))]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use modelled::Guarded;

/// Where a model may go on with another thread.
pub(crate) fn give_way() {
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// A moment of a wait.
#[inline]
pub(crate) fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
}

/// Part of what was made before others find it, with the language's plain stores, which loom does not see.
#[derive(Debug, Default)]
pub(crate) struct Made(#[cfg(loom)] loom::cell::UnsafeCell<()>);

impl Made {
    pub(crate) fn new() -> Made {
        let made = Made::default();
        #[cfg(loom)]
        made.0.with_mut(|_| ());
        made
    }

    /// Somebody has found it.
    #[inline]
    pub(crate) fn is_found(&self) {
        #[cfg(loom)]
        self.0.with(|_| ());
    }
}

/// Sets a flag, and says whether it was set before.
#[cfg(not(loom))]
#[inline]
pub(crate) fn set(flag: &AtomicBool, order: Ordering) -> bool {
    flag.swap(true, order)
}

/// The same. loom takes what a swap has stored for something that may come after a later store of
/// another thread, so that the flag would be set for ever.
#[cfg(loom)]
pub(crate) fn set(flag: &AtomicBool, order: Ordering) -> bool {
    flag.compare_exchange(false, true, order, Ordering::Relaxed).is_err()
}

#[cfg(not(loom))]
mod plain {
    use core::cell::UnsafeCell;

    /// Memory that its user guards.
    #[derive(Debug, Default)]
    pub(crate) struct Guarded<T>(UnsafeCell<T>);

    impl<T> Guarded<T> {
        pub(crate) const fn new(value: T) -> Guarded<T> {
            Guarded(UnsafeCell::new(value))
        }

        /// Calls `with` with what is in it. To read or write there is the caller's risk.
        #[inline]
        pub(crate) fn with<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
            with(self.0.get())
        }
    }
}

#[cfg(loom)]
mod modelled {
    /// As the plain one; loom sees who has it when.
    #[derive(Debug, Default)]
    pub(crate) struct Guarded<T>(loom::cell::UnsafeCell<T>);

    impl<T> Guarded<T> {
        pub(crate) fn new(value: T) -> Guarded<T> {
            Guarded(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(with)
        }
    }
}
