mod two_samples;

use super::*;
use proptest::prelude::*;

const QUIET: [f64; 6] = [100.0, 100.4, 99.7, 100.1, 99.9, 100.2];

fn times(side: &[f64], factor: f64) -> Vec<f64> {
    side.iter().map(|v| v * factor).collect()
}

fn within(threshold: f64) -> CompareOptions {
    CompareOptions { threshold: Some(threshold), ..Default::default() }
}

#[test]
fn a_clear_difference_is_called_by_its_direction() {
    let options = CompareOptions::default();
    let up = compare(&QUIET, &times(&QUIET, 1.05), &options).unwrap();
    assert_eq!((up.verdict, up.test), (Verdict::Faster, Some(Test::MannWhitneyExact)));
    let down = compare(&QUIET, &times(&QUIET, 0.95), &options).unwrap();
    assert_eq!(down.verdict, Verdict::Slower);
}

#[test]
fn a_real_difference_below_the_threshold_is_the_same() {
    let c = compare(&QUIET, &times(&QUIET, 1.011), &within(0.02)).unwrap();
    assert!(c.p < 0.05);
    assert_eq!(c.verdict, Verdict::Same);
}

#[test]
fn noise_beyond_the_threshold_is_inconclusive_and_requires_more_rounds() {
    let noisy = [100.0, 93.0, 107.0, 98.0, 103.0, 95.0];
    let c = compare(&noisy, &times(&noisy, 1.005), &within(0.02)).unwrap();
    let needed = c.rounds_needed.expect("it is open");
    assert!((20..1_000).contains(&needed), "{needed}");
    let wild = [100.0, 40.0, 200.0, 95.0, 158.0, 57.0];
    let c = compare(&wild, &times(&wild, 1.005), &within(0.02)).unwrap();
    assert_eq!(
        (c.verdict, c.rounds_needed),
        (Verdict::Inconclusive, None),
        "advice to run thousands of rounds does not help"
    );
}

#[test]
fn without_a_threshold_nothing_is_the_same() {
    let c = compare(&QUIET, &QUIET, &CompareOptions::default()).unwrap();
    assert_eq!((c.verdict, c.rounds_needed), (Verdict::Inconclusive, None));
}

#[test]
fn three_rounds_are_tested_with_welch_and_can_differ() {
    let c = compare(&QUIET[..3], &times(&QUIET[..3], 1.05), &CompareOptions::default()).unwrap();
    assert_eq!((c.verdict, c.test), (Verdict::Faster, Some(Test::Welch)));
}

#[test]
fn too_few_rounds_are_never_called_the_same() {
    let c = compare(&QUIET[..4], &QUIET[..4], &within(0.02)).unwrap();
    assert_eq!((c.verdict, c.rounds_needed), (Verdict::Inconclusive, Some(5)));
    assert_eq!(compare(&QUIET[..5], &QUIET[..5], &within(0.02)).unwrap().verdict, Verdict::Same);
}

#[test]
fn a_single_round_is_not_evidence() {
    let c = compare(&[100.0], &[200.0], &within(0.02)).unwrap();
    assert_eq!((c.test, c.p), (None, 1.0));
    assert_eq!((c.verdict, c.rounds_needed), (Verdict::Inconclusive, None));
    let alike = compare(&[100.0], &[100.0], &within(0.02)).unwrap();
    assert_eq!((alike.verdict, alike.rounds_needed), (Verdict::Inconclusive, None));
}

#[test]
fn a_testcase_that_stops_is_slower_and_one_that_starts_is_faster_without_a_ratio() {
    let died = compare(&QUIET, &[0.0; 6], &CompareOptions::default()).unwrap();
    assert_eq!((died.verdict, died.ratio.unwrap().ratio), (Verdict::Slower, 0.0));
    let woke = compare(&[0.0; 6], &QUIET, &CompareOptions::default()).unwrap();
    assert_eq!((woke.verdict, woke.ratio), (Verdict::Faster, None));
    let dead = compare(&[0.0; 6], &[0.0; 6], &CompareOptions::default()).unwrap();
    assert_eq!((dead.verdict, dead.rounds_needed), (Verdict::Inconclusive, None));
}

