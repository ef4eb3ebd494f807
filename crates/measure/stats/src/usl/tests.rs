mod published;

use super::*;
use proptest::prelude::*;

const TASKS: [u32; 8] = [1, 2, 4, 8, 16, 32, 48, 64];

/// Five rounds around each point of the law; a neighbour slows down one in twenty.
fn measured(model: Usl, tasks: &[u32], spread: f64, seed: u128) -> Vec<(u32, Vec<f64>)> {
    let mut random = oorandom::Rand64::new(seed);
    let mut round = |x: f64| {
        let hit = if random.rand_float() < 0.05 { 0.7 } else { 1.0 };
        x * hit * (1.0 + spread * (random.rand_float() - 0.5))
    };
    tasks
        .iter()
        .map(|&n| (n, (0..5).map(|_| round(model.throughput(f64::from(n)))).collect()))
        .collect()
}

fn holds(estimate: Estimate, truth: f64) -> bool {
    estimate.interval.is_some_and(|(low, high)| low <= truth && truth <= high)
}

#[test]
fn a_contended_curve_gives_its_coefficients_and_its_peak() {
    let truth = Usl { lambda: 1e6, sigma: 0.03, kappa: 6e-4 };
    let fit = fit(&measured(truth, &TASKS, 0.02, 1), &FitOptions::default()).unwrap();
    assert!(!fit.is_amdahl);
    assert!(holds(fit.lambda, 1e6) && holds(fit.sigma, 0.03) && holds(fit.kappa, 6e-4), "{fit:?}");
    assert!(holds(fit.peak.unwrap(), truth.peak().unwrap()), "{fit:?}");
    assert!(fit.r_squared.unwrap() > 0.995);
    assert_eq!((fit.is_prediction, fit.basis), (true, Basis::Rounds));
}

#[test]
fn without_coherency_cost_the_law_is_amdahls() {
    let truth = Usl { lambda: 100.0, sigma: 0.1, kappa: 0.0 };
    let fit = fit(&measured(truth, &TASKS, 0.02, 2), &FitOptions::default()).unwrap();
    assert!(fit.is_amdahl && fit.peak.is_none());
    assert_eq!((fit.model.kappa, fit.kappa.value), (0.0, 0.0));
    assert!(holds(fit.sigma, 0.1) && holds(fit.kappa, 0.0), "{fit:?}");
    assert!((fit.model.speedup_limit().unwrap() - 10.0).abs() < 0.5);
}

#[test]
fn a_fit_to_fewer_than_six_points_is_not_a_prediction() {
    let truth = Usl { lambda: 100.0, sigma: 0.1, kappa: 0.01 };
    let is_prediction = |tasks| {
        fit(&measured(truth, tasks, 0.02, 3), &FitOptions::default()).unwrap().is_prediction
    };
    assert!(!is_prediction(&TASKS[..5]));
    assert!(is_prediction(&TASKS[..6]));
}

#[test]
fn fewer_than_three_points_cannot_be_fitted() {
    let rounds = [(1, vec![1.0]), (2, vec![2.0]), (2, vec![2.1]), (4, vec![])];
    assert_eq!(fit(&rounds, &FitOptions::default()), Err(Unfit::TooFewPoints(2)));
    let dead = TASKS.map(|n| (n, vec![0.0; 3]));
    assert_eq!(fit(&dead, &FitOptions::default()), Err(Unfit::NoThroughput));
}

#[test]
fn single_rounds_have_intervals_from_the_residuals() {
    let truth = Usl { lambda: 100.0, sigma: 0.05, kappa: 0.002 };
    let mut rounds = measured(truth, &TASKS, 0.02, 4);
    rounds.iter_mut().for_each(|(_, rates)| rates.truncate(1));
    let of_all = fit(&rounds, &FitOptions::default()).unwrap();
    assert_eq!(of_all.basis, Basis::Residuals);
    let (low, high) = of_all.kappa.interval.unwrap();
    assert!(low < of_all.kappa.value && of_all.kappa.value < high);
    let of_three = fit(&rounds[..3], &FitOptions::default()).unwrap();
    assert_eq!((of_three.basis, of_three.sigma.interval), (Basis::Nothing, None));
}

#[test]
fn the_same_rounds_and_seed_give_the_same_fit() {
    let rounds = measured(Usl { lambda: 9.0, sigma: 0.2, kappa: 0.001 }, &TASKS, 0.1, 5);
    let mut reversed = rounds.clone();
    reversed.reverse();
    let options = FitOptions::default();
    assert_eq!(fit(&rounds, &options), fit(&reversed, &options));
}

/// The intervals are for the whole curve, so a few rounds of each point are enough.
#[test]
fn the_intervals_contain_the_truth_as_often_as_their_confidence() {
    let truth = Usl { lambda: 100.0, sigma: 0.05, kappa: 0.001 };
    let options = FitOptions { resamples: 300, ..Default::default() };
    let mut held = [0; 3];
    let runs = 200;
    for seed in 0..runs {
        let fit = fit(&measured(truth, &TASKS, 0.04, seed), &options).unwrap();
        held[0] += usize::from(holds(fit.lambda, truth.lambda));
        held[1] += usize::from(holds(fit.sigma, truth.sigma));
        held[2] += usize::from(holds(fit.kappa, truth.kappa));
    }
    // Nominally 190 of 200; binomial(200, 0.95) is below 180 once in 300.
    assert!(held.iter().all(|&held| held >= 180), "{held:?} of {runs}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn the_unit_of_throughput_scales_lambda_only(seed in 0u128..1000, unit in -20i32..20) {
        let unit = f64::from(unit).exp2();
        let rounds = measured(Usl { lambda: 100.0, sigma: 0.05, kappa: 0.002 }, &TASKS, 0.05, seed);
        let scaled: Vec<_> = rounds
            .iter()
            .map(|(n, rates)| (*n, rates.iter().map(|r| r * unit).collect()))
            .collect();
        let options = FitOptions { resamples: 50, ..Default::default() };
        let (a, b) = (fit(&rounds, &options).unwrap(), fit(&scaled, &options).unwrap());
        prop_assert!((b.model.lambda / a.model.lambda / unit - 1.0).abs() < 1e-6);
        prop_assert!((b.model.sigma - a.model.sigma).abs() < 1e-6);
        prop_assert!((b.model.kappa - a.model.kappa).abs() < 1e-8);
    }
}
