//! A reference count that is spread over threads until its owner kills it.

use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::platform::Platform;
use crate::primitive::{AtomicU64, fence};
#[cfg(feature = "std")]
use crate::system::System;
use crate::table::Table;

// The values of `mode`.
/// Each thread counts in a counter of its own.
const LIVE: u64 = 0;
/// The owner is folding the threads' counters into the common count, which threads use from now on.
const DYING: u64 = 1;
/// All counters have been folded.
const DEAD: u64 = 2;

/// The lowest bit of a thread's counter. The thread sets this bit before it loads the mode, and clears the
/// bit when it stores the new count. The other bits are the number of references that the thread has taken
/// minus the number that it has put.
const INSIDE: u64 = 1;
const ONE: u64 = 2;

/// A number that is larger than any number of references. This number is part of the common count until the
/// threads' counters are folded, so that the common count cannot reach zero before that.
const BIAS: u64 = 1 << 62;

/// A reference count whose users write to cache lines of their own, until its owner kills it.
///
/// The count begins with one reference, which is the owner's. While the count is live, no thread knows the
/// number of references: [`get`](PerCpuRef::get) and [`put`](PerCpuRef::put) are plain additions to the
/// calling thread's counter. When the owner [kills](PerCpuRef::kill) the count, the threads' counters are
/// folded into a common count, and the owner's reference is put. From then on, all threads use the common
/// count with atomic instructions, and the `put` of the last reference returns true.
///
/// Use a `PerCpuRef` for an object that many threads use and that one owner shuts down: a service that drains
/// its requests before it stops, a device, a mounted file system, one version of a configuration. Do not use
/// it for objects that live until their last reference is dropped, because nothing notices the last `put`
/// while the count is live; use [`refcache`](super::refcache) for them. Do not use it for thousands of small
/// objects: each count needs 384 bytes, plus 128 bytes for each thread that runs at the same time. The first
/// use allocates a chunk of 1 KiB for 8 threads. As more threads use the count, it gets a chunk for 16 more
/// threads, then a chunk for 32 more, and so on. Linux's count needs only 8 bytes for each CPU, because a
/// CPU's counters of different objects share cache lines.
///
/// References are not bound to threads: one thread may put a reference that another thread took. A thread's
/// counter remains when the thread exits.
///
/// # How it works
/// ```text
/// user                             owner
///   counter |= INSIDE                mode = DYING
///   light                            heavy
///   live?  yes: store the count      wait until no counter is INSIDE
///          no:  the common count     add the counters to the common count
/// ```
///
/// A user marks its counter, executes [`light`](Platform::light) and loads the mode. If the mode is live, the
/// user stores the new count, which also clears the mark. The owner stores the mode, executes
/// [`heavy`](Platform::heavy) once, and waits until no counter is marked. If the user's load came too early
/// to see the owner's store, the owner sees the mark, waits, and folds the new count. Otherwise the user sees
/// the owner's store, and uses the common count.
///
/// Signal handlers must not use the count: if a handler interrupts its thread between the mark and the store,
/// the handler's change is lost.
///
/// ```
/// use knee_sync::refs::PerCpuRef;
///
/// let users = PerCpuRef::default();
/// assert!(users.tryget_live());
/// assert!(!users.kill(), "there is a user");
/// assert!(!users.tryget_live(), "no new users");
/// assert!(users.put(), "it was the last reference");
/// ```
///
/// Source: Linux, lib/percpu-refcount.c (Tejun Heo and Kent Overstreet, 2013), with an asymmetric fence
/// instead of RCU.
pub struct PerCpuRef<
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    mode: AtomicU64,
    platform: P,
    counters: Table<AtomicU64>,
    /// The common count, which includes [`BIAS`] until the threads' counters are folded.
    common: Padded<AtomicU64>,
    /// The sum of the counters at the last kill, which the next kill subtracts. A kill cannot reset the
    /// counters instead, because a thread that has loaded its counter may still store the loaded value back.
    folded: AtomicU64,
}

