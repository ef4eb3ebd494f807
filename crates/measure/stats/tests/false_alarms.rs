//! Comparisons of equal sides: at most the nominal share may be called different.

use knee_stats::{CompareOptions, Verdict, compare};
use oorandom::Rand64;

const PAIRS: usize = 2000;

fn normal(random: &mut Rand64) -> f64 {
    let radius = (-2.0 * (1.0 - random.rand_float()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.rand_float()).cos()
}

/// The share of pairs that are called different, with `rounds` rounds a side, all from `round`.
fn false_alarms(rounds: usize, round: impl Fn(&mut Rand64) -> f64) -> f64 {
    let mut random = Rand64::new(7);
    let different = (0..PAIRS).filter(|_| {
        let mut side = || -> Vec<f64> { (0..rounds).map(|_| round(&mut random)).collect() };
        let comparison = compare(&side(), &side(), &CompareOptions::default()).unwrap();
        matches!(comparison.verdict, Verdict::Faster | Verdict::Slower)
    });
    different.count() as f64 / PAIRS as f64
}

#[track_caller]
fn at_most_nominal(round: impl Fn(&mut Rand64) -> f64) {
    // Welch's test decides two and three rounds, Mann–Whitney the others.
    for rounds in [2, 3, 5, 10] {
        let share = false_alarms(rounds, &round);
        assert!(share <= 0.05, "{rounds} rounds: {share}");
        assert!(share > 0.005, "{rounds} rounds: {share} is a test that sees nothing");
    }
}

#[test]
fn normal_rounds_keep_the_level() {
    at_most_nominal(|random| 100.0 + 3.0 * normal(random));
}

#[test]
fn skewed_rounds_keep_the_level() {
    at_most_nominal(|random| 100.0 * (0.3 * normal(random)).exp());
}

/// The ratio of two normal variates has a Cauchy distribution: no mean, no variance.
#[test]
fn heavy_tailed_rounds_keep_the_level() {
    at_most_nominal(|random| 100.0 * (0.01 * normal(random) / normal(random)).exp());
}
