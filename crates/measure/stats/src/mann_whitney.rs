//! The Mann–Whitney U test: does one set of rounds tend to be greater than the other?
//!
//! H. B. Mann and D. R. Whitney, "On a test of whether one of two random variables is
//! stochastically larger than the other", Annals of Mathematical Statistics 18, 1947. Only the
//! order of the rounds counts, so that an outlier counts no more than any other greatest round.

use statrs::distribution::{ContinuousCDF, Normal};

/// Maximum values a side for which the distribution of U is counted. The greatest count is 40
/// choose 20, far below 2^53, so the counts are exact. For more values, the error of the normal
/// approximation is below 1e-3.
const EXACT_UP_TO: usize = 20;
/// Continuity correction: U is an integer, but the normal distribution is continuous.
const CONTINUITY: f64 = 0.5;

/// Tests `after` against `before`: the two-sided p-value, and whether it is exact, by counting all
/// orders of the values. With equal values, or more than 20 a side, it is a normal approximation
/// with corrections for ties and continuity. `None` if a side is empty. Panics on NaN.
pub(crate) fn mann_whitney(before: &[f64], after: &[f64]) -> Option<(f64, bool)> {
    let (n, m) = (before.len(), after.len());
    if n == 0 || m == 0 {
        return None;
    }
    let (ranks_after, ties) = rank_sum(before, after);
    let pairs = (n * m) as f64;
    let u = ranks_after - (m * (m + 1)) as f64 / 2.0;
    let extreme = u.max(pairs - u);
    if ties == 0.0 && n <= EXACT_UP_TO && m <= EXACT_UP_TO {
        let p = (2.0 * exact_upper_tail(n, m, extreme as usize)).min(1.0);
        return Some((p, true));
    }
    let all = (n + m) as f64;
    let variance = pairs / 12.0 * (all + 1.0 - ties / (all * (all - 1.0)));
    let p = if variance > 0.0 {
        let z = (extreme - pairs / 2.0 - CONTINUITY) / variance.sqrt();
        (2.0 * Normal::standard().sf(z)).min(1.0)
    } else {
        1.0
    };
    Some((p, false))
}

/// The smallest possible two-sided p-value of `n` against `m` values without ties: that of complete
/// separation. It is 0.1 for 3 against 3.
pub(crate) fn mann_whitney_smallest_p(n: usize, m: usize) -> f64 {
    (2.0 * (-crate::binomial::ln_choose(n + m, n)).exp()).min(1.0)
}

/// The sum of the ranks of `after`, with mean ranks for equal values, and Σ(t³ − t) over the groups
/// of t equal values.
fn rank_sum(before: &[f64], after: &[f64]) -> (f64, f64) {
    let mut all: Vec<(f64, bool)> = before.iter().map(|&v| (v, false)).collect();
    all.extend(after.iter().map(|&v| (v, true)));
    all.sort_by(|a, b| a.0.partial_cmp(&b.0).expect("a rate is a number"));
    let (mut sum, mut ties, mut rank) = (0.0, 0.0, 0);
    for group in all.chunk_by(|a, b| a.0 == b.0) {
        let size = group.len() as f64;
        let shared = f64::from(rank) + (size + 1.0) / 2.0;
        sum += shared * group.iter().filter(|(_, is_after)| *is_after).count() as f64;
        ties += size * size * size - size;
        rank += group.len() as u32;
    }
    (sum, ties)
}

/// P(U ≥ u). The numbers of orders with each U are the coefficients of the Gaussian binomial
/// ∏ (1 − q^(n+i)) / (1 − q^i) for i = 1..=m.
fn exact_upper_tail(n: usize, m: usize, u: usize) -> f64 {
    let degree = n * m;
    let mut counts = vec![0i64; degree + 1];
    counts[0] = 1;
    for i in 1..=m {
        for k in (n + i..=degree).rev() {
            counts[k] -= counts[k - n - i];
        }
        for k in i..=degree {
            counts[k] += counts[k - i];
        }
    }
    let upper: i64 = counts[u..].iter().sum();
    upper as f64 / counts.iter().sum::<i64>() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn separated_samples_reach_the_smallest_p() {
        for (n, m, p) in [(3, 3, 0.1), (4, 4, 2.0 / 70.0), (5, 5, 2.0 / 252.0)] {
            let before: Vec<f64> = (0..n).map(f64::from).collect();
            let after: Vec<f64> = (0..m).map(|i| f64::from(i) + 100.0).collect();
            let (found, exact) = mann_whitney(&before, &after).unwrap();
            assert!(exact);
            assert!((found - p).abs() < 1e-12, "{found}");
            assert!((mann_whitney_smallest_p(n as usize, m as usize) - p).abs() < 1e-12);
        }
    }

    #[test]
    fn equal_values_show_no_difference() {
        assert_eq!(mann_whitney(&[1.0; 4], &[1.0; 6]), Some((1.0, false)));
    }

    #[test]
    fn the_approximation_continues_the_exact_test() {
        let side = |n: u32, shift: f64| -> Vec<f64> {
            (0..n).map(|i| f64::from(i * 37 % n) + shift).collect()
        };
        let exact = mann_whitney(&side(20, 0.0), &side(20, 4.3)).unwrap();
        let approximate = mann_whitney(&side(21, 0.0), &side(20, 4.3)).unwrap();
        assert_eq!((exact.1, approximate.1), (true, false));
        assert!((exact.0 - approximate.0).abs() < 0.05, "{exact:?} {approximate:?}");
    }

    fn side() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec((1u32..60).prop_map(f64::from), 1..30)
    }

    proptest! {
        #[test]
        fn swapping_the_sides_keeps_p(before in side(), after in side()) {
            let a = mann_whitney(&before, &after).unwrap();
            let b = mann_whitney(&after, &before).unwrap();
            prop_assert!((a.0 - b.0).abs() < 1e-12);
        }

        #[test]
        fn only_the_order_counts(before in side(), after in side()) {
            let stretched = |side: &[f64]| side.iter().map(|v| v.exp2()).collect::<Vec<_>>();
            prop_assert_eq!(
                mann_whitney(&before, &after),
                mann_whitney(&stretched(&before), &stretched(&after))
            );
        }
    }
}