impl<P: Platform> PerCpuRef<P> {
    /// A live count with one reference, the caller's.
    pub fn new(platform: P) -> PerCpuRef<P> {
        PerCpuRef {
            mode: AtomicU64::new(LIVE),
            platform,
            counters: Table::new(),
            common: Padded(AtomicU64::new(BIAS + 1)),
            folded: AtomicU64::new(0),
        }
    }

    /// Adds to the calling thread's counter. Returns false, and adds nothing, if the count is not live.
    #[inline]
    fn count(&self, thread: usize, change: u64) -> bool {
        let counter = self.counters.get(thread);
        let word = counter.load(Relaxed);
        counter.store(word | INSIDE, Relaxed);
        // `kill` stores the mode, executes `heavy` and then loads the counter. If the load in `kill` misses
        // this store, the load below sees the new mode. If the load below misses the new mode, `kill` sees
        // the mark and waits for the store at the end of this function.
        self.platform.light();
        // Acquire: if a user finds the count live after `reinit`, the user sees everything that came before
        // `reinit`.
        let live = self.mode.load(order!(Acquire, "percpu_mode")) == LIVE;
        // Relaxed, even for a put: the thread used its reference before the `light` above. `kill` adds up the
        // counters after this `light`, and until then, no put can be the last.
        let counted = if live { word.wrapping_add(change) } else { word };
        counter.store(counted, Relaxed);
        live
    }

    /// Like [`get`](PerCpuRef::get), for the thread with this number.
    ///
    /// # Safety
    /// No other thread uses the number at the same time, and each user of the number sees everything that its
    /// previous user did. The number belongs to the thread, or to a CPU that the thread cannot leave during
    /// the call.
    #[inline]
    pub unsafe fn get_as(&self, thread: usize) {
        if !self.count(thread, ONE) {
            // Relaxed, as in `Arc`: the caller already has a reference, so the count is not zero.
            self.common.fetch_add(1, Relaxed);
        }
    }

    /// Like [`tryget_live`](PerCpuRef::tryget_live), for the thread with this number.
    ///
    /// # Safety
    /// The contract of [`get_as`](PerCpuRef::get_as).
    #[inline]
    pub unsafe fn tryget_live_as(&self, thread: usize) -> bool {
        self.count(thread, ONE)
    }

    /// Like [`put`](PerCpuRef::put), for the thread with this number.
    ///
    /// # Safety
    /// The contract of [`get_as`](PerCpuRef::get_as).
    #[inline]
    #[must_use = "if it was the last reference, the counted object must be released"]
    pub unsafe fn put_as(&self, thread: usize) -> bool {
        !self.count(thread, ONE.wrapping_neg()) && self.put_common()
    }

    #[cold]
    fn put_common(&self) -> bool {
        // As in `Arc`, each `put` is a Release. Only the last `put` executes an Acquire fence, and then sees
        // what all other users did with the object.
        let last = self.common.fetch_sub(1, order!(Release, "percpu_put")) == 1;
        if last && !is_mutant!("percpu_last") {
            fence(Acquire);
        }
        last
    }

