//! Read-copy-update: a pointer that readers follow without a lock.

use alloc::boxed::Box;
use core::fmt;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

#[cfg(feature = "std")]
use crate::epoch;
use crate::epoch::{Domain, Guard, Protect};
use crate::mutant::order;
use crate::platform::Platform;
use crate::primitive::AtomicPtr;
#[cfg(feature = "std")]
use crate::system::System;

/// A value that is read all the time and replaced now and then, such as a configuration or a routing table.
///
/// A reader pays for its guard and one load, and may use the value until it drops the guard. A writer
/// allocates a new value. A replaced value is dropped after a grace period. If a scan is due,
/// [`store`](Rcu::store) and [`update`](Rcu::update) drop the old values that are ready. All other old values
/// are dropped by a later scan, or when the thread exits. A destructor runs, and may panic, in the thread
/// that reclaims.
///
/// For a value that is modified in place, use a read-mostly lock. If readers keep the value for a long
/// time, put an `Arc` into the `Rcu`.
///
/// `D` is a reference to a domain, by default the domain of the process. Readers hold guards of this domain.
///
/// ```
/// use knee_sync::{Rcu, epoch};
///
/// let routes = Rcu::new(vec!["10.0.0.0/8"]);
/// {
///     let guard = epoch::pin();
///     assert_eq!(routes.load(&guard).len(), 1);
/// }
/// routes.update(|old| [&old[..], &["192.168.0.0/16"]].concat());
/// assert_eq!(routes.load(&epoch::pin()).len(), 2);
/// ```
///
/// ```text
/// reader   ├ pin ── load: old value ──────────── unpin ┤
/// writer        ├ store the new pointer, retire the old value ┤
/// later readers         ├ pin ── load: new value ── unpin ┤
/// old value    in use ─────────────────────────────────┤ grace period over: dropped
/// ```
///
/// With a domain of its own, a structure does not wait for readers of other structures:
///
/// ```
/// use knee_sync::{Rcu, System, epoch::Domain};
///
/// let domain = Domain::new(System::detect());
/// let limit = Rcu::new_in(&domain, 10);
/// let handle = domain.register();
/// let guard = handle.pin();
/// assert_eq!(*limit.swap(20, &guard), 10);
/// assert_eq!(*limit.load(&guard), 20);
/// ```
///
/// A replaced value may outlive the `Rcu`: the domain may keep the value until the domain itself is dropped.
/// So a value must not borrow anything (`T: 'static`):
///
/// ```compile_fail,E0597
/// use knee_sync::{Rcu, System, epoch::Domain};
///
/// let domain = Domain::new(System::detect());
/// let text = String::from("dropped before the domain");
/// let borrows = Rcu::new_in(&domain, text.as_str());
/// ```
pub struct Rcu<
    T,
    #[cfg(feature = "std")] D = &'static Domain<System>,
    #[cfg(not(feature = "std"))] D,
> {
    /// From `Box::into_raw`; never null.
    value: AtomicPtr<T>,
    domain: D,
    owns: PhantomData<T>,
}

#[cfg(feature = "std")]
impl<T: Send + Sync + 'static> Rcu<T> {
    /// A value in the domain of the process. [`epoch::pin`] returns guards of this domain.
    pub fn new(value: T) -> Rcu<T> {
        Rcu::new_in(epoch::shared(), value)
    }

    /// Replaces the value.
    pub fn store(&self, value: T) {
        self.swap(value, &epoch::pin());
        epoch::reclaim_if_due();
    }

    /// Replaces the value with the result of calling `with` on it. If another thread has replaced the value
    /// in the meantime, calls `with` again.
    pub fn update(&self, with: impl FnMut(&T) -> T) {
        self.update_in(with, &epoch::pin());
        epoch::reclaim_if_due();
    }
}

