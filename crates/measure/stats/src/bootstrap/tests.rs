use super::*;
use proptest::prelude::*;

fn shares(values: &[f64]) -> Vec<(f64, f64)> {
    let mut below = 0.0;
    MedianBootstrap::of(values)
        .unwrap()
        .cumulated
        .iter()
        .map(|&(value, cumulated)| {
            let share = cumulated - below;
            below = cumulated;
            (value, share)
        })
        .collect()
}

/// All nⁿ resamples, counted.
fn enumerated(values: &[f64]) -> Vec<(f64, f64)> {
    let n = values.len();
    let resamples = n.pow(n as u32);
    let mut counts = std::collections::BTreeMap::new();
    for code in 0..resamples {
        let picked: Vec<f64> = (0..n).map(|digit| values[code / n.pow(digit as u32) % n]).collect();
        *counts.entry((median(&picked).unwrap() * 2.0) as u64).or_insert(0u32) += 1;
    }
    let total = resamples as f64;
    counts.into_iter().map(|(k, count)| (k as f64 / 2.0, f64::from(count) / total)).collect()
}

#[test]
fn the_exact_distribution_is_that_of_all_resamples() {
    // Powers of two, so that no two pairs have the same middle.
    for n in 1..=7 {
        let values: Vec<f64> = (0..n).map(|i| f64::from(1 << i)).collect();
        let (exact, counted) = (shares(&values), enumerated(&values));
        assert_eq!(exact.len(), counted.len(), "{n}");
        for (a, b) in exact.iter().zip(&counted) {
            assert_eq!(a.0, b.0);
            assert!((a.1 - b.1).abs() < 1e-12, "n = {n}: {a:?} {b:?}");
        }
    }
}

#[test]
fn many_rounds_lose_no_probability() {
    for n in [99, 100, 1001, 2000] {
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        let sum: f64 = shares(&values).iter().map(|&(_, p)| p).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{n}");
        let r = ratio_of_medians(&values, &values, 0.95).unwrap();
        assert!(0.7 < r.low && r.low < 1.0 && 1.0 < r.high && r.high < 1.4, "{r:?}");
    }
}

/// The median of many draws is normally distributed. Its variance is n/4 rounds, as that of the binomial distribution.
#[test]
fn the_median_of_many_rounds_has_the_known_variance() {
    for n in [9_999, 10_000] {
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        let middle = f64::from(n + 1) / 2.0;
        let variance: f64 =
            shares(&values).iter().map(|&(value, p)| p * (value - middle).powi(2)).sum();
        assert!((variance / (f64::from(n) / 4.0) - 1.0).abs() < 0.01, "{n}: {variance}");
    }
}

/// The two middle draws are the same round with a probability that hardly depends on the number of rounds.
#[test]
fn many_rounds_have_different_middle_draws_as_often_as_few_have() {
    let differ = |n: i32| {
        let values: Vec<f64> = (1..=n).map(f64::from).collect();
        let differing = shares(&values).into_iter().filter(|&(value, _)| value.fract() > 0.0);
        differing.map(|(_, p)| p).sum::<f64>()
    };
    let (few, many) = (differ(100), differ(4000));
    assert!((few - many).abs() < 0.02 && few > 0.1, "{few} {many}");
}

#[test]
fn constant_rounds_have_a_sharp_ratio() {
    let r = ratio_of_medians(&[3.0; 5], &[6.0; 4], 0.95).unwrap();
    assert_eq!((r.low, r.ratio, r.high), (2.0, 2.0, 2.0));
}

#[test]
fn a_side_without_throughput_has_ratio_zero_and_cannot_be_the_base() {
    let r = ratio_of_medians(&[3.0; 5], &[0.0; 5], 0.95).unwrap();
    assert_eq!((r.low, r.ratio, r.high), (0.0, 0.0, 0.0));
    assert_eq!(ratio_of_medians(&[0.0; 5], &[3.0; 5], 0.95), None);
    assert_eq!(ratio_of_medians(&[], &[3.0], 0.95), None);
}

#[test]
fn the_interval_contains_the_true_ratio_as_often_as_its_confidence() {
    let mut random = oorandom::Rand64::new(3);
    for n in [5, 10] {
        let covered = (0..3000)
            .filter(|_| {
                let mut side = || -> Vec<f64> {
                    (0..n).map(|_| 10.0 - (1.0 - random.rand_float()).ln()).collect()
                };
                let r = ratio_of_medians(&side(), &side(), 0.95).unwrap();
                (r.low..=r.high).contains(&1.0)
            })
            .count();
        let share = covered as f64 / 3000.0;
        assert!((0.94..0.985).contains(&share), "n = {n}: {share}");
    }
}

#[test]
fn a_ratio_that_overflows_is_none() {
    assert_eq!(ratio_of_medians(&[1e-300; 3], &[1e30; 3], 0.95), None);
    assert_eq!(ratio_of_medians(&[1e-300, 1.0, 1.0], &[1e30; 3], 0.95), None);
}

fn rates() -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(1.0..1e9, 1..24)
}

proptest! {
    #[test]
    fn the_ratio_lies_in_its_interval(before in rates(), after in rates()) {
        let r = ratio_of_medians(&before, &after, 0.95).unwrap();
        prop_assert!(r.low <= r.ratio * (1.0 + CLOSE) && r.ratio <= r.high * (1.0 + CLOSE));
    }

    #[test]
    fn the_unit_does_not_matter(before in rates(), after in rates(), unit in 1e-6..1e6) {
        let r = ratio_of_medians(&before, &after, 0.95).unwrap();
        let scaled = |side: &[f64]| side.iter().map(|v| v * unit).collect::<Vec<_>>();
        let s = ratio_of_medians(&scaled(&before), &scaled(&after), 0.95).unwrap();
        prop_assert!((s.low / r.low - 1.0).abs() < 1e-9, "{r:?} {s:?}");
        prop_assert!((s.high / r.high - 1.0).abs() < 1e-9, "{r:?} {s:?}");
    }

    #[test]
    fn swapping_the_sides_gives_the_reciprocals(before in rates(), after in rates()) {
        let r = ratio_of_medians(&before, &after, 0.95).unwrap();
        let s = ratio_of_medians(&after, &before, 0.95).unwrap();
        prop_assert!((s.low * r.high - 1.0).abs() < 1e-9, "{r:?} {s:?}");
        prop_assert!((s.high * r.low - 1.0).abs() < 1e-9, "{r:?} {s:?}");
    }
}
