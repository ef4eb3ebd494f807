//! Before and after: faster, slower, the same, or inconclusive.
//!
//! A difference is claimed if three conditions hold: the p-value of the test (adjusted if several
//! points are compared) is below 1 − confidence, the bootstrap interval of the ratio of medians
//! excludes 1, and the ratio differs from 1 by at least the threshold, if there is one. "The same"
//! is a claim as well: the whole interval lies within the threshold, and each side has at least
//! five rounds, because the interval of fewer is too short. Everything else is inconclusive.
//!
//! # A machine that has changed
//!
//! Two runs are minutes or days apart, and the state of the machine during a run affects all of its
//! rounds. No test over rounds can detect that. If the speed of the machine itself is known for
//! both runs ([`Drift`]), each point is compared as measured and with the drift divided out. A claim
//! requires all of these comparisons (the greatest p-value counts: Berger's intersection-union
//! test, Technometrics 24, 1982), and the interval spans them.
//!
//! # Repeated looks
//!
//! Pairs that are judged repeatedly, until they decide, follow a plan ([`CompareOptions::looks`]).
//! It replaces the correction of p-values: each look at each point has its share of the level. A
//! point that is not the same within the threshold is then different as soon as its interval
//! excludes 1, even if the estimate is below the threshold. Otherwise, a difference of exactly the
//! threshold would never be decided.
//!
//! # Which test
//!
//! The Mann–Whitney test, because rounds have long tails, unless there are too few rounds for it:
//! its p-value is at least 2 / C(n + m, n), which is 0.1 for 3 against 3 and 0.008 for 5 against 5.
//! If that is too great for the only claim among all compared points (Benjamini–Hochberg then
//! requires less than (1 − confidence) / points), Welch's t-test is used. The choice depends only
//! on the round count and the point count, never on the rates, so it cannot favour a result. At
//! 95%, Mann–Whitney is used from 4 rounds a side for one point, 6 for eighteen points, 8 for a
//! hundred points, and 10 for four thousand.
//!
//! # False alarms
//!
//! Share of 40,000 pairs of equal sides that are called faster or slower, each compared alone at
//! 95% (`examples/coverage.rs`; the tests check it with fewer pairs):
//!
//! | rounds a side | 2 | 3 | 4 | 5 | 6 | 7 | 10 | 20 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | normal | 0.023 | 0.037 | 0.028 | 0.031 | 0.032 | 0.029 | 0.029 | 0.027 |
//! | lognormal, σ = 0.3 | 0.025 | 0.033 | 0.028 | 0.034 | 0.032 | 0.029 | 0.028 | 0.026 |
//! | shifted exponential | 0.024 | 0.025 | 0.030 | 0.033 | 0.033 | 0.029 | 0.030 | 0.026 |
//! | Student, 1.5 degrees | 0.016 | 0.017 | 0.027 | 0.032 | 0.032 | 0.029 | 0.029 | 0.027 |
//! | one in five hit | 0.022 | 0.016 | 0.028 | 0.032 | 0.031 | 0.029 | 0.028 | 0.028 |
//!
//! All are below 0.05, because ranks are discrete and because the interval must agree. If a hundred
//! equal points are compared together, 0 to 6% of 400 runs (3% over all of them) have any point
//! that is called different.

use std::cmp::Ordering;

use crate::Looks;
use crate::bootstrap::{RatioInterval, ratio_of_medians};
use crate::mann_whitney::{mann_whitney, mann_whitney_smallest_p};
use crate::median;
use crate::multiple::{benjamini_hochberg, union_bound};
use crate::signed_rank::{signed_rank, signed_rank_smallest_p};
use crate::welch::welch;

/// Minimum number of rounds a side for which the interval of the ratio reaches its confidence (see
/// `bootstrap`). A claim that rests on the interval alone requires them.
const ROUNDS_FOR_AN_INTERVAL: usize = 5;
/// A greater estimate of the required rounds is not useful advice.
const MOST_ROUNDS_TO_ADVISE: f64 = 1_000.0;

