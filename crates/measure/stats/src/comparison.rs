//! Before and after: faster, slower, the same, or not known yet.
//!
//! A claim of a difference has to pass three gates: the test's p-value (adjusted when several
//! points are compared) is below 1 − confidence, the bootstrap interval of the ratio of medians
//! excludes 1, and the ratio is at least the threshold away from 1 when one is given. "The same"
//! is a claim as well: the whole interval lies within the threshold, and is from five rounds a
//! side at least, as that of fewer is too short. Everything else is inconclusive.
//!
//! # A machine that has changed
//!
//! Two runs are minutes or days apart, and the rounds of one share whatever its machine was like
//! meanwhile: of that no test over rounds knows. Where the speed of the machine itself is known
//! for both ([`CompareOptions::drift`]), each point is compared twice, as measured and with the
//! drift divided out. A claim needs both (the greater p-value counts: Berger's
//! intersection-union test, Technometrics 24, 1982), and the interval spans both.
//!
//! # Which test
//!
//! Mann–Whitney, as rounds have long tails, unless there are too few rounds for it: its p-value
//! cannot fall below 2 / C(n + m, n), which is 0.1 for 3 against 3 and 0.008 for 5 against 5. If
//! that could not pass as the only claim among all the points compared (Benjamini–Hochberg then
//! asks for less than (1 − confidence) / points), Welch's t-test is used. The choice looks at
//! the numbers of rounds and points, never at their values, so it cannot favour a result. At
//! 95% Mann–Whitney takes over from 4 rounds a side for one point, 6 for eighteen points, 8 for
//! a hundred points, 10 for four thousand.
//!
//! # What chance alone is called different
//!
//! Share of 40,000 pairs of equal sides called faster or slower one by one at 95%
//! (`examples/coverage.rs`; the tests assert it for fewer):
//!
//! | rounds a side | 2 | 3 | 4 | 5 | 6 | 7 | 10 | 20 |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | normal | 0.023 | 0.037 | 0.028 | 0.031 | 0.032 | 0.029 | 0.029 | 0.027 |
//! | lognormal, σ = 0.3 | 0.025 | 0.033 | 0.028 | 0.034 | 0.032 | 0.029 | 0.028 | 0.026 |
//! | shifted exponential | 0.024 | 0.025 | 0.030 | 0.033 | 0.033 | 0.029 | 0.030 | 0.026 |
//! | Student, 1.5 degrees | 0.016 | 0.017 | 0.027 | 0.032 | 0.032 | 0.029 | 0.029 | 0.027 |
//! | one in five hit | 0.022 | 0.016 | 0.028 | 0.032 | 0.031 | 0.029 | 0.028 | 0.028 |
//!
//! Below 0.05 throughout: ranks come in steps, and the interval has to agree. Among a hundred
//! equal points compared together, 0 to 6% of 400 runs (3% over all of them) had any point
//! called different, with the tests that this takes.

use std::cmp::Ordering;

use crate::bootstrap::{RatioInterval, ratio_of_medians};
use crate::mann_whitney::{mann_whitney, mann_whitney_smallest_p};
use crate::median;
use crate::multiple::benjamini_hochberg;
use crate::signed_rank::{signed_rank, signed_rank_smallest_p};
use crate::welch::welch;

/// Rounds a side from which the interval of the ratio holds what it promises (see `bootstrap`); a
/// claim that rests on the interval alone needs them.
const ROUNDS_FOR_AN_INTERVAL: usize = 5;
/// An estimate beyond this many rounds is no advice.
const MOST_ROUNDS_TO_ADVISE: f64 = 1_000.0;

/// What counts as a difference.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CompareOptions {
    /// Of intervals, and 1 less the level of tests; 0.95 unless said otherwise.
    pub confidence: f64,
    /// The smallest relative difference that matters (0.02 is 2%). Without one every difference
    /// that is real counts, and nothing can be called the same.
    pub threshold: Option<f64>,
    /// How fast the machine itself was, after over before; 1 where that is not known.
    pub drift: f64,
}

impl Default for CompareOptions {
    fn default() -> Self {
        Self { confidence: 0.95, threshold: None, drift: 1.0 }
    }
}

/// The test behind a p-value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// Welch's t-test: too few rounds for Mann–Whitney to reach significance.
    Welch,
    /// Mann–Whitney by counting all orders.
    MannWhitneyExact,
    /// Mann–Whitney by normal approximation: equal rates, or more than 20 rounds on a side.
    MannWhitneyNormal,
    /// Wilcoxon's signed-rank test of pairs by counting all signs.
    SignedRankExact,
    /// The same by normal approximation: more than 50 pairs.
    SignedRankNormal,
}