impl<'d, T: Send + Sync + 'static, P: Platform> Rcu<T, &'d Domain<P>> {
    /// A value in the given domain.
    pub fn new_in(domain: &'d Domain<P>, value: T) -> Rcu<T, &'d Domain<P>> {
        let value = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Rcu { value, domain, owns: PhantomData }
    }

    /// The value. The reference stays valid until the guard is dropped.
    ///
    /// # Panics
    /// If the guard belongs to another domain.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g impl Protect<P>) -> &'g T {
        assert!(guard.is_of(self.domain), "the guard and the Rcu belong to different domains");
        // SAFETY: the pointer came from a `Box`, and `swap` and `update_in` retire it to the guard's domain.
        // The assertion above checks the domain, in release builds too; it costs one load from the pointer's
        // cache line.
        let value = unsafe { guard.load(&self.value) };
        // SAFETY: `value` is never null.
        unsafe { value.unwrap_unchecked() }
    }

    /// Replaces the value and returns the old one, which stays valid until the guard is dropped.
    ///
    /// # Panics
    /// If the guard belongs to another domain.
    pub fn swap<'g>(&'g self, value: T, guard: &'g Guard<'_, P>) -> &'g T {
        assert!(guard.is_of(self.domain), "the guard and the Rcu belong to different domains");
        // SAFETY: the pointer came from a `Box`, `load` reads it in sections of the guard's domain, and `T`
        // borrows nothing.
        let old = unsafe { guard.replace(&self.value, Some(Box::new(value))) };
        // SAFETY: `value` is never null.
        unsafe { old.unwrap_unchecked() }
    }

    /// Replaces the value with the result of calling `with` on it. If another thread has replaced the value
    /// in the meantime, calls `with` again.
    ///
    /// # Panics
    /// If the guard belongs to another domain.
    pub fn update_in(&self, mut with: impl FnMut(&T) -> T, guard: &Guard<'_, P>) {
        assert!(guard.is_of(self.domain), "the guard and the Rcu belong to different domains");
        let mut old = self.value.load(order!(Acquire, "rcu_update_load"));
        loop {
            // SAFETY: as in `load`: the guard's section began before the pointer was loaded.
            let new = Box::into_raw(Box::new(with(unsafe { &*old })));
            // Release is enough, because the load that found the old value has acquired its content.
            match self.value.compare_exchange(
                old,
                new,
                order!(Release, "rcu_update"),
                order!(Acquire, "rcu_update_again"),
            ) {
                Ok(_) => break,
                Err(other) => {
                    // SAFETY: the box was made above, and the exchange has not published it.
                    drop(unsafe { Box::from_raw(new) });
                    old = other;
                }
            }
        }
        // SAFETY: `old` came from a `Box`, and the exchange has removed it. No other value can have had the
        // same address, because the guard keeps the old value from being freed.
        unsafe { guard.retire(old) };
    }
}

impl<T, D> Rcu<T, D> {
    /// The value. No reader can hold a reference to the value during the exclusive borrow.
    pub fn get_mut(&mut self) -> &mut T {
        // SAFETY: `value` is owned and never null. References from `load` borrow `self`, so no such reference
        // exists during the exclusive borrow.
        unsafe { &mut *self.value.load(Relaxed) }
    }

    /// Returns the value.
    pub fn into_inner(self) -> T {
        let this = ManuallyDrop::new(self);
        // SAFETY: the pointer came from a `Box`, and `drop` does not run. References from `load` borrow
        // `self`, so no such reference exists when `self` is moved.
        *unsafe { Box::from_raw(this.value.load(Relaxed)) }
    }
}

impl<T, D> Drop for Rcu<T, D> {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a `Box`. References from `load` borrow `self`, so no such reference
        // exists when `self` is dropped.
        drop(unsafe { Box::from_raw(self.value.load(Relaxed)) });
    }
}

#[cfg(feature = "std")]
impl<T: Default + Send + Sync + 'static> Default for Rcu<T> {
    fn default() -> Rcu<T> {
        Rcu::new(T::default())
    }
}

#[cfg(feature = "std")]
impl<T: Send + Sync + 'static> From<T> for Rcu<T> {
    fn from(value: T) -> Rcu<T> {
        Rcu::new(value)
    }
}

