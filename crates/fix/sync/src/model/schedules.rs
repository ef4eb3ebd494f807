//! The platform of the shuttle models, which run many threads in random schedules.
//!
//! All threads see each store immediately, as if every access were sequentially consistent. So a heavy fence
//! has nothing to order and does nothing. If a heavy fence waited for other threads, as in the loom models,
//! some schedules would not be tried. The two kinds of platform differ only in `is_symmetric`.

use std::cell::Cell;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::{Config, Runner};

use crate::platform::Platform;

pub use shuttle::thread;

std::thread_local! {
    // shuttle runs all threads of a model on one OS thread.
    static SYMMETRIC: Cell<bool> = const { Cell::new(true) };
}

/// The platform that the threads of a model run on.
#[derive(Debug, Default)]
pub struct Model;

// SAFETY: all threads see all accesses in one order.
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

/// The number of schedules of each kind, unless `KNEE_SCHEDULES` sets another number.
const SCHEDULES: usize = 2000;

/// The seed of the schedules, unless `KNEE_SEED` sets another seed.
const SEED: u64 = 1;

/// The bug depth for which the priority-based scheduler searches: it lowers a thread's priority at
/// `DEPTH - 1` points. Most bugs have a depth of at most two. Source: S. Burckhardt and others, "A Randomized
/// Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010.
const DEPTH: usize = 3;

/// Tries schedules of `threads` on both platforms: random schedules, and schedules by random priorities.
pub fn check(threads: impl Fn() + Sync + Send + Clone + 'static) {
    let schedules = number_in("KNEE_SCHEDULES").map_or(SCHEDULES, |number| number as usize);
    let seed = number_in("KNEE_SEED").unwrap_or(SEED);
    eprintln!("KNEE_SEED={seed} KNEE_SCHEDULES={schedules}");
    for symmetric in [true, false] {
        SYMMETRIC.set(symmetric);
        run(RandomScheduler::new_from_seed(seed, schedules), threads.clone());
        run(PctScheduler::new_from_seed(seed, DEPTH, schedules), threads.clone());
    }
}

/// The number in an environment variable, if it is set.
fn number_in(name: &str) -> Option<u64> {
    let number = std::env::var(name).ok()?;
    Some(number.parse().unwrap_or_else(|_| panic!("{name} must be a number: {number}")))
}

fn run(scheduler: impl Scheduler + 'static, threads: impl Fn() + Sync + Send + 'static) {
    let mut config = Config::new();
    // shuttle warns that it treats every ordering as sequentially consistent (see the module).
    config.silence_warnings = true;
    Runner::new(scheduler, config).run(threads);
}
