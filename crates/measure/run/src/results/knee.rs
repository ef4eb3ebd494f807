//! Results in a record of `knee run`.

use std::collections::BTreeMap;
use std::path::Path;

use knee_stats::median;

use super::{CaseInfo, Key, Measured, Results, ResultsError};
use crate::plan::Point;
use crate::record::{Record, round_rates};

pub(super) fn read(path: &Path) -> Result<Results, ResultsError> {
    // Either the directory or the run.json in it may be named.
    let dir = if path.is_dir() { path } else { path.parent().unwrap_or(Path::new("")) };
    let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
    let record = Record::open(dir)?;
    let finished = record.finished_rounds()?;
    let run = record.run;
    let mut results = Results::new(path);
    for case in &run.cases {
        results.cases.insert(case.id.clone(), CaseInfo::of(case));
    }
    let failures: BTreeMap<&Point, &str> =
        run.failures.iter().map(|f| (&f.point, f.failure.reason.as_str())).collect();
    for point in run.points() {
        let rounds = finished.of(&point);
        let references: Vec<f64> = rounds.clone().filter_map(|round| round.reference).collect();
        let mut measured = Measured {
            rounds: round_rates(rounds.clone()),
            samples: rounds.clone().map(|round| round.samples).sum(),
            marked: rounds.map(|round| round.marked).sum(),
            gap: None,
            reference: median(&references),
            all_disturbed: finished.of(&point).all(|round| round.clean_rate().is_none()),
        };
        if let Some(reason) = failures.get(&point) {
            measured.gap = Some((*reason).to_owned());
        } else if measured.rounds.is_empty() {
            measured.gap = Some("no round of it was finished".to_owned());
        } else if finished.of(&point).count() < run.request.rounds as usize {
            let (n, of) = (finished.of(&point).count(), run.request.rounds);
            measured.gap = Some(format!("{n} of {of} rounds were finished"));
        }
        let key = Key { case: point.case, mode: Some(point.mode), tasks: Some(point.tasks) };
        results.points.insert(key, measured);
    }
    results.run = Some(run);
    Ok(results)
}