    /// Kills the count: it accepts no new users from now on, and the owner's reference is put. Returns true
    /// if that was the last reference; then the caller must release the counted object. If other references
    /// remain, exactly one later [`put`](PerCpuRef::put) returns true.
    ///
    /// When `kill` returns, every thread sees that the count is dead, so
    /// [`tryget_live`](PerCpuRef::tryget_live) fails in every thread. (At this point Linux calls a
    /// *confirmation* callback.) If another thread has already killed the count, the call waits for that kill
    /// to take effect and returns false. A kill costs one heavy fence.
    #[must_use = "if it was the last reference, the counted object must be released"]
    pub fn kill(&self) -> bool {
        // Acquire, with the Release in `begin_again`: this thread sees the sum that the last kill stored.
        // Release: see `is_dead`.
        let order = order!(AcqRel, "percpu_kill");
        if self.mode.compare_exchange(LIVE, DYING, order, Relaxed).is_err() {
            // Relaxed: once a thread has learned that this call has returned, it cannot load an older mode
            // any more.
            self.platform.wait_while(|| self.mode.load(Relaxed) == DYING);
            return false;
        }
        // This fence pairs with `light` in `count`. If the loop below misses a counter, because the counter
        // is allocated later, the thread that uses this counter sees the new mode.
        if !is_mutant!("percpu_no_fence") {
            self.platform.heavy();
        }
        let mut sum = 0u64;
        for counter in self.counters.iter() {
            let mut word = 0;
            self.platform.wait_while(|| {
                // Acquire: on a symmetric platform, the fence in `heavy` came before this load, so only the
                // Acquire makes the load synchronize with the fence in the thread's `light`. On an asymmetric
                // platform, `heavy` interrupts the thread; the interrupt makes visible what the thread did
                // with its references until then, and the thread's later changes go to the common count.
                word = counter.load(order!(Acquire, "percpu_add_up"));
                word & INSIDE != 0 && !is_mutant!("percpu_no_mark")
            });
            sum = sum.wrapping_add(word);
        }
        let before = if is_mutant!("percpu_adds_twice") { 0 } else { self.folded.load(Relaxed) };
        self.folded.store(sum, Relaxed);
        let references = (sum.wrapping_sub(before) as i64 / ONE as i64) as u64;
        // Relaxed: the owner's reference still exists, so the count does not reach zero here. `put_common`
        // below puts that reference, with a Release that also covers what this thread acquired from the
        // counters.
        self.common.fetch_add(references.wrapping_sub(BIAS), Relaxed);
        // Relaxed: `heavy` was a full fence, and `is_dead` promises only that its caller sees what came
        // before the kill.
        self.mode.store(DEAD, Relaxed);
        self.put_common()
    }

    /// Whether the count was killed. A result of false may be out of date. If the result is true, the caller
    /// sees everything that the owner did before the kill.
    pub fn is_dead(&self) -> bool {
        self.mode.load(order!(Acquire, "percpu_is_dead")) != LIVE
    }

    /// Whether no references are left. Once the result is true, it stays true until
    /// [`reinit`](PerCpuRef::reinit).
    pub fn is_zero(&self) -> bool {
        self.common.load(order!(Acquire, "percpu_is_zero")) == 0
    }

    /// Makes the count live again, with one reference, the caller's.
    ///
    /// # Panics
    /// If there are references, or the count was not killed.
    pub fn reinit(&self) {
        assert!(self.begin_again(), "the count is live or still referenced");
    }

    fn begin_again(&self) -> bool {
        // The common count includes `BIAS` until the counters are folded, so zero means dead. Acquire: the
        // caller sees everything that former users did, even if the caller has not called `is_zero`.
        let acquire = order!(Acquire, "percpu_reinit");
        let begun = self.common.compare_exchange(0, BIAS + 1, acquire, Relaxed).is_ok();
        if begun {
            self.mode.store(LIVE, order!(Release, "percpu_begin"));
        }
        begun
    }
}

#[cfg(all(feature = "std", not(loom)))]
impl PerCpuRef {
    /// Takes another reference. The caller must already have a reference.
    #[inline]
    pub fn get(&self) {
        // SAFETY: `with_number` passes a number that no other running thread has.
        crate::number::with_number(|thread| unsafe { self.get_as(thread) });
    }

    /// Takes a reference if the count is live. The caller needs no reference, but must know that the
    /// `PerCpuRef` itself still exists.
    #[inline]
    #[must_use = "the call takes no reference if the count is dead"]
    pub fn tryget_live(&self) -> bool {
        // SAFETY: `with_number` passes a number that no other running thread has.
        crate::number::with_number(|thread| unsafe { self.tryget_live_as(thread) })
    }

    /// Drops a reference. Returns true if this was the last reference; then the caller must release the
    /// counted object. Never returns true before the count has been [killed](PerCpuRef::kill).
    #[inline]
    #[must_use = "if it was the last reference, the counted object must be released"]
    pub fn put(&self) -> bool {
        // SAFETY: `with_number` passes a number that no other running thread has.
        crate::number::with_number(|thread| unsafe { self.put_as(thread) })
    }
}

#[cfg(feature = "std")]
impl Default for PerCpuRef {
    fn default() -> PerCpuRef {
        PerCpuRef::new(System::detect())
    }
}