impl<T, P> fmt::Debug for Rcu<T, &Domain<P>>
where
    T: Send + Sync + fmt::Debug + 'static,
    P: Platform,
{
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_tuple("Rcu").field(self.load(&self.domain.section())).finish()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn no_update_is_lost() {
        let rounds = if cfg!(miri) { 50 } else { 5000 };
        let count = Rcu::new(0);
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..rounds).for_each(|_| count.update(|old| old + 1)));
            }
        });
        assert_eq!(*count.load(&epoch::pin()), 3 * rounds);
    }

    #[test]
    fn a_found_value_survives_its_replacement() {
        let value = Rcu::new("old".to_owned());
        let section = epoch::section();
        let found = value.load(&section);
        value.store("new".to_owned());
        epoch::reclaim();
        assert_eq!((found.as_str(), value.load(&epoch::pin()).as_str()), ("old", "new"));
    }

    #[test]
    #[should_panic(expected = "different domains")]
    fn a_guard_of_another_domain_is_refused() {
        let other = Domain::new(System::symmetric());
        Rcu::new_in(&other, 0).load(&epoch::pin());
    }

    #[test]
    fn a_swap_returns_the_old_value_and_frees_it_after_the_guard() {
        let domain = Domain::new(System::detect());
        let old = Arc::new("old".to_owned());
        let value = Rcu::new_in(&domain, Arc::clone(&old));
        let handle = domain.register();
        let guard = handle.pin();
        let swapped = value.swap(Arc::new("new".to_owned()), &guard);
        handle.reclaim();
        assert_eq!((swapped.as_str(), Arc::strong_count(&old)), ("old", 2));
        drop(guard);
        handle.reclaim();
        assert_eq!(Arc::strong_count(&old), 1);
        assert_eq!(*value.into_inner(), "new");
    }

    #[test]
    fn conversions_and_debug_output_use_the_current_value() {
        let mut value = Rcu::<Vec<u32>>::default();
        value.get_mut().push(1);
        assert_eq!(format!("{value:?}"), "Rcu([1])");
        assert_eq!(*Rcu::from(7).load(&epoch::section()), 7);
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use std::sync::Arc;

    use loom::cell::UnsafeCell;

    use crate::model::{Model, check, check_symmetric, interrupt, thread};

    /// A value in a leaked cell. A reader that comes too late still finds the cell, and loom reports the
    /// unordered access.
    struct Value(&'static UnsafeCell<u32>);

    const DROPPED: u32 = 0xdead;

    impl Value {
        fn new(number: u32) -> Value {
            Value(Box::leak(Box::new(UnsafeCell::new(number))))
        }

        fn number(&self) -> u32 {
            interrupt();
            // SAFETY: loom panics on a concurrent write.
            self.0.with(|number| unsafe { *number })
        }
    }

    impl Drop for Value {
        fn drop(&mut self) {
            if std::thread::panicking() {
                return;
            }
            // SAFETY: loom panics on a concurrent access.
            self.0.with_mut(|number| unsafe { *number = DROPPED });
        }
    }

    // SAFETY: loom checks every use of the cell.
    unsafe impl Send for Value {}
    // SAFETY: as for `Send`.
    unsafe impl Sync for Value {}

    fn rcu() -> Arc<Rcu<Value, &'static Domain<Model>>> {
        let domain = Box::leak(Box::new(Domain::new(Model)));
        Arc::new(Rcu::new_in(domain, Value::new(1)))
    }

    #[test]
    fn a_reader_sees_the_published_value_and_never_its_drop() {
        check(2, || {
            let rcu = rcu();
            let reader = thread::spawn({
                let rcu = Arc::clone(&rcu);
                move || {
                    let handle = rcu.domain.register();
                    let guard = handle.pin();
                    assert!((1..=2).contains(&rcu.load(&guard).number()));
                }
            });
            let handle = rcu.domain.register();
            rcu.swap(Value::new(2), &handle.pin());
            handle.reclaim();
            reader.join().unwrap();
        });
    }

    #[test]
    fn no_update_of_two_threads_is_lost() {
        check_symmetric(2, || {
            let rcu = rcu();
            let update = |rcu: &Rcu<Value, &'static Domain<Model>>| {
                let handle = rcu.domain.register();
                rcu.update_in(|old| Value::new(old.number() + 1), &handle.pin());
            };
            let other = thread::spawn({
                let rcu = Arc::clone(&rcu);
                move || update(&rcu)
            });
            update(&rcu);
            other.join().unwrap();
            let handle = rcu.domain.register();
            assert_eq!(rcu.load(&handle.pin()).number(), 3);
        });
    }
}
