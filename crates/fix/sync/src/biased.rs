//! A lock that is biased toward one owner: the owner needs two plain stores for each use.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::platform::{Platform, light};
use crate::primitive::{AtomicBool, Guarded, constant};

/// A value that one thread uses often and other threads use rarely.
///
/// The lock is Dekker's algorithm with an asymmetric fence. The owner sets `inside`, and then checks whether
/// another thread has requested the lock. A remote thread sets `requested`, and then checks whether the owner
/// is inside. With a fence between the two steps on each side, at least one of the threads sees the other's
/// store. The owner's fence costs nothing; the remote thread's fence costs an interrupt.
///
/// ```text
/// owner                            remote thread
///   inside = true                    requested = true
///   light                            heavy
///   requested?  no: it has the lock  inside?  no: it has the lock
///               yes: waits                    yes: waits
/// ```
#[derive(Debug)]
pub(crate) struct Biased<T> {
    /// Set while the owner uses the value or tries to take the lock.
    inside: AtomicBool,
    /// Whether a remote thread has the lock, or waits for the owner to leave.
    requested: AtomicBool,
    value: Guarded<T>,
}

// SAFETY: only the thread that has the lock uses the value.
unsafe impl<T: Send> Sync for Biased<T> {}

impl<T> Biased<T> {
    constant! {
        pub(crate) fn new(value: T) -> Biased<T> {
            Biased {
                inside: AtomicBool::new(false),
                requested: AtomicBool::new(false),
                value: Guarded::new(value),
            }
        }
    }

    /// Uses the value as the owner.
    ///
    /// # Safety
    /// At most one thread at a time is the owner, and each owner sees what the previous owner did. `with`
    /// does not use this lock.
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
        // SAFETY: the fences order this thread's store of `inside` before its load of `requested`, and a
        // remote thread's store of `requested` before its load of `inside`. If this thread's load came first,
        // the remote thread sees `inside` and waits. If the remote thread's store came first, this thread has
        // seen that store and has waited in `wait`.
        let result = self.value.with(|value| with(unsafe { &mut *value }));
        self.inside.store(false, order!(Release, "biased_out"));
        result
    }

    /// Whether the owner uses the value or tries to take the lock. The calling thread must have executed
    /// `heavy` since it last had the lock. If the result is false, the calling thread sees what the owner did
    /// when it last used the value. When the owner uses the value again, the owner sees what the calling
    /// thread did before `heavy`.
    #[cfg(feature = "alloc")]
    pub(crate) fn is_owner_inside(&self) -> bool {
        self.inside.load(order!(Acquire, "biased_skip"))
    }

    /// Lets remote threads go first: keeps `inside` clear until none of them requests the lock. Returns with
    /// `inside` set.
    #[cold]
    fn wait(&self, platform: &impl Platform) {
        loop {
            // Release: a remote thread may take the lock now, and must see what the owner has done.
            self.inside.store(false, order!(Release, "biased_wait"));
            // Relaxed: the Acquire load below decides whether to return. If that load finds no request, it
            // synchronizes with the store that ended the request for which this thread waited, or with the
            // store that ended a later request.
            platform.wait_while(|| self.requested.load(Relaxed));
            self.inside.store(true, Relaxed);
            light(platform.is_symmetric());
            if !self.requested.load(order!(Acquire, "biased_again")) {
                return;
            }
        }
    }

    /// Releases the lock in the child of a fork, which has only one thread. If another thread had the lock or
    /// had requested it, the value may be in any state, so it is leaked and replaced by `new`.
    ///
    /// # Safety
    /// The calling thread is the only one, and does not have the lock.
    #[cfg(all(unix, feature = "std", not(any(loom, miri))))]
    pub(crate) unsafe fn forked(&self, new: T) {
        if self.inside.load(Relaxed) || self.requested.load(Relaxed) {
            // SAFETY: the caller is the only thread. The old value is neither dropped nor read.
            self.value.with(|value| unsafe { value.write(new) });
            self.inside.store(false, Relaxed);
            self.requested.store(false, Relaxed);
        }
    }

    /// Uses the value without the lock.
    ///
    /// # Safety
    /// No other thread uses the value during the call.
    pub(crate) unsafe fn unguarded<R>(&self, with: impl FnOnce(&mut T) -> R) -> R {
        // SAFETY: the caller guarantees that no other thread uses the value.
        self.value.with(|value| with(unsafe { &mut *value }))
    }

    /// Uses the value as a thread other than the owner.
    #[cfg(all(test, loom))]
    pub(crate) fn lock_remote<R>(
        &self,
        platform: &impl Platform,
        with: impl FnOnce(&mut T) -> R,
    ) -> R {
        self.request(platform);
        platform.heavy();
        // SAFETY: the lock was requested above, and the heavy fence came after that.
        unsafe { self.lock_requested(platform, with) }
    }

    /// Requests the lock without waiting for its owner, so that one fence serves many locks. The caller
    /// requests all the locks, executes `heavy` once, and then takes each lock. From the request until the
    /// release, the owner cannot take the lock. Threads that request several locks must all request them in
    /// the same order.
    pub(crate) fn request(&self, platform: &impl Platform) {
        // Relaxed: the caller executes `heavy` next. After this full fence, the caller sees what the last
        // holder did. The exchange publishes nothing: an owner that sees the request reads nothing and waits.
        platform.wait_while(|| {
            self.requested.compare_exchange(false, true, Relaxed, Relaxed).is_err()
                && !is_mutant!("biased_crowd")
        });
    }

    /// Waits for the owner to leave, uses the value, and releases the lock.
    ///
    /// # Safety
    /// The caller has requested the lock, and has executed `heavy` after that.
    pub(crate) unsafe fn lock_requested<R>(
        &self,
        platform: &impl Platform,
        with: impl FnOnce(&mut T) -> R,
    ) -> R {
        platform.wait_while(|| self.inside.load(order!(Acquire, "biased_visit")));
        // SAFETY: as in `lock_owner`; `requested` excludes other remote threads.
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

    /// Uses a nested cell, because loom treats a use of the lock's own cell as if it ended as soon as it
    /// started.
    fn add(count: &mut Guarded<u32>) {
        interrupt();
        // SAFETY: loom panics on a concurrent access.
        count.with(|count| unsafe { *count += 1 });
    }

    #[test]
    fn the_owner_and_a_remote_thread_exclude_each_other() {
        check(3, || {
            let lock = Arc::new(Biased::new(Guarded::new(0)));
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
    fn remote_threads_exclude_each_other() {
        check(3, || {
            let lock = Arc::new(Biased::new(Guarded::new(0)));
            let visitor = thread::spawn({
                let lock = lock.clone();
                move || lock.lock_remote(&Model, add)
            });
            lock.lock_remote(&Model, add);
            visitor.join().unwrap();
        });
    }

    #[test]
    fn an_owner_that_has_waited_acquires_the_last_remote_use() {
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