#[test]
fn no_rounds_give_no_comparison_and_do_not_count_as_a_test() {
    let options = CompareOptions::default();
    assert_eq!(compare(&[], &QUIET, &options), None);
    let after = times(&QUIET, 1.05);
    let all =
        compare_all(&[(&QUIET[..], &after[..], Drift::NONE), (&[], &after, Drift::NONE)], &options);
    assert_eq!(all[0].unwrap().adjusted_p, all[0].unwrap().p);
}

#[test]
fn mann_whitney_requires_more_rounds_for_more_points() {
    for (rounds, points, expected) in [
        (4, 1, Test::MannWhitneyExact),
        (4, 2, Test::Welch),
        (6, 18, Test::MannWhitneyExact),
        (8, 100, Test::MannWhitneyExact),
        (10, 4000, Test::MannWhitneyExact),
        (5, 100, Test::Welch),
    ] {
        let before: Vec<f64> = (0..rounds).map(|i| 100.0 + f64::from(i)).collect();
        let after = times(&before, 1.0001);
        let (test, _) = test(&before, &after, points, 0.95).unwrap();
        assert_eq!(test, expected, "{rounds} rounds, {points} points");
    }
}

#[test]
fn one_changed_point_among_a_hundred_is_found_with_five_rounds() {
    let mut random = oorandom::Rand64::new(5);
    let mut rounds =
        |mean: f64| (0..5).map(|_| mean * (0.99 + 0.02 * random.rand_float())).collect();
    let points: Vec<(Vec<f64>, Vec<f64>, Drift)> = (0..100)
        .map(|i| (rounds(100.0), rounds(if i == 37 { 80.0 } else { 100.0 }), Drift::NONE))
        .collect();
    let verdicts = compare_all(&points, &CompareOptions::default());
    for (i, c) in verdicts.iter().enumerate() {
        let called = matches!(c.unwrap().verdict, Verdict::Faster | Verdict::Slower);
        assert_eq!(called, i == 37, "{i}: {c:?}");
    }
}

fn rates() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(50.0..150.0, 2..12)
}

proptest! {
    #[test]
    fn swapping_the_sides_swaps_the_verdict(before in rates(), after in rates()) {
        let options = CompareOptions::default();
        let c = compare(&before, &after, &options).unwrap();
        let s = compare(&after, &before, &options).unwrap();
        let turned = match c.verdict {
            Verdict::Faster => Verdict::Slower,
            Verdict::Slower => Verdict::Faster,
            other => other,
        };
        prop_assert_eq!(turned, s.verdict);
    }

    #[test]
    fn the_unit_does_not_matter(before in rates(), after in rates(), unit in -20i32..20) {
        let options = within(0.02);
        let unit = f64::from(unit).exp2();
        let c = compare(&before, &after, &options).unwrap();
        let s = compare(&times(&before, unit), &times(&after, unit), &options).unwrap();
        prop_assert_eq!(c.verdict, s.verdict);
    }
}

const STEADY: [f64; 6] = [100.0, 100.1, 99.9, 100.2, 99.8, 100.05];

#[test]
fn a_slower_machine_is_not_a_slower_testcase() {
    let compare = |factor, speeds: &[f64]| {
        let drift = Drift::covering(speeds.iter().copied());
        let point = (&STEADY[..], &times(&STEADY, factor)[..], drift);
        compare_all(&[point], &within(0.02))[0].unwrap()
    };
    let verdict = |factor, speeds: &[f64]| compare(factor, speeds).verdict;
    assert_eq!(verdict(0.95, &[]), Verdict::Slower);
    assert_eq!(verdict(0.95, &[0.95]), Verdict::Inconclusive);
    assert_eq!(verdict(0.80, &[0.95]), Verdict::Slower);
    assert_eq!(verdict(1.10, &[0.95]), Verdict::Faster);
    // As fast as before on a machine that is slower: faster if that says it all, the same if not.
    assert_eq!(verdict(1.0, &[0.95]), Verdict::Inconclusive);
    let interval = compare(0.95, &[0.95]).ratio.unwrap();
    assert!(interval.low < 0.951 && interval.high > 0.999, "{interval:?}");
    // Its CPUs became slower, its memory faster.
    assert_eq!(verdict(1.2, &[0.95]), Verdict::Faster);
    assert_eq!(verdict(1.2, &[0.95, 1.3]), Verdict::Inconclusive);
    assert_eq!(verdict(1.4, &[0.95, 1.3]), Verdict::Faster);
    assert_eq!(verdict(0.90, &[0.95, 1.3]), Verdict::Slower);
}

