//! A count of references that is spread over threads until somebody ends it.

use core::fmt;
use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};

use crate::mutant::{is_mutant, order};
use crate::padded::Padded;
use crate::platform::Platform;
use crate::primitive::{AtomicU64, fence};
#[cfg(feature = "std")]
use crate::system::System;
use crate::table::Table;

// What `mode` is.
/// Threads count on their own.
const LIVE: u64 = 0;
/// Somebody adds up what threads have counted; from now on all count together.
const DYING: u64 = 1;
/// All have been added up.
const DEAD: u64 = 2;

/// A thread's counter: twice the references that it has taken minus those that it has put, and this
/// while the thread is between its look at the mode and its store of the count.
const INSIDE: u64 = 1;
const ONE: u64 = 2;

/// More references than there can be. The common count has so many until the threads' counts are
/// added to it, lest it come to zero before.
const BIAS: u64 = 1 << 62;

/// A count of references whose users write to lines of their own, and that somebody ends.
///
/// It begins with one reference, the owner's. As long as it lives it is nobody's business how many
/// there are: to [`get`](PerCpuRef::get) and to [`put`](PerCpuRef::put) is a plain addition to the
/// calling thread's counter. The owner [kills](PerCpuRef::kill) it: the threads' counters are added
/// up, the owner's reference is put, and from then on all count together with atomic instructions,
/// until one of them is told that its reference was the last.
///
/// Use it for what is used by all and ended once: a service that drains its requests before it stops,
/// a device, a mounted file system, a generation of a configuration. Do not use it for what ends when
/// the last user goes, as nobody notices that while it lives ([`refcache`](super::refcache) does);
/// nor for thousands of small objects: it needs 384 bytes, and 1 KiB as soon as a thread has
/// used it, for 8 threads; then 128 bytes for each thread that is there at the same time (in chunks of
/// 16, 32, 64). Linux's has 8 bytes for each CPU: there a CPU's counters lie side by side.
///
/// References are not bound to threads: one that a thread got may be put by another. What a thread
/// has counted stays when it ends.
///
/// # How it works
/// A thread marks its counter, executes [`light`](Platform::light) and looks at the mode; if that is
/// live it stores the new count, which also takes the mark away. Who kills stores the mode, executes
/// [`heavy`](Platform::heavy) once, and then waits for each counter to have no mark. Either the
/// thread's look came too early to see the mode: then its mark is seen, and waited for, and its count
/// is added up. Or it comes later: then it sees the mode, and counts with the others.
///
/// Not for signal handlers: one that interrupts its thread between mark and store is not counted.
///
/// ```
/// use knee_sync::refs::PerCpuRef;
///
/// let users = PerCpuRef::default();
/// assert!(users.tryget_live());
/// assert!(!users.kill(), "there is a user");
/// assert!(!users.tryget_live(), "no new ones");
/// assert!(users.put(), "it was the last");
/// ```
///
/// Source: Linux, lib/percpu-refcount.c (Tejun Heo and Kent Overstreet, 2013); the fence instead of
/// RCU is ours.
pub struct PerCpuRef<
    #[cfg(feature = "std")] P: Platform = System,
    #[cfg(not(feature = "std"))] P: Platform,
