//! The bootstrap of a median, exactly, and the interval of a ratio of two medians from it.
//!
//! A bootstrap resamples the rounds with replacement, takes the median of each resample, and reads
//! an interval off the sorted results. A median needs no resampling: the middle values of every
//! resample are rounds again, and the probability that a given round is the middle one is
//! binomial (Efron, "Bootstrap methods: another look at the jackknife", Annals of
//! Statistics 7, 1979, section 3). The result is therefore that of infinitely many resamples. It
//! needs no seed, is the same on every machine, and takes microseconds.
//!
//! # Which interval
//!
//! The percentile interval. In simulations (`examples/coverage.rs` prints the whole table) of two
//! sides of n rounds each, the 95% interval contains the true ratio in this share of cases:
//!
//! | rounds a side | 2 | 3 | 4 | 5 | 6 | 7 | 10 | 20 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | normal | 0.667 | 0.900 | 0.931 | 0.967 | 0.961 | 0.958 | 0.964 | 0.966 |
//! | lognormal, σ = 0.3 | 0.668 | 0.902 | 0.930 | 0.969 | 0.961 | 0.958 | 0.965 | 0.966 |
//! | shifted exponential | 0.668 | 0.900 | 0.932 | 0.968 | 0.961 | 0.959 | 0.963 | 0.965 |
//! | Student, 1.5 degrees | 0.665 | 0.900 | 0.928 | 0.968 | 0.965 | 0.960 | 0.966 | 0.965 |
//! | one in five hit | 0.668 | 0.902 | 0.929 | 0.969 | 0.963 | 0.959 | 0.967 | 0.967 |
//!
//! With five or more rounds a side, the interval reaches its nominal coverage. With fewer, it is
//! the whole range of possible ratios and is still too short. In a smaller simulation (1,500
//! pairs), the bias-corrected interval reaches 0.95 to 0.97 at five rounds and 0.94 to 0.97 at
//! seven, slightly below this one. Its acceleration (BCa) would come from a jackknife, which is
//! inconsistent for a median. Hesterberg's expanded percentiles reach 0.99 and are 40% wider at
//! five rounds.

use std::ops::Range;

use crate::binomial::{at_least, ln_choose};
use crate::median::{median, sorted};

/// Less probable outcomes are left out, so that hundreds of rounds stay cheap.
const NEGLIGIBLE: f64 = 1e-15;
/// Standard deviations from the middle at which a probability is negligible.
const DEVIATIONS: f64 = 9.0;
/// Tolerance for the rounding errors of cumulative probabilities.
const ROUNDING: f64 = 1e-10;
/// Bisection ends when the remaining interval is too narrow for two different ratios of measured
/// rates.
const CLOSE: f64 = 1e-13;

/// The possible medians of a resample and their probabilities.
#[derive(Debug, Clone)]
pub(crate) struct MedianBootstrap {
    /// (value, probability of at most this value), ascending.
    cumulated: Vec<(f64, f64)>,
}

impl MedianBootstrap {
    /// `None` for no values. Panics on NaN.
    pub(crate) fn of(values: &[f64]) -> Option<Self> {
        let sorted = sorted(values);
        let mut outcomes = match sorted.len() {
            0 => return None,
            n if n % 2 == 1 => odd(&sorted),
            _ => even(&sorted),
        };
        outcomes.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total: f64 = outcomes.iter().map(|&(_, p)| p).sum();
        let mut sum = 0.0;
        for (_, p) in &mut outcomes {
            sum += *p / total;
            *p = sum;
        }
        Some(Self { cumulated: outcomes })
    }

    /// The median of one resample, selected by a uniform number from 0 to 1.
    pub(crate) fn draw(&self, uniform: f64) -> f64 {
        let last = self.cumulated.len() - 1;
        self.cumulated[self.cumulated.partition_point(|&(_, p)| p <= uniform).min(last)].0
    }

    fn smallest(&self) -> f64 {
        self.cumulated[0].0
    }

    fn largest(&self) -> f64 {
        self.cumulated[self.cumulated.len() - 1].0
    }
}

/// The range of rounds, in ascending order, that can be a middle draw of `n` with non-negligible probability. The middle
/// draws are normally distributed around n/2, with a standard deviation of √n/2.
fn possible(n: usize) -> Range<usize> {
    let reach = (DEVIATIONS * (n as f64).sqrt() / 2.0).ceil() as usize;
    (n / 2).saturating_sub(reach)..(n / 2 + reach + 1).min(n)
}

/// The median of an odd number of draws is round i if the majority of the draws are rounds up to i,
/// but the majority are not rounds up to i − 1.
fn odd(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let at_most = |i: usize| at_least(n / 2 + 1, n, i as f64 / n as f64);
    let possible = possible(n);
    let mut below = at_most(possible.start);
    possible
        .map(|i| {
            let probability = at_most(i + 1) - below;
            below += probability;
            (sorted[i], probability)
        })
        .filter(|&(_, p)| p > NEGLIGIBLE)
        .collect()
}

