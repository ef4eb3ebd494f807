//! Atomics and locks. In models, loom or shuttle provides them.

#[cfg(not(any(loom, shuttle)))]
pub(crate) use core::sync::atomic::{AtomicPtr, AtomicU64};
#[cfg(not(any(loom, shuttle)))]
pub(crate) use parking_lot::RawMutex;
#[cfg(not(any(loom, shuttle)))]
pub(crate) use portable_atomic::AtomicU128;

#[cfg(any(loom, shuttle))]
pub(crate) use knee_sync::shim::{AtomicPtr, AtomicU64, RawLock as RawMutex};
#[cfg(any(loom, shuttle))]
pub(crate) use wide::AtomicU128;

/// A mutex that uses parking_lot's lock or, in models, the lock of knee-sync's models.
pub(crate) type Mutex<T> = parking_lot::lock_api::Mutex<RawMutex, T>;

/// Words of 128 bits, which neither loom nor shuttle provides.
#[cfg(any(loom, shuttle))]
mod wide {
    use core::sync::atomic::Ordering::{self, Relaxed};
    use std::sync::Mutex;

    use super::AtomicU64;

    /// The index of the word's value in `VALUES`. Equal values have the same index, so a compare-exchange can
    /// compare indexes.
    #[derive(Debug)]
    pub(crate) struct AtomicU128(AtomicU64);

    /// All values that any word has ever had. The list is not part of the model.
    static VALUES: Mutex<Vec<u128>> = Mutex::new(Vec::new());

    fn number(value: u128) -> u64 {
        let mut values = VALUES.lock().expect("no thread panics while it holds the lock");
        let known = values.iter().position(|&known| known == value);
        known.unwrap_or_else(|| {
            values.push(value);
            values.len() - 1
        }) as u64
    }

    fn value(number: u64) -> u128 {
        VALUES.lock().expect("no thread panics while it holds the lock")[number as usize]
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