> {
    mode: AtomicU64,
    platform: P,
    counters: Table<AtomicU64>,
    /// The common count, biased while it lives.
    common: Padded<AtomicU64>,
    /// The sum of the counters when it was killed the last time. They are not reset, as their owners
    /// may be about to store what they had.
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

    /// Adds to the calling thread's counter. Whether it did: only while it lives.
    #[inline]
    fn count(&self, thread: usize, change: u64) -> bool {
        let counter = self.counters.get(thread);
        let word = counter.load(Relaxed);
        counter.store(word | INSIDE, Relaxed);
        // Who kills has stored the mode, executes `heavy` and then loads the counter. If that load
        // comes before our store, our load below sees the mode; if our load does not see the mode,
        // that load sees the mark and waits for the store at the end.
        self.platform.light();
        // Acquire: after a new beginning, what came before it.
        let live = self.mode.load(order!(Acquire, "percpu_mode")) == LIVE;
        // Relaxed: what the thread did with its reference came before `light`, and that before who
        // kills adds this up, and so before whoever puts the last one.
        let counted = if live { word.wrapping_add(change) } else { word };
        counter.store(counted, Relaxed);
        live
    }

    /// As [`get`](PerCpuRef::get), as the thread of this number.
    ///
    /// # Safety
    /// No other thread uses the number meanwhile, and who used it before is seen to have done so: it
    /// is the number of a CPU and the thread cannot leave it, or the number of a thread.
    #[inline]
    pub unsafe fn get_as(&self, thread: usize) {
        if !self.count(thread, ONE) {
            // Relaxed: the caller has a reference, so nobody waits for this one.
            self.common.fetch_add(1, Relaxed);
        }
    }

    /// As [`tryget_live`](PerCpuRef::tryget_live), as the thread of this number.
    ///
    /// # Safety
    /// As with [`get_as`](PerCpuRef::get_as).
    #[inline]
    pub unsafe fn tryget_live_as(&self, thread: usize) -> bool {
        self.count(thread, ONE)
    }

    /// As [`put`](PerCpuRef::put), as the thread of this number.
    ///
    /// # Safety
    /// As with [`get_as`](PerCpuRef::get_as).
    #[inline]
    #[must_use = "whoever put the last reference has to release what it counts"]
    pub unsafe fn put_as(&self, thread: usize) -> bool {
        !self.count(thread, ONE.wrapping_neg()) && self.put_common()
    }

    #[cold]
    fn put_common(&self) -> bool {
        // As `Arc` does: Release for whoever puts the last one, who acquires what all others did.
        let last = self.common.fetch_sub(1, order!(Release, "percpu_put")) == 1;
        if last && !is_mutant!("percpu_last") {
            fence(Acquire);
        }
        last
    }

    /// Ends it: there are no new users from now on, and the owner's reference is put. Returns whether
    /// that was the last one, so that the caller has to release what it counts; otherwise one of the
    /// later [`put`](PerCpuRef::put)s says so. Exactly one of all these calls does.
    ///
    /// When it returns, every thread sees that it is dead (Linux calls a function at that time, the
    /// *confirmation*): [`tryget_live`](PerCpuRef::tryget_live) fails everywhere. If it was killed
    /// already, it waits for that and returns false. It costs one heavy fence.
    #[must_use = "whoever put the last reference has to release what it counts"]
    pub fn kill(&self) -> bool {
        // Acquire, with the new beginning: who killed it the last time has stored what it had added up.
        // Release: see `is_dead`.
        let order = order!(AcqRel, "percpu_kill");
        if self.mode.compare_exchange(LIVE, DYING, order, Relaxed).is_err() {
            // Relaxed: nobody who hears of this can find an older mode any more.
            self.platform.wait_while(|| self.mode.load(Relaxed) == DYING);
            return false;
        }
        // See `count`. A thread whose counter is made after our look through the table is one that
        // comes later, too.
        if !is_mutant!("percpu_no_fence") {
            self.platform.heavy();
        }
        let mut sum = 0u64;
        for counter in self.counters.iter() {
            let mut word = 0;
            self.platform.wait_while(|| {
                // Acquire, with the thread's `light`: the language wants it where both sides execute a
                // fence, as ours came before this load. Where the other thread is interrupted instead,
                // all that it did with its references before that is what `heavy` makes seen, and what
                // it does after that is counted in common.
                word = counter.load(order!(Acquire, "percpu_add_up"));
                word & INSIDE != 0 && !is_mutant!("percpu_no_mark")
            });
            sum = sum.wrapping_add(word);
        }
        let before = if is_mutant!("percpu_adds_twice") { 0 } else { self.folded.load(Relaxed) };
        self.folded.store(sum, Relaxed);
        let references = (sum.wrapping_sub(before) as i64 / ONE as i64) as u64;
        // Relaxed: the owner's reference is still there, so the count does not come to zero here, and
        // its put hands on what we acquired from the counters.
        self.common.fetch_add(references.wrapping_sub(BIAS), Relaxed);
        // Relaxed: `heavy` was a full fence, and what came before it is what `is_dead` promises.
        self.mode.store(DEAD, Relaxed);
        self.put_common()
    }

    /// Whether it was killed. The answer "no" may be out of date; with "yes" the caller sees what the
    /// one who killed it did before.
    pub fn is_dead(&self) -> bool {
        self.mode.load(order!(Acquire, "percpu_is_dead")) != LIVE
    }

    /// Whether all references are gone. Once it is true it stays so until
    /// [`reinit`](PerCpuRef::reinit).
    pub fn is_zero(&self) -> bool {
        self.common.load(order!(Acquire, "percpu_is_zero")) == 0
    }

    /// Lets it live again, with one reference, the caller's.
    ///
    /// # Panics
    /// If there are references, or it was not killed.
    pub fn reinit(&self) {
        assert!(self.begin_again(), "it is still referenced");
    }

    fn begin_again(&self) -> bool {
        // While it lives or is added up the common count is biased, so zero means dead. Acquire: what
        // all former users did, also for who has not asked whether there are any.
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
    /// Takes another reference. The caller has one already.
    #[inline]
    pub fn get(&self) {
        // SAFETY: the number is the thread's.
        crate::number::with_number(|thread| unsafe { self.get_as(thread) });
    }

    /// Takes a reference if it lives. The caller needs none, but has to know that the `PerCpuRef`
    /// itself is there.
    #[inline]
    #[must_use = "there may be no reference"]
    pub fn tryget_live(&self) -> bool {
        // SAFETY: the number is the thread's.
        crate::number::with_number(|thread| unsafe { self.tryget_live_as(thread) })
    }

    /// Gives a reference back. Returns whether it was the last, so that the caller has to release what
    /// it counts: never before it was [killed](PerCpuRef::kill).
    #[inline]
    #[must_use = "whoever put the last reference has to release what it counts"]
    pub fn put(&self) -> bool {
        // SAFETY: the number is the thread's.
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
        assert!(!count.put(), "nobody puts the last one of a live count");
        assert!(!count.is_zero());
        assert!(count.kill());
        assert!(count.is_zero() && count.is_dead());
        assert!(!count.kill(), "it is dead already");
    }

    #[test]
    fn references_are_put_by_other_threads_than_got_them() {
        let count = PerCpuRef::default();
        (0..5).for_each(|_| count.get());
        // The thread's counter is negative, and stays when it has ended.
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
    fn it_is_released_once_and_when_no_reference_is_left() {
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
                                // Another one, which another thread puts.
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
    use crate::primitive::Cell;

    struct Shared {
        count: PerCpuRef<Model>,
        /// What it counts. loom complains of an access that is not ordered with another.
        object: Cell<bool>,
    }

    impl Shared {
        fn new() -> Arc<Shared> {
            Arc::new(Shared { count: PerCpuRef::new(Model), object: Cell::new(true) })
        }

        fn use_it(&self) {
            interrupt();
            // SAFETY: loom panics if anybody writes there.
            assert!(self.object.with(|alive| unsafe { *alive }), "used after its release");
        }

        fn release_if(&self, is_last: bool) {
            if is_last {
                // SAFETY: loom panics if anybody else is there.
                let was = self.object.with(|alive| unsafe { alive.replace(false) });
                assert!(was, "released twice");
            }
        }

        fn is_released(&self) -> bool {
            // SAFETY: as above.
            !self.object.with(|alive| unsafe { *alive })
        }
    }

    #[test]
    fn a_new_user_comes_before_the_kill_or_is_refused() {
        check(3, || {
            let shared = Shared::new();
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: the number is this thread's.
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
            // SAFETY: the number is this thread's.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: as above, and the reference is one that the other thread got.
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

    /// The one who asks executes no fence: in loom one acquires from stores that others have read, too.
    #[test]
    fn is_zero_acquires_what_a_folded_user_did() {
        check_symmetric(2, || {
            let shared = Shared::new();
            // SAFETY: the number is this thread's.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                move || {
                    shared.use_it();
                    // SAFETY: the number is this thread's, the reference one that the other thread got.
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
    fn is_zero_acquires_what_its_users_did() {
        check(3, || {
            let shared = Shared::new();
            // SAFETY: the number is this thread's.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: as above, and the reference is one that the other thread got.
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
    fn a_user_of_the_next_life_sees_its_beginning() {
        check(3, || {
            let shared = Shared::new();
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: the number is this thread's.
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
                // SAFETY: nobody has a reference; loom sees to it.
                shared.object.with(|alive| unsafe { *alive = true });
                shared.count.reinit();
            }
            user.join().unwrap();
        });
    }

    #[test]
    fn reinit_sees_what_former_users_did() {
        check(3, || {
            let shared = Shared::new();
            // SAFETY: the number is this thread's.
            unsafe { shared.count.get_as(0) };
            let user = thread::spawn({
                let shared = Arc::clone(&shared);
                // SAFETY: as above, and the reference is one that the other thread got.
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
    fn is_dead_acquires_the_kill() {
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