/// What counts as a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Confidence of the intervals; tests have the level 1 − confidence. The default is 0.95.
    pub confidence: f64,
    /// The smallest relative difference that matters (0.02 is 2%). Without it, every significant
    /// difference counts, and nothing can be called the same.
    pub threshold: Option<f64>,
    /// The looks, if the pairs are judged repeatedly.
    pub looks: Option<Looks>,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { confidence: 0.95, threshold: None, looks: None }
    }
}

/// How the machine itself may have changed between two runs: the least and the greatest of its
/// speeds after, divided by those before. Contains 1, because a point need not depend on that speed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Drift {
    /// At most 1.
    low: f64,
    /// At least 1.
    high: f64,
}

impl Drift {
    /// The machine has not changed, or it is unknown whether it has.
    pub const NONE: Drift = Drift { low: 1.0, high: 1.0 };

    /// The smallest range that contains 1 and all `ratios`. Ignores ratios that are not positive and finite.
    pub fn covering(ratios: impl IntoIterator<Item = f64>) -> Self {
        let sound = ratios.into_iter().filter(|ratio| ratio.is_finite() && *ratio > 0.0);
        sound.fold(Self::NONE, |range, ratio| Self {
            low: range.low.min(ratio),
            high: range.high.max(ratio),
        })
    }

    /// What is left of the change of a rate by `ratio`, whatever part of this drift caused it.
    pub fn least_change(&self, ratio: f64) -> f64 {
        match ratio {
            _ if ratio < self.low => 1.0 - ratio / self.low,
            _ if ratio > self.high => ratio / self.high - 1.0,
            _ => 0.0,
        }
    }

    /// How far a change of a rate by `ratio` may be from 1, whatever part of this drift is divided out.
    fn greatest_change(&self, ratio: f64) -> f64 {
        (1.0 - ratio / self.high).max(ratio / self.low - 1.0)
    }

    /// The width that the drift adds to the interval of `ratio`.
    fn width(&self, ratio: f64) -> f64 {
        ratio * (1.0 / self.low - 1.0 / self.high)
    }
}

impl CompareOptions {
    /// The confidence of the interval of a point with `n` pairs.
    pub fn confidence_at(&self, n: usize) -> f64 {
        self.looks.map_or(self.confidence, |looks| looks.confidence(n, self.confidence))
    }

    /// The minimum number of pairs per point with which a single one of `points` can be called
    /// different.
    pub fn pairs_to_claim(&self, points: usize) -> u32 {
        self.looks.map_or_else(|| pairs_to_claim(points, self.confidence), |looks| looks.first())
    }
}

/// The test behind a p-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Welch's t-test, for too few rounds for Mann–Whitney to reach significance.
    Welch,
    /// Mann–Whitney by counting all orders.
    MannWhitneyExact,
    /// Mann–Whitney by normal approximation, for equal rates or more than 20 rounds a side.
    MannWhitneyNormal,
    /// Wilcoxon's signed-rank test of pairs by counting all signs.
    SignedRankExact,
    /// Wilcoxon's signed-rank test by normal approximation, for more than 50 pairs.
    SignedRankNormal,
}

/// The result of a comparison, in the order in which lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The rate after is smaller.
    Slower,
    /// The rate after is greater.
    Faster,
    /// No difference is found, and a difference of the size of the threshold is not excluded.
    Inconclusive,
    /// The whole interval of the ratio lies within the threshold around 1.
    Same,
}

impl Verdict {
    /// All verdicts in order.
    pub const ALL: [Self; 4] = [Self::Slower, Self::Faster, Self::Inconclusive, Self::Same];

    /// The word for it in JSON and on pages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Inconclusive => "inconclusive",
            Self::Same => "same",
        }
    }

    /// Whether it claims a difference.
    pub fn is_change(self) -> bool {
        matches!(self, Self::Slower | Self::Faster)
    }
}

