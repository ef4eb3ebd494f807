//! Runs that stop as soon as their answer is known: their claims keep the error probability of a
//! single test.

use knee_stats::{CompareOptions, Looks, Verdict, compare_pairs, median, median_interval};
use oorandom::Rand64;

/// Simulated runs of each kind. The standard error of a share of 5% is then 1.3%, and our shares
/// are half of it or less.
const RUNS: usize = 300;
/// Most rounds of a simulated run: six looks.
const ROUNDS: usize = 45;
/// The smallest difference that matters.
const WITHIN: f64 = 0.02;

fn normal(random: &mut Rand64) -> f64 {
    let radius = (-2.0 * (1.0 - random.rand_float()).ln()).sqrt();
    radius * (std::f64::consts::TAU * random.rand_float()).cos()
}

/// The rate of a round whose true median is 1.
type Round = fn(&mut Rand64) -> f64;

const NOISES: [(&str, Round); 4] = [
    ("normal", |random| 1.0 + 0.05 * normal(random)),
    ("lognormal", |random| (0.3 * normal(random)).exp()),
    // The logarithm has a Cauchy distribution: no mean, no variance.
    ("heavy-tailed", |random| (0.01 * normal(random) / normal(random)).exp()),
    ("contaminated", |random| {
        let is_hit = random.rand_float() < 0.2;
        (1.0 + 0.02 * normal(random)) * if is_hit { 0.6 } else { 1.0 }
    }),
];

/// The verdict at which a run stops and its rounds. The second side is `ratio` times as fast.
fn verdict(
    random: &mut Rand64,
    round: Round,
    ratio: f64,
    options: &CompareOptions,
    is_look: impl Fn(u32) -> bool,
) -> (Verdict, usize) {
    let mut pairs = Vec::new();
    while pairs.len() < ROUNDS {
        pairs.push((round(random), ratio * round(random)));
        if is_look(pairs.len() as u32) {
            let verdict = compare_pairs(&[&pairs], options)[0].unwrap().verdict;
            if verdict != Verdict::Inconclusive {
                return (verdict, pairs.len());
            }
        }
    }
    (Verdict::Inconclusive, ROUNDS)
}

/// The share of runs whose verdict `is_wrong`.
fn wrong(
    round: Round,
    ratio: f64,
    options: &CompareOptions,
    is_look: impl Fn(u32) -> bool,
    is_wrong: impl Fn(Verdict) -> bool,
) -> f64 {
    let mut random = Rand64::new(7);
    let wrong = (0..RUNS)
        .filter(|_| is_wrong(verdict(&mut random, round, ratio, options, &is_look).0))
        .count();
    wrong as f64 / RUNS as f64
}

fn planned() -> (Looks, CompareOptions) {
    let looks = Looks::new(0.95, 1, 1);
    let options =
        CompareOptions { threshold: Some(WITHIN), looks: Some(looks), ..Default::default() };
    (looks, options)
}

#[test]
fn equal_sides_are_rarely_called_different_under_any_noise() {
    // Without a threshold, a run ends only with a claim or after its last round.
    let (looks, options) = planned();
    let options = CompareOptions { threshold: None, ..options };
    for (noise, round) in NOISES {
        let share = wrong(round, 1.0, &options, |n| looks.is_look(n), Verdict::is_change);
        assert!(share <= 0.05, "{noise}: {share}");
        assert!(share > 0.002, "{noise}: {share} is a test that sees nothing");
    }
}

#[test]
fn few_runs_of_several_equal_points_have_any_claim() {
    const POINTS: usize = 4;
    let looks = Looks::new(0.95, POINTS, 1);
    let options = CompareOptions { looks: Some(looks), ..Default::default() };
    let (_, round) = NOISES[0];
    let mut random = Rand64::new(7);
    let mut claims = |_: &usize| {
        let is_look = |n| looks.is_look(n);
        let mut point = || verdict(&mut random, round, 1.0, &options, is_look).0.is_change();
        (0..POINTS).any(|_| point())
    };
    let share = (0..RUNS).filter(&mut claims).count() as f64 / RUNS as f64;
    assert!(share <= 0.05, "{share}");
    assert!(share > 0.002, "{share} is a test that sees nothing");
}

