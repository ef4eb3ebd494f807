//! Welch's t-test: do two sets of rounds of unequal spread have the same mean?
//!
//! B. L. Welch, "The generalization of 'Student's' problem when several different population
//! variances are involved", Biometrika 34, 1947. It needs a mean that means something; rounds
//! with a long tail make it miss differences rather than invent them.

use statrs::distribution::{ContinuousCDF, StudentsT};

/// The result of Welch's test.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// Mean after less mean before.
    pub difference: f64,
    /// Lower end of the interval of the difference.
    pub low: f64,
    /// Upper end of the interval of the difference.
    pub high: f64,
    /// The difference over its standard error; infinite when neither side varies and they differ.
    pub t: f64,
    /// Degrees of freedom after Welch and Satterthwaite, not a whole number.
    pub degrees: f64,
    /// Two-sided p-value.
    pub p: f64,
}

/// Tests `after` against `before`, with the interval of the difference of means at `confidence`
/// (0 to 1, exclusive). `None` for fewer than two values on a side.
pub fn welch(before: &[f64], after: &[f64], confidence: f64) -> Option<Welch> {
    let (a, b) = (Side::of(before)?, Side::of(after)?);
    let difference = b.mean - a.mean;
    let variance = a.variance_of_mean + b.variance_of_mean;
    if variance == 0.0 {
        let (t, p) =
            if difference == 0.0 { (0.0, 1.0) } else { (difference.signum() * f64::INFINITY, 0.0) };
        let degrees = a.degrees + b.degrees;
        return Some(Welch { difference, low: difference, high: difference, t, degrees, p });
    }
    // As shares of the sum, so that neither tiny nor huge rates leave the range of a float.
    let share = a.variance_of_mean / variance;
    let degrees = 1.0 / (share * share / a.degrees + (1.0 - share) * (1.0 - share) / b.degrees);
    let error = variance.sqrt();
    let t = difference / error;
    let student = StudentsT::new(0.0, 1.0, degrees).expect("the degrees are at least 1");
    let p = (2.0 * student.sf(t.abs())).min(1.0);
    let half = error * student.inverse_cdf((1.0 + confidence) / 2.0);
    Some(Welch { difference, low: difference - half, high: difference + half, t, degrees, p })
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
        assert_eq!(welch(&[1.0], &[1.0, 2.0], 0.95), None);
    }

    #[test]
    fn constant_sides_differ_surely_or_not_at_all() {
        assert_eq!(welch(&[0.1; 3], &[0.1; 5], 0.95).unwrap().p, 1.0);
        let apart = welch(&[0.1; 3], &[0.2; 3], 0.95).unwrap();
        assert_eq!((apart.p, apart.t), (0.0, f64::INFINITY));
    }

    fn side() -> impl Strategy<Value = Vec<f64>> {
        prop::collection::vec(1.0..1e3, 2..20)
    }

    proptest! {
        #[test]
        fn swapping_the_sides_turns_the_sign_only(before in side(), after in side()) {
            let (w, s) = (welch(&before, &after, 0.95).unwrap(), welch(&after, &before, 0.95).unwrap());
            prop_assert!((w.p - s.p).abs() < 1e-9);
            prop_assert!((w.low + s.high).abs() < 1e-6 * w.high.abs().max(1.0));
        }

        #[test]
        fn the_unit_does_not_matter(before in side(), after in side(), unit in 1e-3..1e3) {
            let scaled = |side: &[f64]| side.iter().map(|v| v * unit).collect::<Vec<_>>();
            let w = welch(&before, &after, 0.95).unwrap();
            let s = welch(&scaled(&before), &scaled(&after), 0.95).unwrap();
            prop_assert!((w.p - s.p).abs() < 1e-9);
        }

        #[test]
        fn the_interval_excludes_zero_when_the_test_is_significant(before in side(), after in side()) {
            let w = welch(&before, &after, 0.95).unwrap();
            prop_assume!((w.p - 0.05).abs() > 1e-6);
            prop_assert_eq!(w.p < 0.05, w.low > 0.0 || w.high < 0.0);
        }
    }
}