/// One point before and after.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// Median rate of the rounds before.
    pub before_median: f64,
    /// Median rate of the rounds after.
    pub after_median: f64,
    /// Median after divided by median before, or for pairs the Hodges–Lehmann estimate of the ratio
    /// within a pair, with its interval. The interval spans all comparisons if the machine has
    /// drifted. `None` if a round before has no throughput: the verdict then follows from the test
    /// and the medians alone.
    pub ratio: Option<RatioInterval>,
    /// The drift that the interval, the p-value and the verdict allow for.
    pub drift: Drift,
    /// Two-sided p-value of this point alone; 1 without a test.
    pub p: f64,
    /// The p-value corrected for all points compared (Benjamini–Hochberg), or for all points and
    /// looks (the union bound).
    pub adjusted_p: f64,
    /// The test used. `None` with fewer than two rounds a side, or with too few pairs for any
    /// difference to be significant at the requested confidence; the interval is then meaningless.
    pub test: Option<Test>,
    /// The verdict.
    pub verdict: Verdict,
    /// Approximate number of rounds a side that would decide an inconclusive point, if ratio and
    /// noise stay the same; `None` if it is unknown or too great.
    pub rounds_needed: Option<u32>,
}

impl Comparison {
    /// The same medians without a test and with an inconclusive verdict, for rounds that prove nothing.
    pub fn without_claim(self) -> Self {
        Self {
            p: 1.0,
            adjusted_p: 1.0,
            test: None,
            verdict: Verdict::Inconclusive,
            rounds_needed: None,
            ..self
        }
    }

    /// A point before the correction and the verdict, which depend on the other points. `None` if a
    /// side has no rounds.
    fn undecided(
        before: &[f64],
        after: &[f64],
        ratio: Option<RatioInterval>,
        p: Option<f64>,
        test: Option<Test>,
    ) -> Option<Self> {
        let p = p.unwrap_or(1.0);
        Some(Self {
            before_median: median(before)?,
            after_median: median(after)?,
            ratio,
            drift: Drift::NONE,
            p,
            adjusted_p: p,
            test,
            verdict: Verdict::Inconclusive,
            rounds_needed: None,
        })
    }
}

/// Compares the rates of the rounds of one point on a machine that has not drifted. `None` if a side
/// has no rounds. Panics on NaN.
pub fn compare(before: &[f64], after: &[f64], options: &CompareOptions) -> Option<Comparison> {
    compare_all(&[(before, after, Drift::NONE)], options).pop()?
}

/// Compares all points of two runs, given as (before, after, drift), with p-values corrected for the
/// number of points. A point without rounds on a side gives `None` and does not count. Panics on
/// NaN.
pub fn compare_all<Side: AsRef<[f64]>>(
    points: &[(Side, Side, Drift)],
    options: &CompareOptions,
) -> Vec<Option<Comparison>> {
    compare_with(points, options, benjamini_hochberg)
}

/// Like [`compare_all`], for values that depend on each other, such as several quantiles of the same
/// rounds. P-values are corrected by the [union bound](union_bound), which holds for any dependence.
pub fn compare_dependent<Side: AsRef<[f64]>>(
    points: &[(Side, Side, Drift)],
    options: &CompareOptions,
) -> Vec<Option<Comparison>> {
    compare_with(points, options, union_bound)
}

fn compare_with<Side: AsRef<[f64]>>(
    points: &[(Side, Side, Drift)],
    options: &CompareOptions,
    correct: Correction,
) -> Vec<Option<Comparison>> {
    let sides = || points.iter().map(|(before, after, _)| (before.as_ref(), after.as_ref()));
    let tested = sides().filter(|(b, a)| b.len() >= 2 && a.len() >= 2).count();
    let mut comparisons: Vec<_> = points
        .iter()
        .map(|(b, a, drift)| measure_drifted(b.as_ref(), a.as_ref(), *drift, tested, options))
        .collect();
    adjust(&mut comparisons, correct);
    for (comparison, (before, after)) in comparisons.iter_mut().zip(sides()) {
        let Some(comparison) = comparison else { continue };
        // Rounds a side: the harmonic mean of both.
        let rounds = 2.0 / (1.0 / before.len() as f64 + 1.0 / after.len() as f64);
        let trusts_interval = before.len().min(after.len()) >= ROUNDS_FOR_AN_INTERVAL;
        judge(comparison, rounds, trusts_interval, options);
    }
    comparisons
}

