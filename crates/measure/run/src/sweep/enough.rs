//! Whether the clean rounds of a point give the requested answer. Each look at the rounds takes its
//! share of the error probability.

use knee_results::UntilDecided;
use knee_stats::{CompareOptions, Looks, Verdict, compare_pairs, median_interval};

/// Whether the interval of the median is within a share `precision` of it, or no look is left.
pub(super) fn is_precise(rates: &[f64], precision: f64, confidence: f64, looks: &Looks) -> bool {
    look(rates.len(), looks).unwrap_or_else(|| {
        let confidence = looks.confidence(rates.len(), confidence);
        median_interval(rates, confidence)
            .is_some_and(|interval| interval.relative_half_width() <= precision)
    })
}

/// Whether the pairs of rates, before and after, differ or are the same, or no look is left.
pub(super) fn is_decided(pairs: &[(f64, f64)], asked: UntilDecided, looks: &Looks) -> bool {
    look(pairs.len(), looks).unwrap_or_else(|| {
        let options = CompareOptions {
            confidence: asked.confidence,
            threshold: Some(asked.within),
            looks: Some(*looks),
        };
        let comparison = compare_pairs(&[pairs], &options).pop().flatten();
        comparison.is_some_and(|c| c.verdict != Verdict::Inconclusive)
    })
}

/// The answer without a test of `n` rounds: between two looks they do not suffice, and after the
/// last look they do.
fn look(n: usize, looks: &Looks) -> Option<bool> {
    let n = u32::try_from(n).unwrap_or(u32::MAX);
    match n > looks.last() {
        true => Some(true),
        false => (!looks.is_look(n)).then_some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ASKED: UntilDecided = UntilDecided { within: 0.02, confidence: 0.95 };

    fn looks() -> Looks {
        Looks::new(0.95, 1, 1)
    }

    /// Whether each of the first `n` round counts suffices.
    fn each(n: usize, suffices: impl Fn(usize) -> bool) -> Vec<usize> {
        (1..=n).filter(|&n| suffices(n)).collect()
    }

    #[test]
    fn quiet_rounds_suffice_at_looks_only() {
        let decided = |ratio: f64| {
            each(17, |n| is_decided(&vec![(100.0, 100.0 * ratio); n], ASKED, &looks()))
        };
        assert_eq!(decided(1.5), [8, 11, 16]);
        assert_eq!(decided(1.0), [8, 11, 16]);
        let precise = each(17, |n| is_precise(&vec![100.0; n], 0.01, 0.95, &looks()));
        assert_eq!(precise, [8, 11, 16]);
    }

    #[test]
    fn noisy_rounds_need_a_later_look_and_end_after_the_last() {
        // Evenly from 95 to 105.
        let noisy = |n| (0..n).map(|i| f64::from(95 + i * 4 % 11)).collect::<Vec<f64>>();
        let precise = |n| is_precise(&noisy(n as u32), 0.03, 0.95, &looks());
        assert_eq!(each(40, precise), [32]);
        let pairs = |n| noisy(n as u32).iter().map(|&rate| (100.0, rate)).collect::<Vec<_>>();
        let decided = |n| is_decided(&pairs(n), ASKED, &looks());
        assert_eq!(each(45, decided), [45]);
        let last = looks().last() as usize;
        let impossible = |n| is_precise(&noisy(n as u32), 0.0, 0.95, &looks());
        assert_eq!([last, last + 1].map(impossible), [false, true]);
    }

    #[test]
    fn more_points_require_more_pairs() {
        let suffices = |n| is_decided(&vec![(2.0, 3.0); n], ASKED, &Looks::new(0.95, 24, 1));
        assert_eq!(each(12, suffices), [12]);
    }
}
