//! Atomics and cells: those of the language, those of loom, which tries every order of them, or those of
//! shuttle, which tries schedules.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, compiler_fence, fence,
};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use plain::Cell;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use portable_atomic::AtomicU128;

#[cfg(all(loom, test))]
pub(crate) use crate::model::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(all(loom, not(test)))]
pub(crate) use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, fence};
#[cfg(loom)]
pub(crate) use modelled::{Cell, compiler_fence};

#[cfg(shuttle)]
pub(crate) use scheduled::Cell;
#[cfg(shuttle)]
pub(crate) use shuttle::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, compiler_fence, fence,
};

#[cfg(any(loom, shuttle))]
pub(crate) use wide::AtomicU128;

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

#[cfg(not(any(loom, shuttle)))]
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

#[cfg(shuttle)]
mod scheduled {
    use core::cell::UnsafeCell;
    use core::sync::atomic::Ordering::Relaxed;

    use super::AtomicBool;

    /// As the plain one, and only one thread at a time may be there.
    #[derive(Debug, Default)]
    pub(crate) struct Cell<T> {
        value: UnsafeCell<T>,
        busy: AtomicBool,
    }

    impl<T> Cell<T> {
        pub(crate) const fn new(value: T) -> Cell<T> {
            Cell { value: UnsafeCell::new(value), busy: AtomicBool::new(false) }
        }

        pub(crate) fn with<R>(&self, with: impl FnOnce(*mut T) -> R) -> R {
            assert!(!self.busy.swap(true, Relaxed), "two threads use a cell at once");
            let result = with(self.value.get());
            self.busy.store(false, Relaxed);
            result
        }
    }
}

/// Words of 128 bits, which neither loom nor shuttle has.
#[cfg(any(loom, shuttle))]
mod wide {
    use core::sync::atomic::Ordering::{self, Relaxed};
    use std::sync::Mutex;

    use super::AtomicU64;

    /// A word of 64 bits that says which of the values it is that any word ever had: equal ones are the
    /// same, so exchanges compare them.
    #[derive(Debug)]
    pub(crate) struct AtomicU128(AtomicU64);

    /// All values. They are no part of the model.
    static VALUES: Mutex<Vec<u128>> = Mutex::new(Vec::new());

    fn number(value: u128) -> u64 {
        let mut values = VALUES.lock().expect("nobody panics with it");
        let known = values.iter().position(|&known| known == value);
        known.unwrap_or_else(|| {
            values.push(value);
            values.len() - 1
        }) as u64
    }

    fn value(number: u64) -> u128 {
        VALUES.lock().expect("nobody panics with it")[number as usize]
    }

    impl AtomicU128 {
        pub(crate) fn new(of: u128) -> AtomicU128 {
            AtomicU128(AtomicU64::new(number(of)))
        }

        pub(crate) fn is_lock_free() -> bool {
            true
        }

        pub(crate) fn load(&self, order: Ordering) -> u128 {
            value(self.0.load(order))
        }

        pub(crate) fn store(&self, to: u128, order: Ordering) {
            self.0.store(number(to), order);
        }

        pub(crate) fn compare_exchange(
            &self,
            old: u128,
            new: u128,
            success: Ordering,
            failure: Ordering,
        ) -> Result<u128, u128> {
            let exchanged = self.0.compare_exchange(number(old), number(new), success, failure);
            exchanged.map(value).map_err(value)
        }

        pub(crate) fn fetch_or(&self, bits: u128, order: Ordering) -> u128 {
            loop {
                let old = self.load(Relaxed);
                if self.compare_exchange(old, old | bits, order, Relaxed).is_ok() {
                    return old;
                }
            }
        }
    }
}
