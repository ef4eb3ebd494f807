//! Welch's t-test: do two sets of rounds with unequal variances have the same mean?
//!
//! B. L. Welch, "The generalization of 'Student's' problem when several different population
//! variances are involved", Biometrika 34, 1947. It compares means. Rounds with a long tail make it
//! miss differences; they do not make it report false ones.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The two-sided p-value of `after` against `before`. `None` for fewer than two values on a side.
pub(crate) fn welch(before: &[f64], after: &[f64]) -> Option<f64> {
    let (a, b) = (Side::of(before)?, Side::of(after)?);
    let variance = a.variance_of_mean + b.variance_of_mean;
    if variance == 0.0 {
        return Some(if a.mean == b.mean { 1.0 } else { 0.0 });
    }
    // As shares of the sum, so that neither tiny nor huge rates leave the range of a float.
    let share = a.variance_of_mean / variance;
    let degrees = 1.0 / (share * share / a.degrees + (1.0 - share) * (1.0 - share) / b.degrees);
    let t = (b.mean - a.mean) / variance.sqrt();
    let student = StudentsT::new(0.0, 1.0, degrees).expect("the degrees are at least 1");
    Some((2.0 * student.sf(t.abs())).min(1.0))
}

struct Side {
    mean: f64,
    variance_of_mean: f64,
    degrees: f64,
}

impl Side {
    fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let n = values.len() as f64;
        // Equal values have no spread; their computed mean can differ from them in the last bit.
        if values.iter().all(|v| *v == values[0]) {
            return Some(Self { mean: values[0], variance_of_mean: 0.0, degrees: n - 1.0 });
        }
        let mean = values.iter().sum::<f64>() / n;
        let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
        Some(Self { mean, variance_of_mean: squares / (n - 1.0) / n, degrees: n - 1.0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_value_cannot_be_tested() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
    }

    #[test]
    fn constant_sides_have_a_p_value_of_0_or_1() {
        assert_eq!(welch(&[0.1; 3], &[0.1; 5]), Some(1.0));
        assert_eq!(welch(&[0.1; 3], &[0.2; 3]), Some(0.0));
    }

    fn side() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(1.0..1e3, 2..20)
    }

    proptest! {
        #[test]
        fn swapping_the_sides_keeps_p(before in side(), after in side()) {
            let (p, swapped) = (welch(&before, &after).unwrap(), welch(&after, &before).unwrap());
            prop_assert!((p - swapped).abs() < 1e-9);
        }

        #[test]
        fn the_unit_does_not_matter(before in side(), after in side(), unit in 1e-3..1e3) {
            let scaled = |side: &[f64]| side.iter().map(|v| v * unit).collect::<Vec<_>>();
            let p = welch(&before, &after).unwrap();
            prop_assert!((p - welch(&scaled(&before), &scaled(&after)).unwrap()).abs() < 1e-9);
        }
    }
}
