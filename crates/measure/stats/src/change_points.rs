//! Finds when a series of runs changed: E-divisive.
//!
//! D. S. Matteson and N. A. James, "A nonparametric approach for multiple change point analysis
//! of multivariate data", Journal of the American Statistical Association 109, 2014. Two
//! stretches of the series are compared by their energy distance, twice the mean distance
//! between values of different stretches less the mean distances within each. The split with the
//! greatest distance, weighted by the lengths of the stretches, is the candidate. It is kept if
//! shuffling the runs, within the segments found so far, rarely gives a distance as great; then the
//! segments are searched again. With distances |x − y|, it detects changes of spread as well as of
//! level. MongoDB's continuous integration uses it to find regressions
//! (D. Daly et al., "The use of change point detection to identify software performance
//! regressions in a continuous integration system", ICPE 2020).

use crate::median;

/// Tolerance for rounding: shuffles that divide the values into the same two groups sum their
/// distances in another order, and are as great.
const ROUNDING: f64 = 1e-9;

/// Settings of the search for change points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangeOptions {
    /// Maximum p-value of a change point.
    pub significance: f64,
    /// Shuffles per candidate; the smallest possible p-value is 1 / (permutations + 1).
    pub permutations: u32,
    /// Minimum number of runs between two changes. At least 2, because a distance within a segment
    /// requires two runs.
    pub shortest_segment: usize,
    /// Seed of the shuffles: the same series and seed give the same result.
    pub seed: u64,
}

impl Default for ChangeOptions {
    /// A significance of 1%, because a history has a hundred testcases and each steady one shows a
    /// false change that often; 999 shuffles; three runs, so that one bad run is not a change.
    fn default() -> Self {
        Self { significance: 0.01, permutations: 999, shortest_segment: 3, seed: 1 }
    }
}

impl ChangeOptions {
    /// The fewest values among which a change can be significant: one in the middle, with all
    /// values on one side of it greater than all on the other. Of all ways to divide n values, two
    /// are as extreme (these, and their mirror image), so p is at least 2 / C(n, n / 2). `None` if
    /// there are too few shuffles for any p-value to be significant.
    pub fn fewest_values(&self) -> Option<usize> {
        if 1.0 / f64::from(self.permutations + 1) > self.significance {
            return None;
        }
        let least_p = |n: usize| {
            let half = n / 2;
            2.0 * (1..=half).map(|k| k as f64 / (n - half + k) as f64).product::<f64>()
        };
        (2 * self.shortest_segment.max(2)..).find(|&n| least_p(n) <= self.significance)
    }
}

/// One change in a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ChangePoint {
    /// Index of the first value after the change.
    pub index: usize,
    /// Share of shuffles with a split at least as great.
    pub p: f64,
    /// Median from the change before this one (or the start) up to here.
    pub before_median: f64,
    /// Median from here up to the next change (or the end).
    pub after_median: f64,
}

/// The change points of `series`, in order. Panics on NaN.
pub fn change_points(series: &[f64], options: &ChangeOptions) -> Vec<ChangePoint> {
    let mut random = oorandom::Rand32::new(options.seed);
    let shortest = options.shortest_segment.max(2);
    let mut bounds = vec![0, series.len()];
    let mut p_values: Vec<(usize, f64)> = Vec::new();
    while let Some(split) = best_split(series, &bounds, shortest) {
        let Some(p) = p_value(series, &bounds, shortest, split.weight, options, &mut random) else {
            break;
        };
        p_values.push((split.index, p));
        bounds.push(split.index);
        bounds.sort_unstable();
    }
    p_values.sort_unstable_by_key(|&(index, _)| index);
    p_values
        .into_iter()
        .zip(bounds.windows(3))
        .map(|((index, p), around)| ChangePoint {
            index,
            p,
            before_median: median(&series[around[0]..index]).expect("segments are not empty"),
            after_median: median(&series[index..around[2]]).expect("segments are not empty"),
        })
        .collect()
}

/// The best split of a segment, and its weighted distance.
#[derive(Clone, Copy)]
struct Split {
    index: usize,
    weight: f64,
}

fn best_split(series: &[f64], bounds: &[usize], shortest: usize) -> Option<Split> {
    bounds
        .windows(2)
        .filter_map(|w| {
            let split = split_segment(&series[w[0]..w[1]], shortest)?;
            Some(Split { index: w[0] + split.index, ..split })
        })
        // The first among equals, so that the result is the same everywhere.
        .reduce(|best, split| if split.weight > best.weight { split } else { best })
}

/// The share of shuffles with a split at least as great as `observed`, or `None` as soon as it must
/// exceed the significance. For a steady series, that takes a few dozen shuffles.
fn p_value(
    series: &[f64],
    bounds: &[usize],
    shortest: usize,
    observed: f64,
    options: &ChangeOptions,
    random: &mut oorandom::Rand32,
) -> Option<f64> {
    let mut shuffled = series.to_vec();
    let least = observed - observed.abs() * ROUNDING;
    // The original series counts as one of the shuffles.
    let mut as_great = 1;
    let share = |count: u32| f64::from(count) / f64::from(options.permutations + 1);
    for _ in 0..options.permutations {
        for segment in bounds.windows(2) {
            let values = &mut shuffled[segment[0]..segment[1]];
            for i in (1..values.len()).rev() {
                values.swap(i, random.rand_range(0..i as u32 + 1) as usize);
            }
        }
        if best_split(&shuffled, bounds, shortest).is_some_and(|s| s.weight >= least) {
            as_great += 1;
        }
        if share(as_great) > options.significance {
            return None;
        }
    }
    Some(share(as_great))
}