impl<P: Platform> fmt::Debug for PerCpuRef<P> {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_struct("PerCpuRef").field("dead", &self.is_dead()).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::thread;

    const ROUNDS: usize = if cfg!(miri) { 3 } else { 100 };

    #[test]
    fn kill_drops_the_last_reference_if_there_are_no_users() {
        let count = PerCpuRef::default();
        count.get();
        assert!(!count.put(), "a put on a live count is never the last");
        assert!(!count.is_zero());
        assert!(count.kill());
        assert!(count.is_zero() && count.is_dead());
        assert!(!count.kill(), "it is dead already");
    }

    #[test]
    fn a_thread_may_put_references_that_another_thread_got() {
        let count = PerCpuRef::default();
        (0..5).for_each(|_| count.get());
        // The thread's counter is negative, and stays in the table after the thread has exited.
        thread::scope(|scope| {
            scope.spawn(|| assert!((0..4).all(|_| !count.put())));
        });
        assert!(!count.kill());
        count.get();
        assert!(!count.put());
        assert!(count.put());
    }

    #[test]
    fn a_count_lives_again_with_one_reference() {
        let count = PerCpuRef::default();
        for got in 0..4 {
            assert!((0..got).all(|_| count.tryget_live()));
            assert!(!count.is_dead());
            assert_eq!(count.kill(), got == 0);
            assert!(!count.tryget_live());
            assert!((1..=got).all(|put| count.put() == (put == got)));
            count.reinit();
        }
    }

    #[test]
    #[should_panic(expected = "still referenced")]
    fn a_count_with_references_does_not_begin_again() {
        let count = PerCpuRef::default();
        assert!(count.tryget_live());
        assert!(!count.kill());
        count.reinit();
    }

    #[test]
    fn an_object_is_released_once_after_its_last_put() {
        const THREADS: usize = 4;
        let count = PerCpuRef::default();
        for _ in 0..ROUNDS {
            let (true_count, released) = (AtomicI64::new(1), AtomicUsize::new(0));
            let put = |is_last: bool| {
                if is_last {
                    assert_eq!(true_count.load(SeqCst), 0);
                    released.fetch_add(1, SeqCst);
                }
            };
            thread::scope(|scope| {
                let (give, take) = channel();
                for thread in 0..THREADS {
                    let (give, count, true_count, put) = (give.clone(), &count, &true_count, &put);
                    scope.spawn(move || {
                        for turn in 0.. {
                            assert!(true_count.load(SeqCst) >= 0);
                            if !count.tryget_live() {
                                return;
                            }
                            true_count.fetch_add(1, SeqCst);
                            assert!(!count.is_zero());
                            if (turn + thread) % 3 == 0 {
                                // A reference that another thread puts.
                                count.get();
                                true_count.fetch_add(1, SeqCst);
                                give.send(()).unwrap();
                            }
                            true_count.fetch_sub(1, SeqCst);
                            put(count.put());
                        }
                    });
                }
                drop(give);
                scope.spawn({
                    let (count, true_count, put) = (&count, &true_count, &put);
                    move || {
                        for () in take {
                            true_count.fetch_sub(1, SeqCst);
                            put(count.put());
                        }
                    }
                });
                thread::yield_now();
                true_count.fetch_sub(1, SeqCst);
                put(count.kill());
            });
            assert_eq!(released.load(SeqCst), 1);
            count.reinit();
        }
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use super::*;

    use std::sync::Arc;

    use crate::model::{Model, check, check_symmetric, interrupt, thread};
    use crate::primitive::Guarded;

    struct Shared {
        count: PerCpuRef<Model>,
        /// The counted object. loom reports unordered accesses.
        object: Guarded<bool>,
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            Arc::new(Shared { count: PerCpuRef::new(Model), object: Guarded::new(true) })
        }

        fn use_it(&self) {
            interrupt();
            // SAFETY: loom panics on a concurrent write.
            assert!(self.object.with(|alive| unsafe { *alive }), "used after its release");
        }

        fn release_if(&self, is_last: bool) {
            if is_last {
                // SAFETY: loom panics on a concurrent access.
                let was = self.object.with(|alive| unsafe { alive.replace(false) });
                assert!(was, "released twice");
            }
        }

        fn is_released(&self) -> bool {
            // SAFETY: loom panics on a concurrent access.
            !self.object.with(|alive| unsafe { *alive })
        }
    }

