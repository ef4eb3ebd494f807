//! One barrier for all who want one at the moment.

use core::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use crate::mutant::{is_mutant, order};
use crate::platform::Platform;
use crate::primitive::{AtomicBool, AtomicU64, constant, fence};

/// Who wants a barrier, and who executes it.
///
/// The kernel executes barriers one after the other, so two threads that each ask for one wait twice
/// as long. A barrier serves everybody who came before it began. They are numbered: who comes while
/// number `n` was the last to begin needs number `n + 1`, whoever executes it.
#[derive(Debug)]
pub(crate) struct Combiner {
    begun: AtomicU64,
    ended: AtomicU64,
    /// Somebody executes one.
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

    /// Returns when `execute`, which has each thread execute a full fence, has begun and ended since the
    /// call, by whichever thread.
    pub(crate) fn barrier(&self, platform: &impl Platform, execute: impl Fn()) {
        // What this thread wrote comes before a barrier that another executes for it: that one has
        // counted its barrier, and fences after that. If our look misses the count, our fence came
        // first. So neither the count nor the look needs an order of its own.
        if !is_mutant!("combiner_no_fence") {
            fence(SeqCst);
        }
        // The last one that has begun may have begun before.
        let wanted = self.begun.load(Relaxed) + u64::from(!is_mutant!("joins_late"));
        let mut round = 0;
        // Acquire: what comes after our barrier comes after the one that was executed for us.
        while self.ended.load(order!(Acquire, "combiner_over")) < wanted {
            let take = order!(Acquire, "combiner_take");
            if self.busy.compare_exchange(false, true, take, Relaxed).is_err() {
                platform.relax(round);
                round = round.saturating_add(1);
                continue;
            }
            // The last one before may have been enough.
            if self.ended.load(Relaxed) < wanted {
                let number = self.begun.fetch_add(1, Relaxed) + 1;
                execute();
                self.ended.store(number, order!(Release, "combiner_end"));
            }
            self.busy.store(false, order!(Release, "combiner_give"));
        }
    }

    /// In the child of a fork: who executed a barrier is not there any more.
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

    /// How many barriers are executed if callers arrive while another barrier runs: one more if they share it.
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
        // A caller may pause between its arrival and its call, and then come too late to share.
        let mut rounds = (0..1000).map(|_| barriers_of_a_crowd());
        let is_shared = rounds.any(|executed| {
            assert!((2..=1 + CALLERS).contains(&executed), "{executed} barriers");
            executed == 2
        });
        assert!(is_shared, "no round of {CALLERS} callers shared one barrier");
    }
}

/// Threads that each write and want a barrier, in every order of two and in schedules of five.
#[cfg(all(test, any(loom, shuttle)))]
mod callers {
    use super::*;

    use std::sync::Arc;

    use crate::model::{Model, thread};
    use crate::primitive::Guarded;

    struct Place<const CALLERS: usize> {
        combiner: Combiner,
        written: [AtomicU64; CALLERS],
        /// What a barrier has seen of that.
        seen: [AtomicU64; CALLERS],
        /// Barriers that were executed. Two at once are one too many.
        executed: Guarded<usize>,
    }

    // SAFETY: the model sees who uses the cell when.
    unsafe impl<const CALLERS: usize> Sync for Place<CALLERS> {}
    // SAFETY: as above.
    unsafe impl<const CALLERS: usize> Send for Place<CALLERS> {}

    impl<const CALLERS: usize> Place<CALLERS> {
        fn execute(&self) {
            // SAFETY: the model panics if anybody else is there.
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
            assert_eq!(self.seen[caller].load(Relaxed), 1, "a barrier that had begun before");
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
        // SAFETY: as above.
        assert!(place.executed.with(|executed| unsafe { *executed }) <= CALLERS);
    }
}

#[cfg(all(test, loom))]
mod modelled {
    use crate::model::check_symmetric;

    #[test]
    fn who_returns_was_seen_by_a_barrier() {
        check_symmetric(3, super::callers::call::<2>);
    }
}

#[cfg(all(test, shuttle))]
mod scheduled {
    use crate::model::check;

    #[test]
    fn who_returns_was_seen_by_a_barrier() {
        check(super::callers::call::<5>);
    }
}
