//! Atomics and cells: those of the language, or those of loom, which tries every order of them.

#[cfg(not(loom))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, compiler_fence, fence,
};
#[cfg(not(loom))]
pub(crate) use plain::Cell;
#[cfg(all(feature = "std", not(loom)))]
pub(crate) use std::sync::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Mutex, MutexGuard};
#[cfg(loom)]
pub(crate) use modelled::{Cell, compiler_fence};

/// A function that is constant; with loom, whose atomics cannot be constants, it is a plain one.
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

#[cfg(not(loom))]
mod plain {
    use core::cell::UnsafeCell;

    /// Memory that its user guards.
    #[derive(Debug, Default)]
    pub(crate) struct Cell<T>(UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) const fn new(value: T) -> Cell<T> {
            Cell(UnsafeCell::new(value))
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
    use core::sync::atomic::Ordering;

    /// As the plain one; loom sees who has it when.
    #[derive(Debug, Default)]
    pub(crate) struct Cell<T>(loom::cell::UnsafeCell<T>);

    impl<T> Cell<T> {
        pub(crate) fn new(value: T) -> Cell<T> {
            Cell(loom::cell::UnsafeCell::new(value))
        }

        pub(crate) fn with<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
            self.0.with_mut(with)
        }
    }

    /// loom reorders nothing for a compiler, but a model may be interrupted there.
    pub(crate) fn compiler_fence(_: Ordering) {
        #[cfg(test)]
        crate::model::interrupt();
    }
}