    #[test]
    fn a_new_user_comes_before_the_kill_or_is_refused() {
        check(3, || {
            let shared = Shared::new();
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: only this thread uses the number.
                move || unsafe {
                    if shared.count.tryget_live_as(1) {
                        shared.use_it();
                        shared.release_if(shared.count.put_as(1));
                    }
                }
            });
            shared.release_if(shared.count.kill());
            user.join().unwrap();
            assert!(shared.is_released());
        });
    }

    #[test]
    fn a_reference_is_put_while_the_count_is_killed() {
        check(3, || {
            let shared = Shared::new();
            // SAFETY: only this thread uses the number.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: only this thread uses the number, and the main thread has taken the reference.
                move || unsafe {
                    shared.count.get_as(1);
                    shared.release_if(shared.count.put_as(1));
                    shared.release_if(shared.count.put_as(1));
                }
            });
            shared.release_if(shared.count.kill());
            user.join().unwrap();
            assert!(shared.is_released());
        });
    }

    /// The querying thread executes no fence: loom's fence would acquire even stores that the thread has not
    /// read, and so would hide a missing Acquire.
    #[test]
    fn a_caller_of_is_zero_sees_what_users_did_before_the_fold() {
        check_symmetric(2, || {
            let shared = Shared::new();
            // SAFETY: only this thread uses the number.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    shared.use_it();
                    // SAFETY: only this thread uses the number, and the main thread has taken the reference.
                    let _ = unsafe { shared.count.put_as(1) };
                }
            });
            let asks = thread::spawn({
                let shared = Arc::clone(&shared);
                move || shared.release_if(shared.count.is_zero())
            });
            let _ = shared.count.kill();
            user.join().unwrap();
            asks.join().unwrap();
        });
    }

    #[test]
    fn a_caller_of_is_zero_sees_what_users_did() {
        check(3, || {
            let shared = Shared::new();
            // SAFETY: only this thread uses the number.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: only this thread uses the number, and the main thread has taken the reference.
                move || unsafe {
                    shared.use_it();
                    let _ = shared.count.put_as(1);
                }
            });
            let _ = shared.count.kill();
            if shared.count.is_zero() {
                shared.release_if(true);
            }
            user.join().unwrap();
        });
    }

    #[test]
    fn a_user_after_reinit_sees_what_came_before_reinit() {
        check(3, || {
            let shared = Shared::new();
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: only this thread uses the number.
                move || unsafe {
                    for _ in 0..2 {
                        if shared.count.tryget_live_as(1) {
                            shared.use_it();
                            let _ = shared.count.put_as(1);
                        }
                    }
                }
            });
            if shared.count.kill() {
                shared.release_if(true);
                // SAFETY: no reference is left, and loom panics on a concurrent access.
                shared.object.with(|alive| unsafe { *alive = true });
                shared.count.reinit();
            }
            user.join().unwrap();
        });
    }

    #[test]
    fn a_caller_of_reinit_sees_what_former_users_did() {
        check(3, || {
            let shared = Shared::new();
            // SAFETY: only this thread uses the number.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: only this thread uses the number, and the main thread has taken the reference.
                move || unsafe {
                    shared.use_it();
                    let _ = shared.count.put_as(1);
                }
            });
            let _ = shared.count.kill();
            shared.release_if(shared.count.begin_again());
            user.join().unwrap();
        });
    }

    #[test]
    fn a_caller_of_is_dead_sees_what_came_before_the_kill() {
        check(3, || {
            let shared = Shared::new();
            let other = thread::spawn({
                let shared = Arc::clone(&shared);
                move || shared.release_if(shared.count.is_dead())
            });
            shared.use_it();
            let _ = shared.count.kill();
            other.join().unwrap();
        });
    }
}