/// Compares all points of two sides that were measured in interleaved rounds, given as the pairs of
/// rates (before, after) of each point. What affects both rates of a pair cancels, so there is no
/// drift. A point without pairs gives `None`.
pub fn compare_pairs<Pairs: AsRef<[(f64, f64)]>>(
    points: &[Pairs],
    options: &CompareOptions,
) -> Vec<Option<Comparison>> {
    let pairs = || points.iter().map(AsRef::as_ref);
    let mut comparisons: Vec<_> = pairs().map(|pairs| measure_pairs(pairs, options)).collect();
    if options.looks.is_none() {
        adjust(&mut comparisons, benjamini_hochberg);
    }
    let least = options.pairs_to_claim(points.len());
    for (comparison, pairs) in comparisons.iter_mut().zip(pairs()) {
        let Some(comparison) = comparison else { continue };
        let trusts_interval = comparison.test.is_some();
        judge(comparison, pairs.len() as f64, trusts_interval, options);
        comparison.rounds_needed = comparison.rounds_needed.map(|n| n.max(least));
    }
    comparisons
}

/// The minimum number of pairs per point with which a single one of `points` can be called
/// different at `confidence`.
pub fn pairs_to_claim(points: usize, confidence: f64) -> u32 {
    let level = 1.0 - confidence;
    let suffices = |n: &u32| signed_rank_smallest_p(*n as usize) * (points as f64) < level;
    (1..).find(suffices).expect("each pair halves it")
}

/// Adjusts p-values for the number of tests.
type Correction = fn(&[f64]) -> Vec<f64>;

/// Corrects the p-values for the number of tests.
fn adjust(comparisons: &mut [Option<Comparison>], correct: Correction) {
    let tested = || comparisons.iter().flatten().filter(|c| c.test.is_some());
    let adjusted = correct(&tested().map(|c| c.p).collect::<Vec<f64>>());
    let tested = comparisons.iter_mut().flatten().filter(|c| c.test.is_some());
    for (comparison, adjusted) in tested.zip(adjusted) {
        comparison.adjusted_p = adjusted;
    }
}

fn measure_pairs(pairs: &[(f64, f64)], options: &CompareOptions) -> Option<Comparison> {
    let (before, after): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ranked = signed_rank(pairs, options.confidence_at(pairs.len()));
    let enough = pairs.len() >= options.pairs_to_claim(1) as usize;
    let test = |exact| if exact { Test::SignedRankExact } else { Test::SignedRankNormal };
    let mut comparison = Comparison::undecided(
        &before,
        &after,
        ranked.map(|ranked| ranked.ratio),
        ranked.map(|ranked| ranked.p),
        ranked.filter(|_| enough).map(|ranked| test(ranked.exact)),
    )?;
    if let Some(looks) = options.looks {
        comparison.adjusted_p = (comparison.p / looks.share(pairs.len())).min(1.0);
    }
    Some(comparison)
}

/// Compares a point as measured, and with each end of the drift divided out. The weakest claim
/// counts.
fn measure_drifted(
    before: &[f64],
    after: &[f64],
    drift: Drift,
    points: usize,
    options: &CompareOptions,
) -> Option<Comparison> {
    let mut measured = measure(before, after, points, options)?;
    measured.drift = drift;
    for speed in [drift.low, drift.high].into_iter().filter(|speed| *speed != 1.0) {
        let steadied: Vec<f64> = after.iter().map(|rate| rate / speed).collect();
        let steadied = measure(before, &steadied, points, options)?;
        measured.p = measured.p.max(steadied.p);
        measured.adjusted_p = measured.p;
        if let (Some(ratio), Some(steadied)) = (&mut measured.ratio, steadied.ratio) {
            ratio.low = ratio.low.min(steadied.low);
            ratio.high = ratio.high.max(steadied.high);
        }
    }
    Some(measured)
}

