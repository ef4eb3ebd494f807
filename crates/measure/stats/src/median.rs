//! The median of a few rounds and its confidence interval.
//!
//! Rounds on a shared machine have a long tail: a neighbour slows down one of five. That shifts a
//! mean and its Student interval. It does not shift the median, whose interval from order
//! statistics holds for every continuous distribution. For a confidence between those of two pairs
//! of order statistics, the interval is interpolated by the method of Hettmansperger and Sheather
//! ("Confidence intervals based on interpolated order statistics", Statistics & Probability Letters
//! 4, 1986).

use statrs::distribution::{Binomial, DiscreteCDF};

/// Tolerance: the binomial distribution function is computed by the incomplete beta function.
const ROUNDING: f64 = 1e-9;
/// One over the precision to which a confidence is rounded.
const DIGITS: f64 = 1e9;

/// A median and its interval at a confidence.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MedianInterval {
    /// The middle value, or the mean of the two middle values.
    pub median: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
    /// The confidence reached, 0 to 1. Fewer than six values cannot reach 0.95: the interval is
    /// then the whole range, and this is its confidence (0.9375 for five values).
    pub confidence: f64,
    /// The number of values.
    pub n: usize,
}

impl MedianInterval {
    /// Half the width of the interval as a share of the median, shown as `±` in tables.
    pub fn relative_half_width(&self) -> f64 {
        if self.median == 0.0 { 0.0 } else { (self.high - self.low) / 2.0 / self.median.abs() }
    }
}

/// The median: for an even number of values, the mean of the two middle ones. `None` without
/// values. Panics on NaN.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let n = sorted.len();
    match n {
        0 => None,
        _ if n % 2 == 1 => Some(sorted[n / 2]),
        _ => Some((sorted[n / 2 - 1] + sorted[n / 2]) / 2.0),
    }
}

/// The median of `values` and its interval at `confidence` (0 to 1, exclusive). `None` without
/// values. Panics on NaN.
pub fn median_interval(values: &[f64], confidence: f64) -> Option<MedianInterval> {
    let median = median(values)?;
    let sorted = sorted(values);
    let n = sorted.len();
    // Coverage of [x(d), x(n+1-d)], counting from 1: the number of values below the true median
    // is binomial(n, ½), and the interval misses it if fewer than d values fall on one side.
    let coverage = |d: usize| {
        let binomial = Binomial::new(0.5, n as u64).expect("½ is a probability");
        1.0 - 2.0 * binomial.cdf(d as u64 - 1)
    };
    // It is a multiple of a power of two, which the distribution function misses in the last digits.
    let widest = (coverage(1) * DIGITS).round() / DIGITS;
    if widest <= confidence + ROUNDING {
        let (low, high) = (sorted[0], sorted[n - 1]);
        return Some(MedianInterval { median, low, high, confidence: widest.max(0.0), n });
    }
    let mut d = 1;
    while d < n / 2 && coverage(d + 1) + ROUNDING >= confidence {
        d += 1;
    }
    // The interval from x(d) covers enough, that from x(d+1) too little: interpolate.
    let (outer, inner) = (coverage(d), if d < n / 2 { coverage(d + 1) } else { 0.0 });
    let i = ((outer - confidence) / (outer - inner)).max(0.0);
    let depth = d as f64;
    let lambda = (n as f64 - depth) * i / (depth + (n as f64 - 2.0 * depth) * i);
    let inner_low = sorted[d.min(n - 1)];
    let inner_high = sorted[(n - 1).saturating_sub(d)];
    Some(MedianInterval {
        median,
        low: (1.0 - lambda) * sorted[d - 1] + lambda * inner_low,
        high: (1.0 - lambda) * sorted[n - d] + lambda * inner_high,
        confidence,
        n,
    })
}

/// The values in order. Panics on NaN.
pub(crate) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(|a, b| a.partial_cmp(b).expect("a rate is a number"));
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn five_values_give_their_range_and_its_confidence() {
        let m = median_interval(&[5.0, 1.0, 4.0, 2.0, 3.0], 0.95).unwrap();
        assert_eq!((m.low, m.median, m.high), (1.0, 3.0, 5.0));
        assert_eq!(m.confidence, 0.9375);
        assert_eq!(median_interval(&[5.0, 1.0, 4.0, 2.0], 0.95).unwrap().confidence, 0.875);
    }

    #[test]
    fn one_value_has_an_interval_of_no_confidence() {
        let m = median_interval(&[7.0], 0.95).unwrap();
        assert_eq!((m.low, m.high), (7.0, 7.0));
        assert_eq!(m.confidence, 0.0);
    }

    /// The example of Hettmansperger and Sheather's method in section 2.4 of their book with
    /// McKean: for n = 10, [x(2), x(9)] covers 97.85% and [x(3), x(8)] 89.06%.
    #[test]
    fn ten_values_are_interpolated_between_the_two_nearest_pairs() {
        let values: Vec<f64> = (1..=10).map(f64::from).collect();
        let m = median_interval(&values, 0.95).unwrap();
        assert!(2.0 < m.low && m.low < 3.0, "{m:?}");
        assert!(8.0 < m.high && m.high < 9.0, "{m:?}");
        let at_pair = median_interval(&values, 0.978_515_625).unwrap();
        assert!((at_pair.low - 2.0).abs() < 1e-6 && (at_pair.high - 9.0).abs() < 1e-6);
    }

    /// Skewed data is where intervals of the mean fail.
    #[test]
    fn the_interval_covers_the_true_median_of_a_skewed_distribution() {
        let mut random = oorandom::Rand64::new(1);
        for (n, least) in [(5, 0.915), (6, 0.93), (7, 0.93), (10, 0.93), (20, 0.93)] {
            let covered = (0..4000)
                .filter(|_| {
                    let sample: Vec<f64> =
                        (0..n).map(|_| -(1.0 - random.rand_float()).ln()).collect();
                    let m = median_interval(&sample, 0.95).unwrap();
                    (m.low..=m.high).contains(&std::f64::consts::LN_2)
                })
                .count();
            let share = covered as f64 / 4000.0;
            assert!((least..0.985).contains(&share), "n = {n}: {share}");
        }
    }

    proptest! {
        #[test]
        fn the_interval_holds_the_median(values in prop::collection::vec(-1e9..1e9, 1..40)) {
            let m = median_interval(&values, 0.95).unwrap();
            prop_assert!(m.low <= m.median && m.median <= m.high, "{m:?}");
        }
    }
}
