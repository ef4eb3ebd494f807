//! A lock that its owner takes for the price of two stores.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::{Platform, light};
use crate::primitive::{AtomicBool, Cell, constant};

/// What one thread uses all the time and others now and then.
///
/// It is Dekker's algorithm with an asymmetric fence. The owner says that it is inside, and looks
/// whether somebody else wants in; the other says that it wants in, and looks whether the owner is
/// inside. With a fence between the two on each side, one of them sees the other; the fence of the
/// owner costs nothing, that of the other one an interrupt.
#[derive(Debug)]
pub(crate) struct Biased<T> {
    /// The owner is inside.
    inside: AtomicBool,
    /// Another is inside, or waits for the owner to leave.
    requested: AtomicBool,
    value: Cell<T>,
}

// SAFETY: whoever has the lock has the value, and no one else.
unsafe impl<T: Send> Sync for Biased<T> {}

impl<T> Biased<T> {
    constant! {
        pub(crate) fn new(value: T) -> Biased<T> {
            Biased {
                inside: AtomicBool::new(false),
                requested: AtomicBool::new(false),
                value: Cell::new(value),
            }
        }
    }

    /// Uses the value as its owner.
    ///
    /// # Safety
    /// At any time one thread at most is its owner, whoever becomes it after another has been told by
    /// that one; and `with` does not come back to this lock.
    #[inline]
    pub(crate) unsafe fn lock_owner<R>(
        &self,
        platform: &impl Platform,
        with: impl FnOnce(&mut T) -> R,
    ) -> R {
        self.inside.store(true, Relaxed);
        light(platform.is_symmetric());
        if self.requested.load(order!(Acquire, "biased_own")) {
            self.wait(platform);
        }
        // SAFETY: the fences order our store of `inside` and load of `requested`, and the other's store
        // of `requested` and load of `inside`. If our load came first, the other sees that we are
        // inside, and waits. If its store came first, we have seen it and waited until it was out.
        let result = self.value.with(|value| with(unsafe { &mut *value }));
        self.inside.store(false, order!(Release, "biased_out"));
        result
    }

    /// Whether the owner is inside, for those who have executed `heavy` since they were last there. If
    /// not, they see what it did there, and when it comes next it sees what they did before `heavy`.
    #[cfg(feature = "alloc")]
    pub(crate) fn is_owner_inside(&self) -> bool {
        self.inside.load(order!(Acquire, "biased_skip"))
    }

    /// Lets others in before the owner.
    #[cold]
    fn wait(&self, platform: &impl Platform) {
        loop {
            // Release: the other may find us out here, and what we did before is for it to see.
            self.inside.store(false, order!(Release, "biased_wait"));
            // Relaxed: the look below decides, and finds the end of this visit or of a later one.
            platform.wait_while(|| self.requested.load(Relaxed));
            self.inside.store(true, Relaxed);
            light(platform.is_symmetric());
            if !self.requested.load(order!(Acquire, "biased_again")) {
                return;
            }
        }
    }

    /// Frees the lock in the child of a fork, where threads that had it are not there. If another thread
    /// has announced a visit or was inside, the value is in no known state: it is leaked, and `new` is the
    /// value from now on.
    ///
    /// # Safety
    /// The calling thread is the only one, and is not inside.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(crate) unsafe fn forked(&self, new: T) {
        if self.inside.load(Relaxed) || self.requested.load(Relaxed) {
            // SAFETY: nobody else is there. The old value is not dropped, and not read.
            self.value.with(|value| unsafe { value.write(new) });
            self.inside.store(false, Relaxed);
            self.requested.store(false, Relaxed);
        }
    }

    /// Uses the value without the lock.
    ///
    /// # Safety
    /// Nobody else uses it.
    pub(crate) unsafe fn unguarded<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller says so.
        self.value.with(|value| with(unsafe { &mut *value }))
    }

    /// Uses the value as any thread that is not inside.
    #[cfg(all(test, loom))]
    pub(crate) fn lock_remote<R>(
        &self,
        platform: &impl Platform,
        with: impl FnOnce(&mut T) -> R,
    ) -> R {
        self.request(platform);
        platform.heavy();
        // SAFETY: that is what we have just done.
        unsafe { self.lock_requested(platform, with) }
    }

    /// The first half of a visit, so that one fence serves visits of many locks: announce them all,
    /// execute `heavy` once, and then visit each. Owners wait from here to the end of their visit. Two
    /// threads that both announce several have to agree on an order.
    pub(crate) fn request(&self, platform: &impl Platform) {
        // Relaxed: `heavy`, which comes next, is a full fence of ours: it acquires what the visitor
        // before has done, and an owner that sees this waits, and takes nothing from it.
        platform.wait_while(|| {
            self.requested.compare_exchange(false, true, Relaxed, Relaxed).is_err()
                && !is_mutant!("biased_crowd")
        });
    }

    /// The second half of a visit.
    ///
    /// # Safety
    /// The caller has announced it, and has executed `heavy` after that.
    pub(crate) unsafe fn lock_requested<R>(
        &self,
        platform: &impl Platform,
        with: impl FnOnce(&mut T) -> R,
    ) -> R {
        platform.wait_while(|| self.inside.load(order!(Acquire, "biased_visit")));
        // SAFETY: as in `lock_owner`; other visitors wait for `requested`.
        let result = self.value.with(|value| with(unsafe { &mut *value }));
        self.requested.store(false, order!(Release, "biased_left"));
        result
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use std::sync::Arc;

    use crate::model::{Model, check, interrupt, thread};

    /// Another cell: loom takes a use of the lock's own as one that is over when it begins.
    fn add(count: &mut Cell<u32>) {
        interrupt();
        // SAFETY: loom panics if anybody else is there.
        count.with(|count| unsafe { *count += 1 });
    }

    #[test]
    fn owner_and_visitor_exclude_each_other() {
        check(3, || {
            let lock = Arc::new(Biased::new(Cell::new(0)));
            let visitor = thread::spawn({
                let lock = lock.clone();
                move || lock.lock_remote(&Model, add)
            });
            for _ in 0..2 {
                // SAFETY: this thread is the owner.
                unsafe { lock.lock_owner(&Model, add) };
            }
            visitor.join().unwrap();
            // SAFETY: as in `add`.
            lock.lock_remote(&Model, |count| count.with(|count| assert_eq!(unsafe { *count }, 3)));
        });
    }

    #[test]
    fn visitors_exclude_each_other() {
        check(3, || {
            let lock = Arc::new(Biased::new(Cell::new(0)));
            let visitor = thread::spawn({
                let lock = lock.clone();
                move || lock.lock_remote(&Model, add)
            });
            lock.lock_remote(&Model, add);
            visitor.join().unwrap();
        });
    }

    #[test]
    fn an_owner_that_has_waited_sees_the_last_of_the_visits() {
        check(3, || {
            let lock = Arc::new(Biased::new(0));
            let visitor = thread::spawn({
                let lock = lock.clone();
                move || (0..2).for_each(|_| lock.lock_remote(&Model, |count| *count += 1))
            });
            // SAFETY: this thread is the owner.
            unsafe { lock.lock_owner(&Model, |count| *count += 1) };
            visitor.join().unwrap();
            assert_eq!(lock.lock_remote(&Model, |count| *count), 3);
        });
    }
}
