//! What a load measured.

use std::fmt;

use knee_stats::Quantiles;
use serde::{Deserialize, Serialize};

/// Longest latency that a histogram distinguishes, in nanoseconds: an hour.
const LONGEST: u64 = 3_600_000_000_000;
/// Workers that are busy for a larger share of the time may limit the rate.
const FULL: f64 = 0.95;
/// Significant digits of a histogram.
const DIGITS: u8 = 3;

/// Times in nanoseconds, each to three significant digits.
pub type Histogram = hdrhistogram::Histogram<u64>;

/// An empty histogram.
pub(crate) fn histogram() -> Histogram {
    Histogram::new_with_max(LONGEST, DIGITS).expect("the bounds are valid")
}

/// What happened in the measured time.
#[derive(Clone, PartialEq)]
pub struct Outcome {
    /// Measured time in seconds.
    pub seconds: f64,
    /// Correct replies that arrived in this time.
    pub replies: u64,
    /// Whether any reply was correct, also before or after this time.
    pub(crate) has_reply: bool,
    /// Requests that failed, also before this time, and requests in this time that got no reply.
    pub failures: Failures,
    /// Nanoseconds until the reply. With [`crate::Pace::Open`], of the requests that were due in the
    /// measured time, from the time at which they were due; those without a reply count with the time
    /// that they waited.
    pub latency: Histogram,
    /// Nanoseconds by which the generator itself sent requests late: after they were due, and after a
    /// connection was free for them.
    pub lateness: Histogram,
    /// CPU time of the workers in seconds.
    pub cpu: f64,
    /// Seconds that the workers waited for their CPUs, which other programs used. 0 if the kernel does not count
    /// them.
    pub waited: f64,
    /// Number of workers.
    pub workers: usize,
}

/// Requests without a correct reply.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Connections that could not be made or that broke.
    pub errors: u64,
    /// Wrong replies.
    pub wrong: u64,
    /// Requests without a reply at the end.
    pub unanswered: u64,
    /// The first failure in words.
    pub first: Option<String>,
}

impl Failures {
    /// Their number.
    pub fn count(&self) -> u64 {
        self.errors + self.wrong + self.unanswered
    }

    /// Keeps the first failure in words.
    pub(crate) fn note(&mut self, what: impl Into<String>) {
        self.first.get_or_insert_with(|| what.into());
    }
}

impl fmt::Debug for Outcome {
    /// Without the thousands of counters of the histograms.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outcome")
            .field("seconds", &self.seconds)
            .field("replies", &self.replies)
            .field("failures", &self.failures)
            .field("latency", &quantiles(&self.latency))
            .field("lateness", &quantiles(&self.lateness))
            .finish_non_exhaustive()
    }
}

impl Default for Outcome {
    fn default() -> Self {
        Self {
            seconds: 0.0,
            replies: 0,
            has_reply: false,
            failures: Failures::default(),
            latency: histogram(),
            lateness: histogram(),
            cpu: 0.0,
            waited: 0.0,
            workers: 0,
        }
    }
}

impl Outcome {
    /// Adds what another worker measured at the same time.
    pub(crate) fn add(&mut self, other: Self) {
        self.seconds = self.seconds.max(other.seconds);
        self.replies += other.replies;
        self.has_reply |= other.has_reply;
        self.failures.errors += other.failures.errors;
        self.failures.wrong += other.failures.wrong;
        self.failures.unanswered += other.failures.unanswered;
        self.failures.first = self.failures.first.take().or(other.failures.first);
        self.latency.add(other.latency).expect("all histograms have the same bounds");
        self.lateness.add(other.lateness).expect("all histograms have the same bounds");
        self.cpu += other.cpu;
        self.waited += other.waited;
        self.workers += other.workers;
    }

    /// Correct replies per second; 0 if nothing was measured.
    pub fn rate(&self) -> f64 {
        if self.seconds > 0.0 { self.replies as f64 / self.seconds } else { 0.0 }
    }

    /// The share of their CPUs' time that the workers used, 0 to 1.
    pub fn busy(&self) -> f64 {
        self.share(self.cpu)
    }

    /// Whether no request fell into the measured time, although none failed.
    pub fn is_idle(&self) -> bool {
        self.failures.count() == 0 && self.latency.is_empty()
    }

    /// Whether the workers, together with what other programs took of their CPUs, left so little time that they may limit
    /// the rate or add to the latency.
    pub fn is_full(&self) -> bool {
        self.busy() + self.waiting() >= FULL
    }

    /// The share of the time in which the workers waited for their CPUs, 0 to 1.
    pub fn waiting(&self) -> f64 {
        self.share(self.waited)
    }

    /// The share that `seconds` are of the time of the workers.
    fn share(&self, seconds: f64) -> f64 {
        let had = self.seconds * self.workers as f64;
        if had > 0.0 { (seconds / had).min(1.0) } else { 0.0 }
    }
}

/// The quantiles of `times`; `None` if there are none.
pub fn quantiles(times: &Histogram) -> Option<Quantiles> {
    let nanos = |quantile| times.value_at_quantile(quantile) as f64;
    (!times.is_empty()).then(|| Quantiles::of(nanos, times.max()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_add_up() {
        let one = |cpu: f64, replies: u64| {
            let mut outcome = Outcome {
                seconds: 2.0,
                replies,
                cpu,
                waited: cpu / 2.0,
                workers: 1,
                ..Outcome::default()
            };
            outcome.latency.record(replies * 1_000_000).unwrap();
            outcome
        };
        let mut all = one(1.0, 10);
        all.failures.wrong = 1;
        let mut other = one(0.5, 30);
        other.failures.note("refused");
        all.add(other);
        assert_eq!((all.rate(), all.busy(), all.workers), (20.0, 0.375, 2));
        assert_eq!(all.waiting(), 0.1875);
        assert!(!all.is_full());
        all.cpu = 3.1;
        assert!(all.is_full());
        assert_eq!((all.failures.count(), all.failures.first.as_deref()), (1, Some("refused")));
        let latency = quantiles(&all.latency).unwrap();
        assert!((latency.p50 - 0.01).abs() < 1e-5 && (latency.max - 0.03).abs() < 1e-4);
        assert_eq!(quantiles(&histogram()), None);
        assert_eq!(Outcome::default().rate(), 0.0);
    }
}
