//! All ways to reclaim, by name.

use std::thread;
use std::time::Duration;

use seize::Collector;

use crate::c::{BP, CK, MEMB, QSBR};
use crate::live;
use crate::reclaim::{
    Arcs, Crossbeam, Entry, Epoch, Haphazard, Hazard, InC, Nothing, Reclaim, Sdd, Seize,
};
use crate::stall::{self, Stall};
use side_by_side::Row;

/// Attempts to free everything, a tenth of a millisecond each.
const DRAINS: usize = 20_000;

/// A way to reclaim.
pub(crate) struct Way {
    pub(crate) row: Row,
    /// `None` if a stalled reader blocks the retiring thread.
    pub(crate) stall: Option<Box<dyn Fn() -> Stall>>,
    /// Retired objects that are not freed, summed over the ways that share a collector.
    pub(crate) garbage: fn() -> i64,
    /// See [`drain`].
    pub(crate) drain: Box<dyn Fn()>,
}

/// All ways, those of knee-sync first.
pub(crate) fn all() -> Vec<Way> {
    vec![
        way("nothing: allocate, exchange, free", Nothing::new()).without_stall(),
        way("**`epoch`, `retire`**", Epoch::new()).among_idle(),
        way("**`epoch`, `retire_entry`**", Entry::new()).among_idle(),
        way("**`hazard::AtomicBox::store`**", Hazard::new()).among_idle(),
        way("crossbeam-epoch, `defer_destroy`", Crossbeam::new()).among_idle(),
        way("seize, 32 in a batch", Seize::<5>::new(Collector::new())).among_idle(),
        way("seize, 1024 in a batch", Seize::<6>::new(Collector::new().batch_size(1024))),
        way("sdd, `AtomicOwned::swap`", Sdd::new()).among_idle(),
        way("haphazard, `retire`", Haphazard::new()).among_idle(),
        way("arc-swap, `store`", Arcs::new()).among_idle(),
        way("ck_epoch, a poll for each 64", InC::<10> { of: &CK, how: 64 }).among_idle(),
        way("ck_epoch, a poll for each 1024", InC::<10> { of: &CK, how: 1024 }),
        way("liburcu-memb, `defer_rcu`", InC::<11> { of: &MEMB, how: 1 }).without_stall(),
        way("liburcu-memb, `call_rcu`", InC::<11> { of: &MEMB, how: 0 }).with_background(),
        way("liburcu-qsbr, `defer_rcu`", InC::<12> { of: &QSBR, how: 1 }).without_stall(),
        way("liburcu-qsbr, `call_rcu`", InC::<12> { of: &QSBR, how: 0 }).with_background(),
        way("liburcu-bp, `defer_rcu`", InC::<13> { of: &BP, how: 1 }).without_stall(),
        way("liburcu-bp, `call_rcu`", InC::<13> { of: &BP, how: 0 }).with_background(),
    ]
}

fn way<R: Reclaim + 'static>(name: &'static str, reclaim: R) -> Way {
    let reclaim: &'static R = Box::leak(Box::new(reclaim));
    Way {
        row: Row::new(name, move |round| {
            let mut local = reclaim.join(round.thread);
            round.time_many(|times| reclaim.replace(&mut local, times));
        }),
        stall: Some(Box::new(move || stall::measure(name, reclaim))),
        garbage: garbage::<R>,
        drain: Box::new(move || drain(name, reclaim)),
    }
}

impl Way {
    fn among_idle(mut self) -> Way {
        self.row = self.row.among_idle();
        self
    }

    fn with_background(mut self) -> Way {
        self.row = self.row.with_background();
        self
    }

    fn without_stall(mut self) -> Way {
        self.stall = None;
        self
    }
}

/// Retired objects that are not freed.
pub(crate) fn garbage<R: Reclaim>() -> i64 {
    live::count(R::ID)
}

/// Frees all retired objects, while no other thread is active.
///
/// # Panics
/// If an object is never freed, or is freed twice.
pub(crate) fn drain<R: Reclaim>(name: &str, reclaim: &'static R) {
    for _ in 0..DRAINS {
        if garbage::<R>() == 0 {
            return;
        }
        reclaim.drain();
        thread::sleep(Duration::from_micros(100));
    }
    assert_eq!(garbage::<R>(), 0, "{name}: objects that are never freed");
}