#[test]
fn what_is_left_of_a_change_lies_outside_the_drift() {
    let drift = Drift::covering([0.8, 1.25, f64::NAN, 0.0]);
    assert_eq!([0.8, 1.0, 1.25].map(|ratio| drift.least_change(ratio)), [0.0; 3]);
    assert!((drift.least_change(0.6) - 0.25).abs() < 1e-12);
    assert!((drift.least_change(1.5) - 0.2).abs() < 1e-12);
    assert_eq!(Drift::NONE.least_change(0.5), 0.5);
}

#[test]
fn what_two_rounds_of_a_pair_share_cancels() {
    let machine = [1.0, 0.7, 0.9, 1.2, 0.5, 1.1, 0.8, 1.05];
    let pairs: Vec<(f64, f64)> = machine
        .iter()
        .zip([0.0, 0.1, -0.1, 0.2, 0.15, -0.2, 0.05, 0.3])
        .map(|(speed, noise)| (100.0 * speed, (96.0 + noise) * speed))
        .collect();
    let (before, after): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
    let apart = compare(&before, &after, &options).unwrap();
    assert_eq!(apart.verdict, Verdict::Inconclusive, "{apart:?}");
    let paired = compare_pairs(&[&pairs[..]], &options)[0].unwrap();
    assert_eq!((paired.verdict, paired.test), (Verdict::Slower, Some(Test::SignedRankExact)));
    let same: Vec<(f64, f64)> = pairs.iter().map(|(before, _)| (*before, before * 1.001)).collect();
    assert_eq!(compare_pairs(&[same], &options)[0].unwrap().verdict, Verdict::Same);
}

#[test]
fn a_few_pairs_prove_nothing() {
    let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
    let one = compare_pairs(&[[(1.0, 2.0)]], &options)[0].unwrap();
    assert_eq!((one.verdict, one.rounds_needed), (Verdict::Inconclusive, None));
    let equal = compare_pairs(&[[(1.0, 1.0); 5]], &options)[0].unwrap();
    assert_eq!(equal.verdict, Verdict::Inconclusive);
    assert_eq!(compare_pairs(&[&[] as &[(f64, f64)]], &options), [None]);
}

#[test]
fn at_a_look_a_difference_counts_unless_it_is_surely_below_the_threshold() {
    let options = CompareOptions { looks: Some(crate::Looks::new(0.95, 1, 1)), ..within(0.02) };
    // The ratios of eight pairs spread evenly from `low` to `high`.
    let verdict = |low: f64, high: f64| {
        let pairs: Vec<_> =
            (0..8).map(|i| (1.0, low + (high - low) * f64::from(i) / 7.0)).collect();
        let c = compare_pairs(&[pairs], &options)[0].unwrap();
        (c.verdict, c.rounds_needed)
    };
    assert_eq!(verdict(1.001, 1.025), (Verdict::Faster, None));
    assert_eq!(verdict(0.975, 0.999), (Verdict::Slower, None));
    assert_eq!(verdict(1.001, 1.019), (Verdict::Same, None));
    assert_eq!(verdict(0.985, 1.015), (Verdict::Same, None));
    let (open, rounds) = verdict(0.97, 1.035);
    assert_eq!(open, Verdict::Inconclusive);
    assert!((15..40).contains(&rounds.unwrap()), "{rounds:?}");
}

#[test]
fn at_a_look_the_p_value_is_corrected_for_all_looks_and_points() {
    let looks = crate::Looks::new(0.95, 3, 1);
    let options = CompareOptions { looks: Some(looks), ..within(0.02) };
    let pairs: Vec<_> = (0..looks.first()).map(|i| (1.0, 1.1 + f64::from(i) / 100.0)).collect();
    let c = compare_pairs(&[&pairs[..], &pairs], &options)[0].unwrap();
    assert!((c.adjusted_p - c.p * 4.0 * 3.0).abs() < 1e-12, "{c:?}");
    assert_eq!(c.verdict, Verdict::Faster);
    let c = compare_pairs(&[&pairs[1..]], &options)[0].unwrap();
    assert_eq!((c.verdict, c.test), (Verdict::Inconclusive, None));
}
