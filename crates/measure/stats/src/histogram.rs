//! Times in a histogram, so that quantiles over many rounds are those of all times together.
//!
//! A bucket is as wide as 1/128 of its times or narrower, as in an HdrHistogram of two significant
//! digits: below 256 ns there is a bucket for each nanosecond, and above it 128 buckets for each power
//! of two. A quantile is interpolated within its bucket. Histograms of rounds, tasks and machines add
//! up, which their quantiles do not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Buckets of a power of two.
const PER_OCTAVE: u64 = 128;
/// The longest time that a histogram distinguishes, in nanoseconds: 73 minutes.
const LONGEST: u64 = (1 << 42) - 1;
/// The greatest number of times that a histogram in a file may contain; sums stay exact.
const MOST_TIMES: u64 = 1 << 53;

/// Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(into = "Counts", try_from = "Counts")]
pub struct Histogram {
    /// How many times are in each bucket, by the shortest time of the bucket.
    buckets: BTreeMap<u64, u64>,
    count: u64,
    longest: u64,
}

/// Times in nanoseconds, counted in buckets. The width of a bucket is 1 ns below 256 ns, and otherwise
/// the greatest power of two that is at most its shortest time, divided by 128.
#[derive(Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Histogram")]
struct Counts {
    /// The longest time, in nanoseconds.
    longest: u64,
    /// For each bucket with times, in order: its shortest time in nanoseconds, and how many times it
    /// contains.
    counts: Vec<[u64; 2]>,
}

/// Why numbers are not a histogram.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HistogramError {
    /// It has no time.
    #[error("a histogram contains no time")]
    Empty,
    /// A time is too long.
    #[error("a histogram contains {0} ns, which is more than {LONGEST} ns")]
    TooLong(u64),
    /// There are too many times.
    #[error("a histogram contains more than {MOST_TIMES} times")]
    TooMany,
}

impl Histogram {
    /// The number of buckets.
    pub const BUCKETS: usize = index(LONGEST) + 1;

    /// The bucket of a time, below [`Histogram::BUCKETS`]. Longer times than the longest one are in the
    /// last bucket.
    #[inline]
    pub fn bucket(nanos: u64) -> usize {
        index(if nanos < LONGEST { nanos } else { LONGEST })
    }

    /// The histogram with these counts of [buckets](Self::bucket), and this longest time.
    pub fn of_buckets(counts: impl IntoIterator<Item = (usize, u64)>, longest: u64) -> Self {
        let mut histogram = Self::default();
        for (bucket, count) in counts {
            histogram.record(shortest(bucket), count);
        }
        histogram.longest = histogram.longest.max(longest);
        histogram
    }

    /// Adds a time that occurred `count` times.
    pub fn record(&mut self, nanos: u64, count: u64) {
        if count > 0 {
            let bucket = self.buckets.entry(shortest(Self::bucket(nanos))).or_default();
            *bucket = bucket.saturating_add(count);
            self.count = self.count.saturating_add(count);
            self.longest = self.longest.max(nanos);
        }
    }

    /// Adds the times of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (&nanos, &count) in &other.buckets {
            self.record(nanos, count);
        }
        self.longest = self.longest.max(other.longest);
    }

    /// How many times it contains.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Whether it contains no time.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The longest time, in nanoseconds.
    pub fn longest(&self) -> u64 {
        self.longest
    }

    /// The time in nanoseconds that a share `quantile` (0 to 1) of the times does not exceed: the lower
    /// empirical quantile, type 1 of Hyndman and Fan ("Sample quantiles in statistical packages", The
    /// American Statistician 50, 1996), interpolated within its bucket. 0 without times.
    pub fn quantile(&self, quantile: f64) -> f64 {
        let rank = (quantile * self.count as f64).ceil().max(1.0);
        let mut below = 0.0;
        for (&nanos, &count) in &self.buckets {
            let share = (rank - below) / count as f64;
            if share <= 1.0 {
                let last = (width(nanos) - 1) as f64;
                return (nanos as f64 + share * last).min(self.longest as f64);
            }
            below += count as f64;
        }
        self.longest as f64
    }

    /// The usual quantiles; `None` without times.
    pub fn quantiles(&self) -> Option<Quantiles> {
        (!self.is_empty()).then(|| Quantiles::of(|quantile| self.quantile(quantile), self.longest))
    }
}

/// How far the numbers of a bucket are shifted.
const fn shift(nanos: u64) -> u32 {
    (u64::BITS - nanos.leading_zeros()).saturating_sub((2 * PER_OCTAVE).trailing_zeros())
}

const fn index(nanos: u64) -> usize {
    let shift = shift(nanos);
    (shift as u64 * PER_OCTAVE + (nanos >> shift)) as usize
}

/// The shortest time of a bucket.
fn shortest(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    match (bucket / PER_OCTAVE).checked_sub(1) {
        None | Some(0) => bucket,
        Some(shift) => (bucket % PER_OCTAVE + PER_OCTAVE) << shift,
    }
}

/// How many nanoseconds the bucket with this shortest time has.
fn width(shortest: u64) -> u64 {
    1 << shift(shortest)
}

impl From<Histogram> for Counts {
    fn from(histogram: Histogram) -> Self {
        let counts = histogram.buckets.into_iter().map(|(nanos, count)| [nanos, count]).collect();
        Self { longest: histogram.longest, counts }
    }
}