#[test]
fn a_plain_test_after_each_round_calls_equal_sides_different() {
    for (noise, round) in NOISES {
        let each_of_24 = |n| n <= 24;
        let share = wrong(round, 1.0, &CompareOptions::default(), each_of_24, Verdict::is_change);
        assert!(share > 0.12, "{noise}: {share}");
    }
}

#[test]
fn a_difference_beyond_the_threshold_is_rarely_called_the_same() {
    let (looks, options) = planned();
    for (noise, round) in NOISES {
        let is_same = |verdict| verdict == Verdict::Same;
        let share = wrong(round, 1.0 + 1.001 * WITHIN, &options, |n| looks.is_look(n), is_same);
        assert!(share <= 0.05, "{noise}: {share}");
    }
}

#[test]
fn two_percent_are_found_soon_beside_noise_of_one_percent() {
    let (looks, options) = planned();
    let mut random = Rand64::new(7);
    // A pair differs by 1% if each side varies by 0.7%.
    let round: Round = |random| 1.0 + 0.01 / std::f64::consts::SQRT_2 * normal(random);
    for (ratio, expected) in [(1.0 - WITHIN, Verdict::Slower), (1.0, Verdict::Same)] {
        let runs: Vec<_> = (0..RUNS)
            .map(|_| verdict(&mut random, round, ratio, &options, |n| looks.is_look(n)))
            .collect();
        let right = runs.iter().filter(|(verdict, _)| *verdict == expected).count();
        assert!(right >= RUNS * 98 / 100, "{expected:?}: {right}");
        let pairs = runs.iter().map(|(_, pairs)| *pairs as f64).sum::<f64>() / RUNS as f64;
        assert!(pairs < 11.0, "{expected:?} after {pairs} pairs");
    }
}

/// Two modes, as of a cache that aliases in some processes. Until a run has met both of them, its
/// interval is narrow and may miss the median. It is narrow again when one mode outweighs the other,
/// which need not be the right one.
fn bimodal(random: &mut Rand64) -> f64 {
    let is_fast = random.rand_float() < 0.51;
    (if is_fast { 1.0 } else { 0.9 }) + 0.001 * normal(random)
}

/// The share of runs whose interval contains the true median when it is within ±`precision`.
fn coverage(
    round: Round,
    precision: f64,
    confidence: impl Fn(usize) -> f64,
    is_look: impl Fn(u32) -> bool,
) -> f64 {
    let mut random = Rand64::new(11);
    let many: Vec<f64> = (0..100_001).map(|_| round(&mut random)).collect();
    let truth = median(&many).unwrap();
    let covers = |random: &mut Rand64| {
        let mut rates = Vec::new();
        loop {
            rates.push(round(random));
            let n = rates.len();
            if !is_look(n as u32) && n < 4 * ROUNDS {
                continue;
            }
            let interval = median_interval(&rates, confidence(n)).unwrap();
            if interval.relative_half_width() <= precision || n >= 4 * ROUNDS {
                return (interval.low..=interval.high).contains(&truth);
            }
        }
    };
    (0..RUNS).filter(|_| covers(&mut random)).count() as f64 / RUNS as f64
}

#[test]
fn the_interval_at_which_a_run_stops_keeps_its_coverage() {
    let looks = Looks::new(0.95, 1, 1);
    let noises = NOISES.into_iter().zip([0.02, 0.15, 0.01, 0.01]);
    for ((noise, round), precision) in noises.chain([(("bimodal", bimodal as Round), 0.01)]) {
        let planned =
            coverage(round, precision, |n| looks.confidence(n, 0.95), |n| looks.is_look(n));
        assert!(planned >= 0.95, "{noise}: {planned:?}");
    }
}

#[test]
fn a_plain_interval_after_each_round_misses_one_of_two_modes() {
    let naive = coverage(bimodal, 0.01, |_| 0.95, |n| n >= 6);
    assert!(naive < 0.9, "{naive}");
}
