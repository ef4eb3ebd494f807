//! A series of runs in time order, and when each point of them changed.

use std::collections::BTreeSet;

use knee_stats::{ChangeOptions, ChangePoint, change_points, median};

use crate::results::ITERATIONS;
use crate::{Key, Results};

/// One point over all runs that have it.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The point.
    pub key: Key,
    /// What its rates count, in the plural.
    pub unit: String,
    /// (which run, median rate of its rounds), in time order. Runs without rounds are left out, and runs in
    /// which other work disturbed the point or its rate is [only a lower bound](crate::Served::is_bound).
    pub values: Vec<(usize, f64)>,
    /// Whether there are enough values to find a change. Otherwise there are no `changes`.
    pub tested: bool,
    /// Changes; each index is that of the first value after it.
    pub changes: Vec<ChangePoint>,
}

impl Series {
    /// The greatest change, as the ratio of after to before; ratios below 1 are inverted.
    pub fn greatest_change(&self) -> f64 {
        let size = |c: &ChangePoint| (c.after_median / c.before_median).ln().abs();
        self.changes.iter().map(size).fold(0.0, f64::max)
    }
}

/// Sorts runs by the time of measurement. Results without a time keep their position.
pub fn in_time_order(runs: &mut [Results]) {
    if runs.iter().all(|results| results.origin.is_some()) {
        // RFC 3339 in UTC sorts as text.
        runs.sort_by_cached_key(|results| {
            results.origin.as_ref().map(|run| run.environment.started_at.clone())
        });
    }
}

/// The series of every point of `runs`, those with the greatest change first.
pub fn history(runs: &[Results], options: &ChangeOptions) -> Vec<Series> {
    let keys: BTreeSet<&Key> = runs.iter().flat_map(|run| run.points.keys()).collect();
    let mut all: Vec<Series> = keys.into_iter().map(|key| series(runs, key, options)).collect();
    all.sort_by(|a, b| b.greatest_change().total_cmp(&a.greatest_change()).then(a.key.cmp(&b.key)));
    all
}

fn series(runs: &[Results], key: &Key, options: &ChangeOptions) -> Series {
    let values: Vec<(usize, f64)> = runs
        .iter()
        .enumerate()
        .filter_map(|(nr, run)| {
            let measured = run.points.get(key)?;
            if measured.disturbed || measured.is_bound(&key.case) {
                return None;
            }
            Some((nr, median(&measured.rounds)?))
        })
        .collect();
    let rates: Vec<f64> = values.iter().map(|&(_, rate)| rate).collect();
    let info = runs.iter().find_map(|run| run.cases.get(&key.case));
    let tested = options.fewest_values().is_some_and(|fewest| values.len() >= fewest);
    Series {
        key: key.clone(),
        unit: info.map_or(ITERATIONS, |info| &info.unit).to_owned(),
        values,
        tested,
        changes: if tested { change_points(&rates, options) } else { Vec::new() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CaseId, Served};
    use std::path::Path;

    #[test]
    fn a_step_is_found_where_it_happened_and_runs_without_the_point_are_skipped() {
        let key = |name: &str| Key { case: CaseId::new(name), mode: None, tasks: Some(1) };
        let runs: Vec<Results> = (0..16)
            .map(|nr| {
                let mut results = Results::new(Path::new("x"));
                let noise = f64::from(nr % 3) / 10.0;
                results.add(key("steady"), 100.0 + noise, 1).unwrap();
                if nr != 2 {
                    results.add(key("step"), if nr < 9 { 50.0 } else { 80.0 } + noise, 1).unwrap();
                }
                results
            })
            .collect();
        let all = history(&runs, &ChangeOptions::default());
        assert_eq!((&all[0].key, &all[1].key), (&key("step"), &key("steady")));
        let [change] = all[0].changes.as_slice() else { panic!("{:?}", all[0]) };
        assert_eq!(all[0].values[change.index].0, 9);
        assert!((change.after_median / change.before_median - 1.6).abs() < 0.01);
        assert_eq!(all[1].changes, []);
    }

    #[test]
    fn disturbed_medians_and_lower_bounds_are_left_out_and_few_values_are_not_tested() {
        let key = Key { case: CaseId::new("a"), mode: None, tasks: Some(1) };
        let mut runs: Vec<Results> = (0..16)
            .map(|nr| {
                let mut results = Results::new(Path::new("x"));
                let rate = if nr < 8 { 50.0 } else { 80.0 } + f64::from(nr % 3) / 10.0;
                results.add(key.clone(), rate, 1).unwrap();
                results
            })
            .collect();
        let of = |runs: &[Results]| history(runs, &ChangeOptions::default()).remove(0);
        assert_eq!((of(&runs).changes.len(), of(&runs).tested), (1, true));
        for run in &mut runs[8..] {
            run.points.values_mut().for_each(|measured| measured.disturbed = true);
        }
        assert_left_out(of(&runs));
        let idle =
            Served { server_busy: 0.5, load_busy: 0.9, cpu_per_request: 1e-5, shared: false };
        for run in &mut runs[8..] {
            run.points.values_mut().for_each(|measured| {
                (measured.disturbed, measured.server) = (false, Some(idle));
            });
        }
        assert_left_out(of(&runs));
    }

    /// Asserts that only the first eight of 16 runs count, which are too few.
    fn assert_left_out(series: Series) {
        assert_eq!(
            series.values.iter().map(|&(nr, _)| nr).collect::<Vec<_>>(),
            [0, 1, 2, 3, 4, 5, 6, 7]
        );
        assert_eq!((series.changes, series.tested), (vec![], false));
    }
}