impl TryFrom<Counts> for Histogram {
    type Error = HistogramError;

    fn try_from(counts: Counts) -> Result<Self, HistogramError> {
        let mut histogram = Self::default();
        for [nanos, count] in counts.counts {
            if nanos > LONGEST {
                return Err(HistogramError::TooLong(nanos));
            }
            histogram.record(nanos, count);
        }
        match histogram.count {
            0 => Err(HistogramError::Empty),
            count if count > MOST_TIMES => Err(HistogramError::TooMany),
            _ => {
                histogram.longest = histogram.longest.max(counts.longest);
                Ok(histogram)
            }
        }
    }
}

/// The usual quantiles of times, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p99_9: f64,
    /// Longest time.
    pub max: f64,
}

impl Quantiles {
    /// Their names as printed, in the order of [`Quantiles::values`].
    pub const NAMES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

    /// The quantiles that `nanos` returns, and a longest time in nanoseconds.
    pub fn of(nanos: impl Fn(f64) -> f64, longest: u64) -> Self {
        let at = |quantile| nanos(quantile) / 1e9;
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p99_9: at(0.999),
            max: longest as f64 / 1e9,
        }
    }

    /// The quantiles in order.
    pub fn values(&self) -> [f64; 5] {
        [self.p50, self.p90, self.p99, self.p99_9, self.max]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(times: &[u64]) -> Histogram {
        let mut histogram = Histogram::default();
        times.iter().for_each(|&time| histogram.record(time, 1));
        histogram
    }

    /// Times of all magnitudes.
    fn times() -> impl Strategy<Value = Vec<u64>> {
        let time = (0u32..42, any::<u64>()).prop_map(|(bits, random)| random & ((1 << bits) - 1));
        prop::collection::vec(time, 1..300)
    }

    #[test]
    fn buckets_are_adjacent_and_at_most_1_in_128_wide() {
        let mut expected = 0;
        for bucket in 0..Histogram::BUCKETS {
            let nanos = shortest(bucket);
            assert_eq!((nanos, Histogram::bucket(nanos)), (expected, bucket));
            assert_eq!(Histogram::bucket(nanos + width(nanos) - 1), bucket);
            assert!(width(nanos) == 1 || width(nanos) <= nanos / PER_OCTAVE, "{nanos}");
            expected = nanos + width(nanos);
        }
        assert_eq!(expected, LONGEST + 1);
        assert_eq!(Histogram::bucket(u64::MAX), Histogram::BUCKETS - 1);
    }

    #[test]
    fn a_histogram_is_plain_json() {
        let histogram = of(&[5, 5, 1003]);
        let text = serde_json::to_string(&histogram).unwrap();
        assert_eq!(text, r#"{"longest":1003,"counts":[[5,2],[1000,1]]}"#);
    }

    #[test]
    fn an_invalid_histogram_is_refused() {
        for (text, reason) in [
            (r#"{"longest":1,"counts":[]}"#, "no time"),
            (r#"{"longest":1,"counts":[[1,0]]}"#, "no time"),
            (r#"{"longest":1,"counts":[[4398046511104,1]]}"#, "4398046511104 ns"),
            (r#"{"longest":1,"counts":[[1,9007199254740993]]}"#, "more than"),
            (r#"{"longest":1,"counts":[[1,18446744073709551615],[2,9]]}"#, "more than"),
            (r#"{"longest":1,"counts":[[-1,1]]}"#, "invalid value"),
            (r#"{"longest":1,"counts":[[1]]}"#, "invalid length"),
        ] {
            let error = serde_json::from_str::<Histogram>(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_histogram_reads_back_as_written(times in times()) {
            let histogram = of(&times);
            let text = serde_json::to_string(&histogram).unwrap();
            prop_assert_eq!(serde_json::from_str::<Histogram>(&text).unwrap(), histogram);
        }

        #[test]
        fn the_sum_of_histograms_is_that_of_their_times(one in times(), other in times()) {
            let mut sum = of(&one);
            sum.add(&of(&other));
            prop_assert_eq!(sum, of(&[one, other].concat()));
        }

        #[test]
        fn counts_by_bucket_make_the_same_histogram(times in times()) {
            let longest = times.iter().copied().max().unwrap();
            let counts = times.iter().map(|&time| (Histogram::bucket(time), 1));
            prop_assert_eq!(Histogram::of_buckets(counts, longest), of(&times));
        }

        #[test]
        fn a_quantile_is_exact_to_the_width_of_a_bucket(mut times in times(), q in 0.0..=1.0_f64) {
            let histogram = of(&times);
            times.sort_unstable();
            let rank = (q * times.len() as f64).ceil().max(1.0) as usize;
            let (exact, found) = (times[rank - 1] as f64, histogram.quantile(q));
            prop_assert!((found - exact).abs() <= exact / PER_OCTAVE as f64, "{found} for {exact}");
        }

        #[test]
        fn greater_quantiles_are_not_shorter(times in times(), a in 0.0..=1.0_f64, b in 0.0..=1.0_f64) {
            let histogram = of(&times);
            let (low, high) = if a < b { (a, b) } else { (b, a) };
            prop_assert!(histogram.quantile(low) <= histogram.quantile(high));
            prop_assert!(histogram.quantile(high) <= histogram.longest() as f64);
        }
    }
}