/// The two middle draws of 2m are rounds i < j if the maximum of the m lower draws is i and the
/// minimum of the m upper draws is j. The case i = j takes the rest of the probability of i.
fn even(sorted: &[f64]) -> Vec<(f64, f64)> {
    let n = sorted.len();
    let half = (n / 2) as f64;
    // ln((i/n)^half − ((i − 1)/n)^half): the powers themselves are too small for many rounds.
    let ln_share = |i: usize| {
        let (i, n) = (i as f64, n as f64);
        let ratio = half * ((i - 1.0) / i).ln();
        half * (i / n).ln() + (-ratio.exp_m1()).ln()
    };
    // By symmetry, the minimum of the upper draws is j as often as the maximum of the lower draws
    // is n + 1 − j.
    let ln_touch: Vec<f64> = (1..=n).map(ln_share).collect();
    let ln_ways = ln_choose(n, n / 2);
    let mut outcomes = Vec::new();
    let possible = possible(n);
    let mut below = at_least(n / 2, n, possible.start as f64 / n as f64);
    for i in possible.clone() {
        let at_most = at_least(n / 2, n, (i + 1) as f64 / n as f64);
        let mut both = at_most - below;
        below = at_most;
        for j in i + 1..possible.end {
            let probability = (ln_ways + ln_touch[i] + ln_touch[n - 1 - j]).exp();
            both -= probability;
            if probability > NEGLIGIBLE {
                outcomes.push(((sorted[i] + sorted[j]) / 2.0, probability));
            }
        }
        if both > NEGLIGIBLE {
            outcomes.push((sorted[i], both));
        }
    }
    outcomes
}

/// The ratio of two medians and its confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RatioInterval {
    /// Median after over median before.
    pub ratio: f64,
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

/// The ratio of the median of `after` to that of `before`, and its bootstrap percentile interval at
/// `confidence` (0 to 1, exclusive).
///
/// `None` if a side has no rounds, a round of `before` is not positive, a round of `after` is
/// negative, or a ratio overflows. Panics on NaN.
pub fn ratio_of_medians(before: &[f64], after: &[f64], confidence: f64) -> Option<RatioInterval> {
    let ratio = median(after)? / median(before)?;
    if before.iter().any(|&rate| rate <= 0.0) || after.iter().any(|&rate| rate < 0.0) {
        return None;
    }
    let (before, after) = (MedianBootstrap::of(before)?, MedianBootstrap::of(after)?);
    let tail = (1.0 - confidence) / 2.0;
    // The two ends are mirror images: swapping the sides gives the reciprocals.
    let low = ratio_quantile(&before, &after, |at_most, _| at_most >= tail - ROUNDING);
    let high = ratio_quantile(&before, &after, |_, above| above < tail - ROUNDING);
    (ratio.is_finite() && high.is_finite()).then_some(RatioInterval { ratio, low, high })
}

/// The smallest ratio of two resampled medians for which `reached` holds. Its arguments are the
/// probability of a ratio up to this one, and that of a greater ratio.
fn ratio_quantile(
    before: &MedianBootstrap,
    after: &MedianBootstrap,
    reached: impl Fn(f64, f64) -> bool,
) -> f64 {
    let holds = |ratio: f64| {
        let (at_most, _) = up_to(before, after, ratio);
        reached(at_most, 1.0 - at_most)
    };
    let mut low = after.smallest() / before.largest() * (1.0 - CLOSE);
    let mut high = after.largest() / before.smallest() * (1.0 + CLOSE);
    while high - low > CLOSE * high {
        let middle = low + (high - low) / 2.0;
        if middle <= low || middle >= high {
            break;
        }
        if holds(middle) { high = middle } else { low = middle }
    }
    up_to(before, after, high).1
}

/// The probability of a ratio of at most `ratio`, and the greatest possible ratio up to it.
fn up_to(before: &MedianBootstrap, after: &MedianBootstrap, ratio: f64) -> (f64, f64) {
    let (mut probability, mut greatest) = (0.0, 0.0_f64);
    let (mut reached, mut below) = (0, 0.0);
    for &(denominator, cumulated) in &before.cumulated {
        while reached < after.cumulated.len() && after.cumulated[reached].0 <= ratio * denominator {
            reached += 1;
        }
        if reached > 0 {
            let (numerator, at_most) = after.cumulated[reached - 1];
            probability += (cumulated - below) * at_most;
            greatest = greatest.max(numerator / denominator);
        }
        below = cumulated;
    }
    (probability, greatest)
}

#[cfg(test)]
mod tests;
