//! Converts runs into the contents of a page.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use knee_report::{Case, Curve, Missing, Page};
use knee_results::{self as results, CaseId, Compared, Mode, Results};
use knee_stats::CompareOptions;

use super::{changes, fits, run};
use crate::input::{Read, read};

/// The page about `paths`. The first run is the baseline.
pub(super) fn page(paths: &[PathBuf], knee: f64, threshold: f64) -> anyhow::Result<Page> {
    let options = CompareOptions { threshold: Some(threshold), ..CompareOptions::default() };
    let mut page = Page {
        knee_efficiency: knee,
        threshold: (paths.len() > 1).then_some(threshold),
        comparison_method: format!(
            "Medians over rounds are compared; intervals are {:.0}% bootstrap intervals of their \
             ratio; p-values are corrected for the number of points (Benjamini–Hochberg).",
            options.confidence * 100.0
        ),
        ..Page::default()
    };
    let mut seen = BTreeSet::new();
    let mut first: Option<Results> = None;
    for (nr, path) in paths.iter().enumerate() {
        let Read { results, record } = read(path)?;
        let mut run = match &record {
            Some(record) => run::recorded(&record.run, path),
            None => run::foreign(&results),
        };
        let mut curves = curves(nr, &results);
        if let Some(before) = &first {
            let compared = Compared::new(before, &results, &options);
            changes::add(&compared, before, &mut curves, &mut run);
        }
        page.runs.push(run);
        page.curves.extend(curves);
        page.cases.extend(cases(&results).filter(|case| seen.insert(case.name.clone())));
        first = first.or(Some(results));
    }
    fits::add(&mut page.curves);
    Ok(page)
}

fn cases(results: &Results) -> impl Iterator<Item = Case> {
    results.cases.iter().map(|(id, case)| {
        let family = case.family.map_or("unknown", |family| family.as_str());
        let bytes_per_unit = case.bytes;
        Case { bytes_per_unit, ..Case::new(&id.to_string(), family, &case.description, &case.unit) }
    })
}

/// The measured points of a curve, and the missing ones.
type Parts = (Vec<results::Point>, Vec<Missing>);

/// All curves, including those that have only failures.
fn curves(nr: usize, results: &Results) -> Vec<Curve> {
    let mut curves: BTreeMap<(&CaseId, Mode), Parts> = BTreeMap::new();
    for (key, measured) in &results.points {
        let (Some(mode), Some(tasks)) = (key.mode, key.tasks) else { continue };
        let (points, missing) = curves.entry((&key.case, mode)).or_default();
        match measured.point(tasks) {
            Some(point) => points.push(point),
            None => {
                let reason = measured.gap.clone().unwrap_or_else(|| "no rounds".to_owned());
                missing.push(Missing { tasks, reason });
            }
        }
    }
    let curve = |((case, mode), (points, missing)): ((&CaseId, Mode), Parts)| {
        let measured = results::Curve::new(case.clone(), mode, points);
        Curve { missing, ..Curve::new(nr, measured) }
    };
    curves.into_iter().map(curve).collect()
}
