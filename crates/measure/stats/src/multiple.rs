//! Many tests at once: limits the share of false claims, not the chance of a single one.
//!
//! A hundred unchanged points tested at 5% give five false claims. Benjamini and Hochberg
//! ("Controlling the false discovery rate", Journal of the Royal Statistical Society B 57, 1995)
//! keep the expected share of false claims among all claims below a chosen level.

/// Adjusted p-values, in the order of `p_values`. Claim a difference if one is below the level.
pub fn benjamini_hochberg(p_values: &[f64]) -> Vec<f64> {
    let m = p_values.len() as f64;
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&a, &b| p_values[b].total_cmp(&p_values[a]));
    let mut adjusted = vec![0.0; p_values.len()];
    let mut least = 1.0_f64;
    for (from_top, &i) in order.iter().enumerate() {
        let rank = m - from_top as f64;
        least = least.min(p_values[i] * m / rank);
        adjusted[i] = least;
    }
    adjusted
}

/// Adjusted p-values, in the order of `p_values`, by the union bound: the chance of any false claim is
/// below the level, however the tests depend on each other (Dunn, "Multiple comparisons among means",
/// Journal of the American Statistical Association 56, 1961).
pub fn union_bound(p_values: &[f64]) -> Vec<f64> {
    let tests = p_values.len() as f64;
    p_values.iter().map(|p| (p * tests).min(1.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The fifteen p-values of section 3.2 of the paper: four claims at 5%.
    #[test]
    fn the_example_of_the_paper_claims_four() {
        let p = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262,
            0.5719, 0.6528, 0.7590, 1.0000,
        ];
        let adjusted = benjamini_hochberg(&p);
        assert_eq!(adjusted.iter().filter(|&&p| p <= 0.05).count(), 4);
        assert!((adjusted[3] - 0.0095 * 15.0 / 4.0).abs() < 1e-12);
        assert!((adjusted[4] - 0.0201 * 15.0 / 5.0).abs() < 1e-12);
    }

    #[test]
    fn a_single_test_is_not_adjusted() {
        assert_eq!(benjamini_hochberg(&[0.03]), [0.03]);
        assert!(benjamini_hochberg(&[]).is_empty());
        assert_eq!(union_bound(&[0.03]), [0.03]);
    }

    proptest! {
        #[test]
        fn adjusting_keeps_the_order_and_never_lowers(p in prop::collection::vec(0.0..=1.0, 1..50)) {
            let adjusted = benjamini_hochberg(&p);
            prop_assert!(adjusted.iter().zip(union_bound(&p)).all(|(a, bound)| *a <= bound + 1e-12));
            for (i, a) in adjusted.iter().enumerate() {
                prop_assert!(*a >= p[i] - 1e-12 && *a <= 1.0);
                for (j, b) in adjusted.iter().enumerate() {
                    prop_assert!(p[i] > p[j] || a <= b, "{i} {j}");
                }
            }
        }
    }
}
