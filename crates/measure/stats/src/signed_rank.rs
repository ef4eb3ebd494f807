//! Wilcoxon's signed-rank test of pairs: by what ratio does the second rate of a pair differ from
//! the first?
//!
//! F. Wilcoxon, "Individual comparisons by ranking methods", Biometrics Bulletin 1, 1945, for the
//! test; J. L. Hodges and E. L. Lehmann, "Estimates of location based on rank tests", Annals of
//! Mathematical Statistics 34, 1963, for the estimate. The logarithms of the ratios are assumed to
//! be symmetric about their median, with tails of any length. What affects both rates of a pair,
//! such as a machine that is slow for a while, cancels.

use statrs::distribution::{ContinuousCDF, Normal};

use crate::bootstrap::RatioInterval;

/// Maximum number of pairs for which the distribution of the rank sum is counted: 64 bits hold the
/// counts of 2^50 assignments of signs. For more pairs, the error of the normal approximation is
/// below 1e-3, and small p-values are too great rather than too small.
const EXACT_UP_TO: usize = 50;
/// Continuity correction: the rank sum is an integer, but the normal distribution is continuous.
const CONTINUITY: f64 = 0.5;

/// The result of Wilcoxon's signed-rank test of ratios, and the matching estimate.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct SignedRank {
    /// Two-sided p-value.
    pub(crate) p: f64,
    /// Whether the p-value is exact, by counting all assignments of signs. With more than 50 pairs,
    /// it is a normal approximation.
    pub(crate) exact: bool,
    /// The Hodges–Lehmann estimate of after divided by before, and its interval. If there are too
    /// few pairs for the requested confidence (fewer than six at 95%), the interval is the widest
    /// possible one.
    pub(crate) ratio: RatioInterval,
}

/// Tests the ratios of `pairs` of positive rates (before, after) at `confidence`. `None` without
/// pairs, or if a rate is not positive.
pub(crate) fn signed_rank(pairs: &[(f64, f64)], confidence: f64) -> Option<SignedRank> {
    if pairs.is_empty() || pairs.iter().any(|(before, after)| !(*before > 0.0 && *after > 0.0)) {
        return None;
    }
    let differences: Vec<f64> = pairs.iter().map(|(before, after)| (after / before).ln()).collect();
    let (p, exact) = test(&differences);
    let averages = walsh_averages(&differences);
    let outside = quantile(differences.len(), 1.0 - confidence);
    let middle = (averages[(averages.len() - 1) / 2] + averages[averages.len() / 2]) / 2.0;
    let ratio = RatioInterval {
        ratio: middle.exp(),
        low: averages[outside].exp(),
        high: averages[averages.len() - 1 - outside].exp(),
    };
    Some(SignedRank { p, exact, ratio })
}

/// The smallest possible two-sided p-value of `n` pairs: that of equal signs.
pub(crate) fn signed_rank_smallest_p(n: usize) -> f64 {
    (2.0 * 0.5f64.powf(n as f64)).min(1.0)
}

/// The two-sided p-value, and whether it is exact.
fn test(differences: &[f64]) -> (f64, bool) {
    // As in Wilcoxon's paper, pairs without a difference are left out.
    let mut differences: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    differences.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let n = differences.len();
    // Twice the ranks, because the mean ranks of equal differences can be half-integers.
    let mut doubled = Vec::with_capacity(n);
    let (mut positive, mut ties) = (0, 0.0);
    for group in differences.chunk_by(|a, b| a.abs() == b.abs()) {
        let shared = 2 * doubled.len() + group.len() + 1;
        positive += shared * group.iter().filter(|d| **d > 0.0).count();
        doubled.resize(doubled.len() + group.len(), shared);
        let size = group.len() as f64;
        ties += size * size * size - size;
    }
    let all = n * (n + 1);
    let extreme = positive.max(all - positive);
    if n <= EXACT_UP_TO {
        let upper: u64 = counts(doubled)[extreme..].iter().sum();
        return ((2.0 * upper as f64 * 0.5f64.powf(n as f64)).min(1.0), true);
    }
    let variance = (n * (n + 1) * (2 * n + 1)) as f64 / 24.0 - ties / 48.0;
    let z = (extreme as f64 / 2.0 - all as f64 / 4.0 - CONTINUITY) / variance.sqrt();
    ((2.0 * Normal::standard().sf(z)).min(1.0), false)
}