fn measure(
    before: &[f64],
    after: &[f64],
    points: usize,
    options: &CompareOptions,
) -> Option<Comparison> {
    let (test, p) = test(before, after, points, options.confidence).unzip();
    Comparison::undecided(
        before,
        after,
        ratio_of_medians(before, after, options.confidence),
        p,
        test,
    )
}

fn test(before: &[f64], after: &[f64], points: usize, confidence: f64) -> Option<(Test, f64)> {
    let by_welch = welch(before, after)?;
    let least = mann_whitney_smallest_p(before.len(), after.len());
    if least * points as f64 >= 1.0 - confidence {
        return Some((Test::Welch, by_welch));
    }
    let (p, exact) = mann_whitney(before, after)?;
    Some((if exact { Test::MannWhitneyExact } else { Test::MannWhitneyNormal }, p))
}

/// Decides an undecided comparison of `rounds` rounds a side, if the evidence suffices.
fn judge(
    comparison: &mut Comparison,
    rounds: f64,
    trusts_interval: bool,
    options: &CompareOptions,
) {
    if comparison.test.is_none() {
        // The interval of a single round has no width and is not evidence.
        return;
    }
    let significant = comparison.adjusted_p < 1.0 - options.confidence;
    let Some(RatioInterval { ratio, low, high }) = comparison.ratio else {
        comparison.verdict = match comparison.after_median.total_cmp(&comparison.before_median) {
            Ordering::Greater if significant => Verdict::Faster,
            Ordering::Less if significant => Verdict::Slower,
            _ => Verdict::Inconclusive,
        };
        return;
    };
    let threshold = options.threshold.unwrap_or(0.0);
    let least = comparison.drift.least_change(ratio);
    let any_size = options.looks.is_some();
    let within = low >= 1.0 - threshold && high <= 1.0 + threshold;
    let is_same = trusts_interval && threshold > 0.0 && within;
    let differs = significant && if any_size { !is_same } else { least >= threshold };
    if differs && low > 1.0 {
        comparison.verdict = Verdict::Faster;
    } else if differs && high < 1.0 {
        comparison.verdict = Verdict::Slower;
    } else if is_same {
        comparison.verdict = Verdict::Same;
    } else {
        // More rounds do not narrow the part of the interval that is due to the drift.
        let drifted = comparison.drift.width(ratio);
        let half_width = (high - low - drifted).max(0.0) / 2.0;
        // The interval must exclude 1 or, for a ratio within the threshold, must lie within the
        // threshold.
        let inside = threshold - comparison.drift.greatest_change(ratio);
        let enough = match any_size {
            true => least.max(inside),
            false if least >= threshold => least,
            false => inside,
        };
        comparison.rounds_needed = rounds_needed(half_width, enough, rounds);
    }
}

/// The rounds after which an interval of `half_width` from `rounds` rounds, whose width falls with
/// the square root of the rounds, has a half width of `enough`.
fn rounds_needed(half_width: f64, enough: f64, rounds: f64) -> Option<u32> {
    if enough <= 0.0 {
        return None;
    }
    let needed = (rounds * (half_width / enough).powi(2)).ceil();
    // If the interval is already narrow enough, the p-value is too great or the rounds are too few.
    let least = (rounds.floor() + 1.0).max(ROUNDS_FOR_AN_INTERVAL as f64);
    (needed <= MOST_ROUNDS_TO_ADVISE).then(|| needed.max(least) as u32)
}

#[cfg(test)]
mod tests;
