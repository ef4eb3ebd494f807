//! Atomics and cells. A build uses the atomics and cells of `core`, of loom (which tries every interleaving
//! of accesses) or of shuttle (which tries schedules).

use core::sync::atomic::Ordering;

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic::compiler_fence;
#[cfg(not(any(loom, shuttle)))]
pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(not(any(loom, shuttle)))]
pub use plain::Guarded;
#[cfg(all(feature = "std", not(any(loom, shuttle))))]
pub use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub use crate::model::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub use modelled::Guarded;
#[cfg(loom)]
pub(crate) use modelled::compiler_fence;

#[cfg(shuttle)]
pub use scheduled::Guarded;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::compiler_fence;
#[cfg(shuttle)]
pub use shuttle::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(shuttle)]
pub use shuttle::sync::{Mutex, MutexGuard};

/// Defines a `const fn`, or a plain `fn` under loom, whose atomics have no `const` constructors.
macro_rules! constant {
    (
        $(#[$attribute:meta])*
        $visibility:vis fn $name:ident($($argument:ident: $of:ty),*) -> $result:ty $body:block
    ) => {
        $(#[$attribute])*
        #[cfg(not(loom))]
        $visibility const fn $name($($argument: $of),*) -> $result $body

        $(#[$attribute])*
        #[cfg(loom)]
        $visibility fn $name($($argument: $of),*) -> $result $body
    };
}
pub(crate) use constant;

/// Lets loom switch to another thread. Does nothing in builds without loom.
#[inline]
pub fn yield_in_model() {
    #[cfg(loom)]
    loom::thread::yield_now();
}

/// One iteration of a spin-wait loop. Does nothing under loom, where waits call
/// [`Platform::relax`](crate::Platform::relax) to switch threads.
#[inline]
pub fn pause() {
    #[cfg(not(loom))]
    core::hint::spin_loop();
}

/// Sets a flag and returns whether it was set before.
#[cfg(not(loom))]
#[inline]
pub fn test_and_set(flag: &AtomicBool, order: Ordering) -> bool {
    flag.swap(true, order)
}

/// Sets a flag and returns whether it was set before. This function does not swap, because loom may order the
/// store of a swap after a later store of another thread, and then the flag would stay set forever.
#[cfg(loom)]
pub fn test_and_set(flag: &AtomicBool, order: Ordering) -> bool {
    flag.compare_exchange(false, true, order, Ordering::Relaxed).is_err()
}

/// Sets the value to the maximum of itself and `other`. Returns the old value.
#[inline]
pub fn fetch_max(value: &AtomicU64, other: u64, order: Ordering) -> u64 {
    // ThreadSanitizer does not see an atomic maximum (LLVM's pass skips it), so builds for ThreadSanitizer
    // use a loop.
    #[cfg(sanitize_thread)]
    return value.fetch_update(order, Ordering::Relaxed, |now| Some(now.max(other))).unwrap();
    #[cfg(not(sanitize_thread))]
    value.fetch_max(other, order)
}

/// Represents plain fields that are written before an object is published. loom does not see those fields,
/// but checks that the creation of this value happens before each [`found`](PublishCheck::found).
#[derive(Debug, Default)]
pub struct PublishCheck(#[cfg(loom)] loom::cell::UnsafeCell<()>);

impl PublishCheck {
    /// Records that the calling thread writes the object.
    #[inline]
    pub fn new() -> PublishCheck {
        let check = PublishCheck::default();
        #[cfg(loom)]
        check.0.with_mut(|_| ());
        check
    }

    /// Records that the calling thread has found the object.
    #[inline]
    pub fn found(&self) {
        #[cfg(loom)]
        self.0.with(|_| ());
    }
}

#[cfg(not(any(loom, shuttle)))]
mod plain {
    use core::cell::UnsafeCell;

    /// A cell that checks nothing: its users must exclude each other.
    #[derive(Debug, Default)]
    pub struct Guarded<T>(UnsafeCell<T>);

    impl<T> Guarded<T> {
        /// A cell that contains this value.
        pub const fn new(value: T) -> Guarded<T> {
            Guarded(UnsafeCell::new(value))
        }

        /// Passes a pointer to the content to `with`. The caller must ensure that the accesses of `with` are
        /// sound.
        #[inline]
        pub fn with<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
            with(self.0.get())
        }
    }
}

#[cfg(loom)]
mod modelled {
    use core::sync::atomic::Ordering;

    /// Like the `Guarded` of other builds, but loom checks that accesses are ordered.
    #[derive(Debug, Default)]
    pub struct Guarded<T>(loom::cell::UnsafeCell<T>);

    impl<T> Guarded<T> {
        /// A cell that contains this value.
        pub fn new(value: T) -> Guarded<T> {
            Guarded(loom::cell::UnsafeCell::new(value))
        }

        /// Passes a pointer to the content to `with`.
        pub fn with<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(with)
        }
    }

    /// Not a fence, because loom models no reordering by the compiler. A model's platform may interrupt a
    /// thread here.
    pub(crate) fn compiler_fence(_: Ordering) {
        crate::model::interrupt();
    }
}

#[cfg(shuttle)]
mod scheduled {
    use core::cell::UnsafeCell;
    use core::sync::atomic::Ordering::Relaxed;

    use super::AtomicBool;

    /// Like the `Guarded` of other builds, but panics if two threads use it at the same time.
    #[derive(Debug, Default)]
    pub struct Guarded<T> {
        value: UnsafeCell<T>,
        busy: AtomicBool,
    }

    impl<T> Guarded<T> {
        /// A cell that contains this value.
        pub const fn new(value: T) -> Guarded<T> {
            Guarded { value: UnsafeCell::new(value), busy: AtomicBool::new(false) }
        }

        /// Passes a pointer to the content to `with`.
        pub fn with<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
            assert!(!self.busy.swap(true, Relaxed), "two threads use a cell at once");
            let result = with(self.value.get());
            self.busy.store(false, Relaxed);
            result
        }
    }
}