/// The number of assignments of signs for each sum of the positive `ranks`: the coefficients of
/// ∏ (1 + q^rank).
fn counts(ranks: impl IntoIterator<Item = usize>) -> Vec<u64> {
    let mut counts = vec![1u64];
    for rank in ranks {
        let before = counts.len();
        counts.resize(before + rank, 0);
        for sum in (0..before).rev() {
            counts[sum + rank] += counts[sum];
        }
    }
    counts
}

/// The number of sorted Walsh averages of `n` differences outside of each end of an interval that
/// misses with a probability of at most `miss`.
fn quantile(n: usize, miss: f64) -> usize {
    let last = (n * (n + 1) / 2 - 1) / 2;
    if n <= EXACT_UP_TO {
        let (mut below, mut k) = (0.0, 0);
        for count in counts(1..=n) {
            below += count as f64 * 0.5f64.powf(n as f64);
            if below > miss / 2.0 {
                break;
            }
            k += 1;
        }
        // k rank sums are improbable: the interval begins at the k-th smallest average.
        return usize::min(usize::max(k, 1) - 1, last);
    }
    let (n, z) = (n as f64, Normal::standard().inverse_cdf(1.0 - miss / 2.0));
    let depth = n * (n + 1.0) / 4.0 - z * (n * (n + 1.0) * (2.0 * n + 1.0) / 24.0).sqrt();
    (depth.max(0.0) as usize).min(last)
}

