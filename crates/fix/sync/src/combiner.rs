//! Combines the barriers of threads that need a barrier at the same time.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::mutant::{is_mutant, order};
use crate::platform::Platform;
use crate::primitive::{AtomicBool, AtomicU64, constant, fence};

/// Numbered barriers, each executed by one of the threads that need it.
///
/// The kernel executes barriers one after the other, so if two threads each request a barrier, the second
/// thread waits for both barriers. With a combiner, one barrier serves every thread that called
/// [`Combiner::barrier`] before the barrier began. If barrier `n` was the last to begin before a call, the
/// caller waits for barrier `n + 1`, which another thread may execute.
///
/// ```text
/// thread A  call ──── execute barrier 1 ────┐ return
/// thread B       call ── waits for 2 ───────── execute barrier 2 ──┐ return
/// thread C             call ── waits for 2 ────────────────────────┘ return
/// ```
#[derive(Debug)]
pub(crate) struct Combiner {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Whether a thread is executing a barrier.
    busy: AtomicBool,
}

impl Combiner {
    constant! {
        pub(crate) fn new() -> Combiner {
            Combiner {
                begun: AtomicU64::new(0),
                ended: AtomicU64::new(0),
                busy: AtomicBool::new(false),
            }
        }
    }

    /// Returns when some thread has finished an `execute` that began after the call. `execute` must make
    /// each thread execute a full fence.
    pub(crate) fn barrier(&self, platform: &impl Platform, execute: impl Fn()) {
        // This fence orders the caller's stores before any barrier that another thread executes for the
        // caller. The other thread increments `begun` and then executes the barrier. If the load of `begun`
        // below misses the increment, this fence came before the barrier. So both the increment and the
        // load may be Relaxed.
        if !is_mutant!("combiner_no_fence") {
            fence(SeqCst);
        }
        // Barrier `begun` may have begun before the call, so the caller needs the next barrier.
        let wanted = self.begun.load(Relaxed) + u64::from(!is_mutant!("joins_late"));
        let mut round = 0;
        // Acquire: the caller's next accesses come after the barrier that was executed for it.
        while self.ended.load(order!(Acquire, "combiner_over")) < wanted {
            let take = order!(Acquire, "combiner_take");
            if self.busy.compare_exchange(false, true, take, Relaxed).is_err() {
                platform.relax(round);
                round = round.saturating_add(1);
                continue;
            }
            // Another thread may have executed barrier `wanted` in the meantime.
            if self.ended.load(Relaxed) < wanted {
                let number = self.begun.fetch_add(1, Relaxed) + 1;
                execute();
                self.ended.store(number, order!(Release, "combiner_end"));
            }
            self.busy.store(false, order!(Release, "combiner_give"));
        }
    }

    /// Unlocks the combiner in the child of a fork, where the thread that was executing a barrier may be
    /// missing.
    #[cfg(all(unix, not(any(loom, miri))))]
    pub(crate) fn forked(&self) {
        self.busy.store(false, Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    use std::sync::atomic::AtomicUsize;
    use std::thread;

    use crate::system::System;

    const CALLERS: usize = 4;

    /// Starts the callers while a first barrier runs, and returns the number of executed barriers: 2 if the
    /// callers share one barrier.
    fn barriers_of_a_crowd() -> usize {
        let (combiner, executed, arrived) =
            (Combiner::new(), AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            combiner.barrier(&System::symmetric(), || {
                executed.fetch_add(1, Relaxed);
                for _ in 0..CALLERS {
                    scope.spawn(|| {
                        arrived.fetch_add(1, Relaxed);
                        combiner.barrier(&System::symmetric(), || {
                            executed.fetch_add(1, Relaxed);
                        });
                    });
                }
                while arrived.load(Relaxed) < CALLERS {
                    thread::yield_now();
                }
            });
        });
        executed.into_inner()
    }

    #[test]
    fn callers_that_wait_together_share_a_barrier() {
        // A caller may pause between its arrival and its call, and then come too late to share a barrier.
        let mut rounds = (0..1000).map(|_| barriers_of_a_crowd());
        let is_shared = rounds.any(|executed| {
            assert!((2..=1 + CALLERS).contains(&executed), "{executed} barriers");
            executed == 2
        });
        assert!(is_shared, "the {CALLERS} callers never shared one barrier");
    }
}

/// A model of threads that each store a value and then need a barrier. loom runs it with two threads,
/// shuttle with five.
#[cfg(all(test, any(loom, shuttle)))]
mod callers {
    use super::*;

    use std::sync::Arc;

    use crate::model::{Model, thread};
    use crate::primitive::Guarded;

    struct Place<const CALLERS: usize> {
        combiner: Combiner,
        written: [AtomicU64; CALLERS],
        /// An element is 1 if a barrier has seen 1 in the same element of `written`.
        seen: [AtomicU64; CALLERS],
        /// The number of executed barriers. The cell detects two barriers that run at the same time.
        executed: Guarded<usize>,
    }

    // SAFETY: the model detects concurrent accesses to the cell.
    unsafe impl<const CALLERS: usize> Sync for Place<CALLERS> {}
    // SAFETY: as for `Sync`.
    unsafe impl<const CALLERS: usize> Send for Place<CALLERS> {}

    impl<const CALLERS: usize> Place<CALLERS> {
        fn execute(&self) {
            // SAFETY: the model panics on a concurrent access.
            self.executed.with(|executed| unsafe { *executed += 1 });
            fence(SeqCst);
            for (written, seen) in self.written.iter().zip(&self.seen) {
                if written.load(Relaxed) == 1 {
                    seen.store(1, Relaxed);
                }
            }
        }

        fn call(&self, caller: usize) {
            self.written[caller].store(1, Relaxed);
            self.combiner.barrier(&Model, || self.execute());
            assert_eq!(self.seen[caller].load(Relaxed), 1, "no barrier began after the call");
        }
    }

    pub(super) fn call<const CALLERS: usize>() {
        let place = Arc::new(Place {
            combiner: Combiner::new(),
            written: std::array::from_fn::<_, CALLERS, _>(|_| AtomicU64::new(0)),
            seen: std::array::from_fn(|_| AtomicU64::new(0)),
            executed: Guarded::new(0),
        });
        let others = (1..CALLERS).map(|caller| {
            let place = Arc::clone(&place);
            thread::spawn(move || place.call(caller))
        });
        let others: Vec<_> = others.collect();
        place.call(0);
        others.into_iter().for_each(|other| other.join().unwrap());
        // SAFETY: the other threads have ended.
        assert!(place.executed.with(|executed| unsafe { *executed }) <= CALLERS);
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use crate::model::check_symmetric;

    #[test]
    fn a_barrier_has_seen_the_earlier_store_when_the_call_returns() {
        check_symmetric(3, super::callers::call::<2>);
    }
}

#[cfg(all(test, shuttle))]
mod scheduled {
    use crate::model::check;

    #[test]
    fn a_barrier_has_seen_the_earlier_store_when_the_call_returns() {
        check(super::callers::call::<5>);
    }
}