/// The greatest weighted energy distance between `values[..i]` and `values[i..end]` over all i
/// and all ends. Because the end varies, a change that is undone later is still found.
fn split_segment(values: &[f64], shortest: usize) -> Option<Split> {
    let n = values.len();
    if n < 2 * shortest {
        return None;
    }
    // within_start[i]: sum of distances of pairs in values[..i]. cross[i]: sum of distances between
    // values[..i] and values[i..end], updated as the end grows.
    let mut within_start = vec![0.0; n + 1];
    let mut cross = vec![0.0; n + 1];
    let mut best: Option<Split> = None;
    for end in 1..=n {
        let newest = values[end - 1];
        let mut to_newest = 0.0;
        for i in 1..end {
            to_newest += (values[i - 1] - newest).abs();
            cross[i] += to_newest;
        }
        within_start[end] = within_start[end - 1] + to_newest;
        for i in shortest..=end.saturating_sub(shortest) {
            let (left, right) = (i as f64, (end - i) as f64);
            let within_end = within_start[end] - within_start[i] - cross[i];
            let distance = 2.0 * cross[i] / (left * right)
                - 2.0 * within_start[i] / (left * (left - 1.0))
                - 2.0 * within_end / (right * (right - 1.0));
            let weight = distance * left * right / (left + right);
            if best.is_none_or(|b| weight > b.weight) {
                best = Some(Split { index: i, weight });
            }
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn noisy(levels: &[(usize, f64)], seed: u64) -> Vec<f64> {
        let mut random = oorandom::Rand64::new(seed.into());
        levels
            .iter()
            .flat_map(|&(count, level)| std::iter::repeat_n(level, count))
            .map(|level| level * (0.98 + 0.04 * random.rand_float()))
            .collect()
    }

    fn indices(series: &[f64]) -> Vec<usize> {
        change_points(series, &ChangeOptions::default()).iter().map(|c| c.index).collect()
    }

    #[test]
    fn two_changes_are_both_found_with_what_lies_between() {
        let found =
            change_points(&noisy(&[(12, 100.0), (9, 90.0), (15, 110.0)], 4), &Default::default());
        let [down, up] = found[..] else { panic!("{found:?}") };
        assert_eq!((down.index, up.index), (12, 21));
        assert!((down.before_median / 100.0 - 1.0).abs() < 0.02);
        assert_eq!(down.after_median, up.before_median);
        assert!((up.after_median / 110.0 - 1.0).abs() < 0.02);
    }

    #[test]
    fn a_change_that_is_undone_is_found_twice() {
        assert_eq!(indices(&noisy(&[(20, 100.0), (5, 90.0), (20, 100.0)], 8)), [20, 25]);
    }

    #[test]
    fn one_bad_run_is_not_a_change() {
        let mut series = noisy(&[(30, 100.0)], 2);
        series[14] = 50.0;
        assert!(indices(&series).is_empty());
    }

    #[test]
    fn a_steady_series_rarely_shows_a_change() {
        let false_alarms = (0..100)
            .filter(|&seed| {
                let options =
                    ChangeOptions { significance: 0.05, permutations: 199, ..Default::default() };
                !change_points(&noisy(&[(25, 100.0)], seed), &options).is_empty()
            })
            .count();
        // Binomial(100, 0.05) exceeds 11 once in 700.
        assert!(false_alarms <= 11, "{false_alarms}");
    }

    #[test]
    fn the_fewest_values_are_those_in_which_the_greatest_change_is_significant() {
        let mean_p = |n: usize| {
            let step = noisy(&[(n / 2, 100.0), (n - n / 2, 200.0)], 3);
            let p = |seed| {
                let options = ChangeOptions { significance: 1.0, seed, ..Default::default() };
                let changes = change_points(&step, &options);
                changes.iter().find(|change| change.index == n / 2).unwrap().p
            };
            (0..20).map(p).sum::<f64>() / 20.0
        };
        for (significance, fewest) in [(0.01, 10), (0.05, 8), (0.12, 6)] {
            let options = ChangeOptions { significance, ..Default::default() };
            assert_eq!(options.fewest_values(), Some(fewest), "{significance}");
            assert!(mean_p(fewest) <= significance, "{significance}: {}", mean_p(fewest));
        }
        assert!(mean_p(9) > 0.01 && mean_p(7) > 0.05, "{} {}", mean_p(9), mean_p(7));
        let longer = ChangeOptions { shortest_segment: 8, ..Default::default() };
        assert_eq!(longer.fewest_values(), Some(16));
        let unresolved = ChangeOptions { significance: 0.0005, ..Default::default() };
        assert_eq!(unresolved.fewest_values(), None);
    }

    #[test]
    fn short_and_constant_series_have_no_changes() {
        for series in [&[][..], &[1.0], &[1.0, 9.0, 1.0, 9.0, 1.0], &[5.0; 40]] {
            assert!(indices(series).is_empty(), "{series:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn the_unit_does_not_matter(seed in 0u64..1000, unit in -10i32..10) {
            let series = noisy(&[(10, 100.0), (10, 104.0)], seed);
            let scaled: Vec<f64> = series.iter().map(|v| v * f64::from(unit).exp2()).collect();
            prop_assert_eq!(indices(&series), indices(&scaled));
        }
    }
}
