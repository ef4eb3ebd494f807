//! A pointer that readers follow without a lock: read, copy, update.

use alloc::boxed::Box;
use core::marker::PhantomData;
use core::ptr;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

#[cfg(feature = "std")]
use crate::epoch;
use crate::epoch::{Domain, Guard, Inside};
use crate::mutant::order;
use crate::platform::Platform;
use crate::primitive::AtomicPtr;
#[cfg(feature = "std")]
use crate::system::System;

/// A value that is read all the time and replaced now and then: a configuration, a table of routes.
///
/// Readers pay one load beside the guard, and hold what they have found for as long as the guard;
/// what is replaced is dropped after that, at once by [`store`](Rcu::store) and [`update`](Rcu::update)
/// if nobody has it and a look at readers is due, or else by a later one or when the thread exits;
/// [`epoch::flush`](crate::epoch::flush) does not put it off. If its destructor panics, so does who
/// drops it. Writers allocate a new value each time. Where a value is written in place, take a
/// read-mostly lock; where readers keep it for long, an `Arc` in here.
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
#[derive(Debug)]
pub struct Rcu<
    T: Send + Sync + 'static,
    #[cfg(feature = "std")] P: Platform + 'static = System,
    #[cfg(not(feature = "std"))] P: Platform + 'static,
> {
    value: AtomicPtr<T>,
    domain: &'static Domain<P>,
    owns: PhantomData<T>,
}

#[cfg(feature = "std")]
impl<T: Send + Sync + 'static> Rcu<T> {
    /// A value of the process's domain, that of [`epoch::pin`].
    pub fn new(value: T) -> Rcu<T> {
        Rcu::new_in(epoch::shared(), value)
    }

    /// Replaces the value.
    pub fn store(&self, value: T) {
        self.replace(value, &epoch::pin());
        epoch::flush_if_due();
    }

    /// Replaces the value by what `with` makes of it, again if somebody else has replaced it meanwhile.
    pub fn update(&self, with: impl FnMut(&T) -> T) {
        self.update_in(with, &epoch::pin());
        epoch::flush_if_due();
    }
}

impl<T: Send + Sync + 'static, P: Platform + 'static> Rcu<T, P> {
    /// A value of another domain.
    pub fn new_in(domain: &'static Domain<P>, value: T) -> Rcu<T, P> {
        let value = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Rcu { value, domain, owns: PhantomData }
    }

    /// The value. It stays for as long as the guard or section, and this.
    ///
    /// # Panics
    /// If that is of another domain.
    #[inline]
    pub fn load<'g>(&'g self, inside: &'g impl Inside<P>) -> &'g T {
        self.check(inside.inside());
        // SAFETY: it was made by `Box::into_raw`, and Acquire makes its content visible. Who replaces it
        // defers its end until this section has ended.
        unsafe { &*self.value.load(order!(Acquire, "rcu_load")) }
    }

    /// Replaces the value.
    ///
    /// # Panics
    /// If the guard is of another domain.
    pub fn replace(&self, value: T, guard: &Guard<'_, P>) {
        self.check(guard.domain());
        // Release: who finds the new value sees what is in it. Acquire: who drops the old one does.
        let new = Box::into_raw(Box::new(value));
        let old = self.value.swap(new, order!(AcqRel, "rcu_replace"));
        // SAFETY: it came from a `Box`, and nobody finds it any more.
        unsafe { guard.defer_drop(old) };
    }

    /// Replaces the value by what `with` makes of it, again if somebody else has replaced it meanwhile.
    ///
    /// # Panics
    /// If the guard is of another domain.
    pub fn update_in(&self, mut with: impl FnMut(&T) -> T, guard: &Guard<'_, P>) {
        self.check(guard.domain());
        let mut old = self.value.load(order!(Acquire, "rcu_update_load"));
        loop {
            // SAFETY: as in `load`.
            let new = Box::into_raw(Box::new(with(unsafe { &*old })));
            // Release alone: the load that found the old value has acquired what is in it.
            match self.value.compare_exchange(
                old,
                new,
                order!(Release, "rcu_update"),
                order!(Acquire, "rcu_update_again"),
            ) {
                Ok(_) => break,
                Err(other) => {
                    // SAFETY: nobody has seen it.
                    drop(unsafe { Box::from_raw(new) });
                    old = other;
                }
            }
        }
        // SAFETY: it came from a `Box`, and nobody finds it any more. That it is not another value at the
        // same address is due to the guard, under which it cannot be freed.
        unsafe { guard.defer_drop(old) };
    }

    #[inline]
    fn check(&self, domain: &Domain<P>) {
        assert!(ptr::eq(self.domain, domain), "the guard is of another domain");
    }
}

impl<T: Send + Sync + 'static, P: Platform + 'static> Drop for Rcu<T, P> {
    fn drop(&mut self) {
        // SAFETY: it came from a `Box`. References to it borrow this, so there are none; what was
        // replaced before is deferred.
        drop(unsafe { Box::from_raw(self.value.load(Relaxed)) });
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use std::sync::LazyLock;
    use std::thread;

    use super::*;

    #[test]
    fn updates_of_all_threads_are_there() {
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
    fn what_was_found_stays_when_it_is_replaced() {
        let value = Rcu::new("old".to_owned());
        let section = epoch::section();
        let found = value.load(&section);
        value.store("new".to_owned());
        epoch::flush();
        assert_eq!((found.as_str(), value.load(&epoch::pin()).as_str()), ("old", "new"));
    }

    #[test]
    #[should_panic(expected = "another domain")]
    fn a_guard_of_another_domain_is_refused() {
        static OTHER: LazyLock<Domain<System>> = LazyLock::new(|| Domain::new(System::symmetric()));
        Rcu::new_in(&OTHER, 0).load(&epoch::pin());
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use std::sync::Arc;

    use loom::cell::UnsafeCell;

    use crate::model::{Model, check, check_symmetric, interrupt, thread};

    /// loom complains of an access that is not ordered with another. It outlives the value, so that a
    /// reader that comes too late finds it.
    struct Value(&'static UnsafeCell<u32>);

    const DROPPED: u32 = 0xdead;

    impl Value {
        fn new(number: u32) -> Value {
            Value(Box::leak(Box::new(UnsafeCell::new(number))))
        }

        fn number(&self) -> u32 {
            interrupt();
            // SAFETY: loom panics if anybody writes there.
            self.0.with(|number| unsafe { *number })
        }
    }

    impl Drop for Value {
        fn drop(&mut self) {
            if std::thread::panicking() {
                return;
            }
            // SAFETY: loom panics if anybody else is there.
            self.0.with_mut(|number| unsafe { *number = DROPPED });
        }
    }

    // SAFETY: loom sees who uses the cell when.
    unsafe impl Send for Value {}
    // SAFETY: as above.
    unsafe impl Sync for Value {}

    fn rcu() -> Arc<Rcu<Value, Model>> {
        let domain = Box::leak(Box::new(Domain::new(Model)));
        Arc::new(Rcu::new_in(domain, Value::new(1)))
    }

    #[test]
    fn a_reader_sees_a_value_as_it_was_made_and_not_its_end() {
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
            rcu.replace(Value::new(2), &handle.pin());
            handle.flush();
            reader.join().unwrap();
        });
    }

    #[test]
    fn updates_of_two_threads_are_both_there() {
        check_symmetric(2, || {
            let rcu = rcu();
            let update = |rcu: &Rcu<Value, Model>| {
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