/// The averages of all pairs of differences, including each with itself, in ascending order.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (i, a) in differences.iter().enumerate() {
        averages.extend(differences[i..].iter().map(|b| (a + b) / 2.0));
    }
    averages.sort_by(f64::total_cmp);
    averages
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn assert_close(found: SignedRank, p: f64, ratio: f64, low: f64, high: f64) {
        let found = [found.p, found.ratio.ratio, found.ratio.low, found.ratio.high];
        for (found, expected) in found.iter().zip([p, ratio, low, high]) {
            assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
        }
    }

    /// R 4.2: `wilcox.test(log(after / before), conf.int = TRUE)`, on the depression scores of
    /// Hollander and Wolfe that its manual uses, and on twelve pairs.
    #[test]
    fn the_results_are_those_of_r() {
        let hollander_wolfe = [
            (878.0, 1830.0),
            (647.0, 500.0),
            (598.0, 1620.0),
            (2050.0, 2480.0),
            (1060.0, 1680.0),
            (1290.0, 1880.0),
            (1060.0, 1550.0),
            (3140.0, 3060.0),
            (1290.0, 1300.0),
        ];
        let found = signed_rank(&hollander_wolfe, 0.95).unwrap();
        assert!(found.exact);
        assert_close(found, 0.0546875, 1.38468382192485, 0.99099784529202, 1.98696851186778);
        let before =
            [101.2, 99.8, 100.4, 103.1, 98.7, 100.9, 102.2, 99.1, 101.7, 100.3, 104., 97.9];
        let after =
            [103.9, 101., 100.1, 107.7, 99.8, 104.5, 103.3, 98.2, 106.9, 101.5, 108.8, 97.5];
        let pairs: Vec<(f64, f64)> = before.into_iter().zip(after).collect();
        let (p, ratio) = (0.0068359375, 1.019310511782306);
        let found = signed_rank(&pairs, 0.95).unwrap();
        assert_close(found, p, ratio, 1.003907078800232, 1.031392080544571);
        let found = signed_rank(&pairs, 0.99).unwrap();
        assert_close(found, p, ratio, 1.00098048581348, 1.04090319153295);
    }

    /// The same call of R with `exact = FALSE`, and with many ties.
    #[test]
    fn many_pairs_are_tested_by_the_normal_distribution_as_in_r() {
        let pairs: Vec<(f64, f64)> = (0..60)
            .map(|i| {
                let before = f64::from(100 + i * 37 % 60);
                (before, before * (1.0 + f64::from((i * 17 + 7) % 41 - 18) / 100.0))
            })
            .collect();
        let found = signed_rank(&pairs, 0.95).unwrap();
        assert!(!found.exact);
        // The logarithms of ties differ in the last bits, in R too.
        assert!((found.p - 0.434647940546647).abs() < 1e-3, "{found:?}");
    }

    /// Looks at many points require such levels.
    #[test]
    fn many_pairs_keep_a_small_level() {
        for n in [EXACT_UP_TO + 1, 64, 91] {
            // The distribution of the rank sum, like `counts` but as probabilities.
            let mut exact = vec![1.0f64];
            for rank in 1..=n {
                let before = exact.len();
                exact.resize(before + rank, 0.0);
                for sum in (0..before).rev() {
                    exact[sum + rank] += exact[sum];
                }
                exact.iter_mut().for_each(|probability| *probability /= 2.0);
            }
            for level in [0.05, 0.005, 0.0005, 0.00005] {
                let missed = 2.0 * exact[..=quantile(n, level)].iter().sum::<f64>();
                assert!(missed <= level, "{n} pairs at {level}: {missed}");
                assert!(missed > level / 3.0, "{n} pairs at {level}: {missed}");
            }
        }
    }

    #[test]
    fn six_pairs_can_show_a_difference_and_five_cannot() {
        let pairs: Vec<(f64, f64)> = (0..6).map(|i| (100.0, 110.0 + f64::from(i))).collect();
        assert!(signed_rank(&pairs[..5], 0.95).unwrap().p > 0.05);
        assert!(signed_rank(&pairs, 0.95).unwrap().p < 0.05);
        assert_eq!(signed_rank(&pairs, 0.95).unwrap().p, signed_rank_smallest_p(6));
    }

    #[test]
    fn equal_differences_do_not_make_a_claim_easier() {
        let p = |pairs: &[(f64, f64)]| signed_rank(pairs, 0.95).unwrap().p;
        assert_eq!(p(&[(5.0, 6.0); 6]), signed_rank_smallest_p(6));
        let with_none = [&[(5.0, 6.0); 5][..], &[(5.0, 5.0)]].concat();
        assert_eq!(p(&with_none), signed_rank_smallest_p(5));
        // Ranks 1.5, 1.5 and 3: two of eight assignments of signs are as extreme, one on each side.
        assert_eq!(p(&[(1.0, 2.0), (1.0, 2.0), (1.0, 4.0)]), 0.25);
        assert_eq!(p(&[(1.0, 2.0), (2.0, 1.0), (1.0, 4.0)]), 0.75);
    }

    #[test]
    fn rates_without_a_ratio_are_refused_and_equal_rates_have_ratio_one() {
        assert_eq!(signed_rank(&[], 0.95), None);
        assert_eq!(signed_rank(&[(0.0, 1.0)], 0.95), None);
        let same = signed_rank(&[(3.0, 3.0); 8], 0.95).unwrap();
        assert_eq!((same.p, same.ratio.low, same.ratio.high), (1.0, 1.0, 1.0));
    }

    proptest! {
        #[test]
        fn swapping_the_sides_gives_the_reciprocal_ratio(
            pairs in prop::collection::vec((1.0f64..100.0, 1.0f64..100.0), 1..70)
        ) {
            let swapped: Vec<(f64, f64)> = pairs.iter().map(|&(a, b)| (b, a)).collect();
            let a = signed_rank(&pairs, 0.95).unwrap();
            let b = signed_rank(&swapped, 0.95).unwrap();
            prop_assert!((a.p - b.p).abs() < 1e-9);
            prop_assert!((a.ratio.ratio * b.ratio.ratio - 1.0).abs() < 1e-9);
            prop_assert!((a.ratio.low * b.ratio.high - 1.0).abs() < 1e-9);
        }

        /// A p-value below the level and an interval without 1 are the same statement.
        #[test]
        fn the_interval_and_the_test_agree(
            // No zeros and no two of equal size: only the test treats those specially.
            differences in prop::collection::hash_set(
                (-1000i32..1500).prop_filter("ties", |d| d % 97 != 0),
                6..40,
            )
        ) {
            let pairs: Vec<(f64, f64)> = differences
                .iter()
                .map(|&d| (1.0, (f64::from(d) * 1e-4 + 1e-7 * f64::from(d * d % 97)).exp()))
                .collect();
            let found = signed_rank(&pairs, 0.95).unwrap();
            let outside = found.ratio.low > 1.0 || found.ratio.high < 1.0;
            prop_assert!((found.p < 0.05) == outside, "{:?}", found);
        }
    }
}
