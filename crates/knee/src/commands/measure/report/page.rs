//! Converts runs to the contents of a page.

use std::collections::BTreeMap;
use std::path::PathBuf;

use knee_report::{Change, Curve, Missing, Page};
use knee_results::{
    self as results, CaseId, Compared, ComparedPoint, Difference, Mode, Results,
    differences_of_cases,
};
use knee_stats::CompareOptions;
use knee_stats::usl::{FitOptions, fit_all};

use super::connections;
use super::run::{self, Changes, label};
use crate::exit::bail_usage;
use crate::input::{Read, read};

/// The page for the runs in `paths`. The first run is the baseline.
pub(super) fn page(paths: &[PathBuf], knee: f64, threshold: f64) -> anyhow::Result<Page> {
    let options = CompareOptions { threshold: Some(threshold), ..CompareOptions::default() };
    let mut page = Page {
        knee_efficiency: knee,
        threshold: (paths.len() > 1).then_some(threshold),
        comparison_method: format!(
            "knee compares medians over rounds. Intervals are {:.0}% bootstrap intervals of the \
             ratio. p-values are corrected for all points compared (Benjamini–Hochberg).",
            options.confidence * 100.0
        ),
        ..Page::default()
    };
    let mut first: Option<Results> = None;
    for (nr, path) in paths.iter().enumerate() {
        let Read { results, record } = read(path)?;
        let changes = first.as_ref().map(|before| changes(before, &results, &options));
        let changes = changes.unwrap_or_default();
        page.runs.push(match &record {
            Some(record) => run::recorded(&record.run, &results, path),
            None => run::foreign(&results, page.runs.first().map(|run| (run, &changes))),
        });
        if let (Some(before), Some(run)) = (&first, page.runs.last_mut())
            && let Some(option) = before.different_option(&results)
        {
            run.warnings.push(format!(
                "No comparison with {}: only one of the two runs was measured with {option}, which \
                 lowers the rates.",
                label(&before.source)
            ));
        }
        if let (Some(before), Some(run)) = (&first, page.runs.last_mut()) {
            let differences = differences_of_cases(before, &results).into_iter();
            run.warnings.extend(differences.map(|Difference { what, before: was, after }| {
                let label = label(&before.source);
                format!("This run differs from {label} in the {what}: {after}, not {was}.")
            }));
        }
        page.curves.extend(curves(nr, &results, &changes));
        for (id, info) in &results.cases {
            match page.cases.get(id) {
                // They would have the same axis.
                Some(other) if !other.counts_like(info) => bail_usage!(
                    "{}: {id} counts {}, but an earlier run counts {}; write a page for each",
                    path.display(),
                    info.unit,
                    other.unit
                ),
                Some(_) => {}
                None => drop(page.cases.insert(id.clone(), info.clone())),
            }
        }
        first = first.or(Some(results));
    }
    let rounds: Vec<_> = page.curves.iter().map(|curve| curve.measured.rounds()).collect();
    for (curve, fit) in page.curves.iter_mut().zip(fit_all(&rounds, &FitOptions::default())) {
        curve.fit = fit.map_err(|unfit| unfit.to_string());
    }
    connections::add_sweeps(&mut page);
    Ok(page)
}

fn changes(before: &Results, after: &Results, options: &CompareOptions) -> Changes {
    let compared = Compared::new(before, after, options).points;
    let change = |ComparedPoint { key, comparison, disturbed, .. }: ComparedPoint| {
        (key, Change { comparison, disturbed })
    };
    compared.into_iter().map(change).collect()
}

/// All curves, including curves that have only failures.
fn curves(nr: usize, results: &Results, changes: &Changes) -> Vec<Curve> {
    type Parts = (Vec<results::Point>, Vec<Missing>, BTreeMap<u32, Change>);
    let mut parts: BTreeMap<(&CaseId, Mode), Parts> = BTreeMap::new();
    for (key, measured) in &results.points {
        let (Some(mode), Some(tasks)) = (key.mode, key.tasks) else { continue };
        let (points, missing, changed) = parts.entry((&key.case, mode)).or_default();
        changed.extend(changes.get(key).map(|change| (tasks, *change)));
        match measured.point(tasks) {
            Some(point) => points.push(point),
            None => {
                let reason = measured.gap.clone().unwrap_or_else(|| "no rounds".to_owned());
                missing.push(Missing { tasks, reason });
            }
        }
    }
    let curve = |((case, mode), (points, missing, changes)): ((&CaseId, Mode), Parts)| {
        let measured = results::Curve::new(case.clone(), mode, points);
        Curve { missing, changes, ..Curve::new(nr, measured) }
    };
    parts.into_iter().map(curve).collect()
}
