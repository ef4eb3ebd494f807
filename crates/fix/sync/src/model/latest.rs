//! Wrappers of loom's atomics. On one of the model platforms, every load of a wrapper sees the latest store.

// Documented in `core::sync::atomic`.
#![allow(missing_docs, unreachable_pub)]

use core::ops::Deref;
use core::ptr;
use core::sync::atomic::Ordering;

use super::orders::loads_see_the_latest;

/// Wraps one of loom's atomics: replaces `load` and implements `Default`. `$never` is a value that the
/// atomic never has.
macro_rules! atomic {
    ($name:ident $(<$T:ident>)?, $value:ty, $default:expr, $never:expr) => {
        #[derive(Debug)]
        pub struct $name $(<$T>)? (loom::sync::atomic::$name $(<$T>)?);

        impl $(<$T>)? Default for $name $(<$T>)? {
            fn default() -> Self {
                Self::new($default)
            }
        }

        impl $(<$T>)? $name $(<$T>)? {
            pub fn new(value: $value) -> Self {
                Self(loom::sync::atomic::$name::new(value))
            }

            pub fn load(&self, order: Ordering) -> $value {
                if !loads_see_the_latest() {
                    return self.0.load(order);
                }
                // A compare-exchange sees the latest store. This compare-exchange always fails, so it stores
                // nothing.
                match self.0.compare_exchange($never, $never, order, order) {
                    Ok(_) => unreachable!("the atomic never has this value"),
                    Err(value) => value,
                }
            }
        }

        impl $(<$T>)? Deref for $name $(<$T>)? {
            type Target = loom::sync::atomic::$name $(<$T>)?;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    };
}

atomic!(AtomicU8, u8, 0, 0xba);
atomic!(AtomicU32, u32, 0, 0xbad0_cafe);
atomic!(AtomicU64, u64, 0, 0xbad0_cafe_bad0_cafe);
atomic!(AtomicPtr<T>, *mut T, ptr::null_mut(), ptr::without_provenance_mut(0xbad0_cafe_bad0_cafe));

/// A flag, stored in an `AtomicU8`: `load` needs a value that the atomic never has, and a `bool` has no such
/// value.
#[derive(Debug, Default)]
pub struct AtomicBool(AtomicU8);

impl AtomicBool {
    pub fn new(value: bool) -> AtomicBool {
        AtomicBool(AtomicU8::new(value.into()))
    }

    pub fn load(&self, order: Ordering) -> bool {
        self.0.load(order) != 0
    }

    pub fn store(&self, value: bool, order: Ordering) {
        self.0.store(value.into(), order);
    }

    pub fn swap(&self, value: bool, order: Ordering) -> bool {
        self.0.swap(value.into(), order) != 0
    }

    pub fn compare_exchange(
        &self,
        old: bool,
        new: bool,
        success: Ordering,
        failure: Ordering,
    ) -> Result<bool, bool> {
        let exchanged = self.0.compare_exchange(old.into(), new.into(), success, failure);
        exchanged.map(|value| value != 0).map_err(|value| value != 0)
    }
}