/// What a comparison says, in the order in which lists show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verdict {
    /// The rate after is smaller.
    Slower,
    /// The rate after is greater.
    Faster,
    /// No difference found, and none of the threshold's size excluded.
    Inconclusive,
    /// The whole interval of the ratio lies within the threshold around 1.
    Same,
}

impl Verdict {
    /// All of them, in their order.
    pub const ALL: [Self; 4] = [Self::Slower, Self::Faster, Self::Inconclusive, Self::Same];

    /// The word that stands for it in JSON and on pages.
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
    /// Median after over median before (of pairs: the Hodges–Lehmann estimate of the ratio within
    /// a pair), and its interval, which spans both machines where they differ in speed. `None`
    /// when a round before has no throughput: the verdict is then the test's and the medians'
    /// alone.
    pub ratio: Option<RatioInterval>,
    /// Two-sided p-value of this point alone; 1 when there was no test.
    pub p: f64,
    /// The p-value corrected for all points compared (Benjamini–Hochberg).
    pub adjusted_p: f64,
    /// The test used; `None` with fewer than two rounds on a side, or so few pairs that they could
    /// show nothing at the confidence asked for: the interval is then no interval.
    pub test: Option<Test>,
    /// The finding.
    pub verdict: Verdict,
    /// About how many rounds a side would decide an inconclusive point, if ratio and noise stay as
    /// they are; `None` when that cannot be said or is beyond reason.
    pub rounds_needed: Option<u32>,
}

impl Comparison {
    /// A point without the correction and the verdict, which need the other points. `None` when a
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
            p,
            adjusted_p: p,
            test,
            verdict: Verdict::Inconclusive,
            rounds_needed: None,
        })
    }
}

/// Compares the rates of the rounds of one point. `None` when a side has no rounds. Panics on
/// NaN.
pub fn compare(before: &[f64], after: &[f64], options: &CompareOptions) -> Option<Comparison> {
    compare_all(&[(before, after)], options).pop()?
}

/// Compares all points of two runs, (before, after) each, with p-values corrected for their
/// number. A point with no rounds on a side gives `None` and is not counted. Panics on NaN.
pub fn compare_all<Side: AsRef<[f64]>>(
    points: &[(Side, Side)],
    options: &CompareOptions,
) -> Vec<Option<Comparison>> {
    let sides = || points.iter().map(|(before, after)| (before.as_ref(), after.as_ref()));
    let tested = sides().filter(|(b, a)| b.len() >= 2 && a.len() >= 2).count();
    let mut comparisons: Vec<_> =
        sides().map(|(b, a)| measure_both(b, a, tested, options)).collect();
    adjust(&mut comparisons);
    for (comparison, (before, after)) in comparisons.iter_mut().zip(sides()) {
        let Some(comparison) = comparison else { continue };
        // Rounds a side: the harmonic mean where they differ.
        let rounds = 2.0 / (1.0 / before.len() as f64 + 1.0 / after.len() as f64);
        let trusts_interval = before.len().min(after.len()) >= ROUNDS_FOR_AN_INTERVAL;
        judge(comparison, rounds, trusts_interval, options);
    }
    comparisons
}

/// Compares all points of two sides that were measured in turns: the pairs of rates, (before,
/// after) each, of every point. What both of a pair share cancels, so
/// [`CompareOptions::drift`] is of no use here and ignored. A point without pairs gives `None`.
pub fn compare_pairs<Pairs: AsRef<[(f64, f64)]>>(
    points: &[Pairs],
    options: &CompareOptions,
) -> Vec<Option<Comparison>> {
    let options = &CompareOptions { drift: 1.0, ..*options };
    let pairs = || points.iter().map(AsRef::as_ref);
    let mut comparisons: Vec<_> = pairs().map(|pairs| measure_pairs(pairs, options)).collect();
    adjust(&mut comparisons);
    let least = pairs_to_claim(points.len(), options.confidence);
    for (comparison, pairs) in comparisons.iter_mut().zip(pairs()) {
        let Some(comparison) = comparison else { continue };
        let trusts_interval = comparison.test.is_some();
        judge(comparison, pairs.len() as f64, trusts_interval, options);
        comparison.rounds_needed = comparison.rounds_needed.map(|n| n.max(least));
    }
    comparisons
}

