//! A platform for shuttle, which tries schedules of many threads.
//!
//! Every access is one that all threads see at once, as if all were sequentially consistent. So a heavy
//! fence has nothing to order, and is none: one that waited for others, as loom's does, would allow for
//! fewer schedules. What is left of the platform is what the algorithms make of `is_symmetric`.

use std::cell::Cell;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

use crate::platform::Platform;

pub(crate) use shuttle::thread;

std::thread_local! {
    // shuttle has one thread, which switches between those of the model.
    static SYMMETRIC: Cell<bool> = const { Cell::new(true) };
}

/// The threads of a model.
#[derive(Debug, Default)]
pub(crate) struct Model;

// SAFETY: accesses are in one order for all threads.
unsafe impl Platform for Model {
    fn is_symmetric(&self) -> bool {
        SYMMETRIC.get()
    }

    fn heavy(&self) {}

    fn relax(&self, _: u32) {
        thread::yield_now();
    }

    fn now(&self) -> u64 {
        0
    }

    fn thread(&self) -> u64 {
        0
    }
}

/// Schedules of each kind, unless `KNEE_SCHEDULES` says how many.
const SCHEDULES: usize = 500;

/// The seed of the first, unless `KNEE_SEED` says which.
const SEED: u64 = 1;

/// Places where the scheduler that has priorities lets another thread go first: Burckhardt and others, "A
/// Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010. Most errors need two.
const DEPTH: usize = 3;

/// Tries schedules of `threads`, random ones and those by random priorities, on both platforms.
pub(crate) fn check(threads: impl Fn() + Sync + Send + Clone + 'static) {
    let schedules = said("KNEE_SCHEDULES").map_or(SCHEDULES, |number| number as usize);
    let seed = said("KNEE_SEED").unwrap_or(SEED);
    eprintln!("KNEE_SEED={seed} KNEE_SCHEDULES={schedules}");
    for symmetric in [true, false] {
        SYMMETRIC.set(symmetric);
        run(RandomScheduler::new_from_seed(seed, schedules), threads.clone());
        run(PctScheduler::new_from_seed(seed, DEPTH, schedules), threads.clone());
    }
}

/// A number in the environment.
fn said(name: &str) -> Option<u64> {
    let number = std::env::var(name).ok()?;
    Some(number.parse().unwrap_or_else(|_| panic!("{name} is no number: {number}")))
}

fn run(scheduler: impl Scheduler + 'static, threads: impl Fn() + Sync + Send + 'static) {
    let mut config = Config::new();
    // All orders are taken as the strongest: that is said above.
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(threads);
}
