//! How long single iterations of a task take, by reading the clock after each.
//!
//! The task reads the clock again after it has counted a time, so that counting is in no time. One
//! reading of the clock remains in each, and is subtracted: the median of many readings without an
//! iteration between them.

use std::sync::atomic::{AtomicU64, Ordering};

use knee_stats::Histogram;
use rustix::time::{ClockId, clock_gettime};

/// Readings that show the cost of the clock; odd, for the median.
const READINGS: usize = 1001;

/// The times of one task, in memory that the runner shares. Only the task writes to it, except that the
/// runner takes the longest time.
#[repr(C, align(4096))]
pub(crate) struct Timer {
    /// What a reading of the clock costs, in nanoseconds.
    cost: AtomicU64,
    /// When the last iteration ended, in nanoseconds.
    last: AtomicU64,
    /// The longest time since the runner last took it, in nanoseconds.
    longest: AtomicU64,
    counts: [AtomicU64; Histogram::BUCKETS],
}

impl Timer {
    /// Measures the cost of the clock on the CPU of the task.
    pub(crate) fn calibrate(&self) {
        let mut costs = [0; READINGS];
        self.restart();
        for cost in &mut costs {
            *cost = self.passed();
            self.restart();
        }
        costs.sort_unstable();
        self.cost.store(costs[READINGS / 2], Ordering::Relaxed);
    }

    /// Begins the first iteration.
    pub(crate) fn restart(&self) {
        self.last.store(now(), Ordering::Relaxed);
    }

    /// Nanoseconds since the last iteration ended.
    fn passed(&self) -> u64 {
        now().saturating_sub(self.last.load(Ordering::Relaxed))
    }

    /// Counts the time of `n` iterations that have just ended, at least one. Several get the mean of
    /// their times.
    // Inlinable, so that it is compiled with the testcase, at its optimisation level. Cold, so that the call does not
    // cost the loop registers.
    #[cold]
    #[inline]
    pub(crate) fn lap(&self, n: u64) {
        let time = self.passed().saturating_sub(self.cost.load(Ordering::Relaxed)) / n.max(1);
        // Plain loads and stores, because no other task writes here. The runner may miss the longest time
        // if it takes it in this moment.
        let count = &self.counts[Histogram::bucket(time)];
        count.store(count.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
        if time > self.longest.load(Ordering::Relaxed) {
            self.longest.store(time, Ordering::Relaxed);
        }
        self.restart();
    }

    /// Nanoseconds that a reading of the clock costs.
    pub(crate) fn cost(&self) -> u64 {
        self.cost.load(Ordering::Relaxed)
    }
}

/// CLOCK_MONOTONIC in nanoseconds, which needs no system call on common machines.
fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Reads the timers of all tasks from interval to interval.
pub(crate) struct TimerReader {
    /// For each task, the counts at the end of the last interval.
    seen: Vec<Vec<u64>>,
}

impl TimerReader {
    /// For this many tasks, whose timers have counted nothing yet.
    pub(crate) fn new(tasks: usize) -> Self {
        Self { seen: vec![vec![0; Histogram::BUCKETS]; tasks] }
    }

    /// The times of the interval that ends now.
    pub(crate) fn since_last<'t>(&mut self, timers: impl Iterator<Item = &'t Timer>) -> Histogram {
        let mut sums = vec![0; Histogram::BUCKETS];
        let mut longest = 0;
        for (timer, seen) in timers.zip(&mut self.seen) {
            for ((sum, seen), count) in sums.iter_mut().zip(seen).zip(&timer.counts) {
                let count = count.load(Ordering::Relaxed);
                *sum += count.wrapping_sub(*seen);
                *seen = count;
            }
            longest = longest.max(timer.longest.swap(0, Ordering::Relaxed));
        }
        // The longest time may be of an iteration that is not counted yet.
        let last = sums.iter().rposition(|&sum| sum > 0).unwrap_or(0);
        let longest = if Histogram::bucket(longest) == last { longest } else { 0 };
        Histogram::of_buckets(sums.into_iter().enumerate(), longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timer() -> Box<Timer> {
        let zero = AtomicU64::default;
        let counts = std::array::from_fn(|_| zero());
        Box::new(Timer { cost: zero(), last: zero(), longest: zero(), counts })
    }

    /// Lets an iteration take at least `nanos` nanoseconds.
    fn lap(timer: &Timer, nanos: u64) {
        timer.last.store(now() - nanos, Ordering::Relaxed);
        timer.lap(1);
    }

    #[test]
    fn each_time_is_in_the_interval_in_which_it_ended() {
        let timers = [timer(), timer()];
        let mut reader = TimerReader::new(2);
        let mut read = || reader.since_last(timers.iter().map(|timer| &**timer));
        assert!(read().is_empty());
        lap(&timers[0], 1_000_000);
        lap(&timers[1], 2_000_000);
        lap(&timers[1], 0);
        let first = read();
        assert_eq!(first.count(), 3);
        assert!(first.longest() >= 2_000_000, "{first:?}");
        assert!(first.quantile(0.6) >= 1_000_000.0, "{first:?}");
        assert!(read().is_empty());
        lap(&timers[0], 500);
        assert_eq!(read().count(), 1);
    }

    #[test]
    fn the_cost_of_the_clock_is_not_in_the_times() {
        let timer = timer();
        timer.calibrate();
        timer.cost.store(u64::MAX, Ordering::Relaxed);
        timer.lap(1);
        let times = TimerReader::new(1).since_last(std::iter::once(&*timer));
        assert_eq!((times.count(), times.longest()), (1, 0));
    }

    #[test]
    fn iterations_that_are_counted_together_share_their_time() {
        let timer = timer();
        timer.last.store(now() - 2_000_000_000_000, Ordering::Relaxed);
        timer.lap(2);
        let times = TimerReader::new(1).since_last(std::iter::once(&*timer));
        assert_eq!(times.count(), 2);
        assert!((1_000_000_000_000..1_900_000_000_000).contains(&times.longest()), "{times:?}");
    }
}