/// The fewest pairs a point with which any one of `points` could be called different at
/// `confidence`.
pub fn pairs_to_claim(points: usize, confidence: f64) -> u32 {
    let level = 1.0 - confidence;
    let suffices = |n: &u32| signed_rank_smallest_p(*n as usize) * (points as f64) < level;
    (1..).find(suffices).expect("each pair halves it")
}

/// Corrects the p-values for their number.
fn adjust(comparisons: &mut [Option<Comparison>]) {
    let tested = || comparisons.iter().flatten().filter(|c| c.test.is_some());
    let adjusted = benjamini_hochberg(&tested().map(|c| c.p).collect::<Vec<f64>>());
    let tested = comparisons.iter_mut().flatten().filter(|c| c.test.is_some());
    for (comparison, adjusted) in tested.zip(adjusted) {
        comparison.adjusted_p = adjusted;
    }
}

fn measure_pairs(pairs: &[(f64, f64)], options: &CompareOptions) -> Option<Comparison> {
    let (before, after): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ranked = signed_rank(pairs, options.confidence);
    let enough = pairs.len() >= pairs_to_claim(1, options.confidence) as usize;
    let test = |exact| if exact { Test::SignedRankExact } else { Test::SignedRankNormal };
    Comparison::undecided(
        &before,
        &after,
        ranked.map(|ranked| ranked.ratio),
        ranked.map(|ranked| ranked.p),
        ranked.filter(|_| enough).map(|ranked| test(ranked.exact)),
    )
}

/// As measured, and corrected for the drift of the machine: the weaker claim of the two.
fn measure_both(
    before: &[f64],
    after: &[f64],
    points: usize,
    options: &CompareOptions,
) -> Option<Comparison> {
    let mut measured = measure(before, after, points, options)?;
    if options.drift == 1.0 {
        return Some(measured);
    }
    let steadied: Vec<f64> = after.iter().map(|rate| rate / options.drift).collect();
    let steadied = measure(before, &steadied, points, options)?;
    measured.p = measured.p.max(steadied.p);
    measured.adjusted_p = measured.p;
    if let (Some(ratio), Some(steadied)) = (&mut measured.ratio, steadied.ratio) {
        ratio.low = ratio.low.min(steadied.low);
        ratio.high = ratio.high.max(steadied.high);
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

/// Replaces the verdict, which is inconclusive so far, where the evidence of so many rounds a side
/// suffices.
fn judge(
    comparison: &mut Comparison,
    rounds: f64,
    trusts_interval: bool,
    options: &CompareOptions,
) {
    if comparison.test.is_none() {
        // The interval of a single round has no width, and is no evidence of anything.
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
    let drift = options.drift;
    let least = (ratio - 1.0).abs().min((ratio / drift - 1.0).abs());
    let differs = significant && least >= threshold;
    let within = low >= 1.0 - threshold && high <= 1.0 + threshold;
    if differs && low > 1.0 {
        comparison.verdict = Verdict::Faster;
    } else if differs && high < 1.0 {
        comparison.verdict = Verdict::Slower;
    } else if trusts_interval && threshold > 0.0 && within {
        comparison.verdict = Verdict::Same;
    } else {
        // More rounds do not narrow the part of the interval that is the drift of the machine.
        let drifted = ratio * (1.0 - 1.0 / drift).abs();
        let half_width = (high - low - drifted).max(0.0) / 2.0;
        comparison.rounds_needed = rounds_needed(least, half_width, drifted, rounds, threshold);
    }
}

/// The interval narrows as the square root of the rounds. It has to get narrow enough to keep 1
/// outside, or, for a ratio within the threshold, to keep the threshold outside: ratios `away`
/// from 1, as measured and with the drift divided out, that are `drifted` apart.
fn rounds_needed(
    away: f64,
    half_width: f64,
    drifted: f64,
    rounds: f64,
    threshold: f64,
) -> Option<u32> {
    let enough = if away >= threshold { away } else { threshold - away - drifted };
    if enough <= 0.0 {
        return None;
    }
    let needed = (rounds * (half_width / enough).powi(2)).ceil();
    // An interval already narrow enough failed for its p-value, or for too few rounds to trust it.
    let least = (rounds.floor() + 1.0).max(ROUNDS_FOR_AN_INTERVAL as f64);
    (needed <= MOST_ROUNDS_TO_ADVISE).then(|| needed.max(least) as u32)
}

#[cfg(test)]
mod tests;
