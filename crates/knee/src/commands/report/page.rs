//! From runs to what a page shows.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use knee_report::{self as model, Page};
use knee_run::results::{Compared, Kind, Results, ResultsError};
use knee_stats::CompareOptions;

use super::{changes, fits, rates, recorded};
use crate::commands::read_results;

/// What one run has to show, before it is compared and fitted.
pub(super) struct Shown {
    pub(super) run: model::Run,
    pub(super) cases: Vec<model::Case>,
    pub(super) curves: Vec<model::Curve>,
}

/// The page of some runs, of which the first is the one to compare with.
pub(super) fn page(paths: &[PathBuf], knee: f64, threshold: f64) -> Result<Page, ResultsError> {
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
        let is_record = Kind::of(path)? == Some(Kind::Record);
        // A record alone on its page has nothing to be compared with, and is read once.
        let results = match is_record && paths.len() == 1 {
            true => None,
            false => Some(read_results(path)?),
        };
        let mut shown = match &results {
            Some(results) if !is_record => rates::shown(nr, results, knee),
            _ => recorded::shown(nr, path, knee)?,
        };
        if let (Some(before), Some(after)) = (&first, &results) {
            changes::put(&Compared::new(before, after, &options), before, &mut shown);
        }
        first = first.or(results);
        page.runs.push(shown.run);
        page.curves.extend(shown.curves);
        page.cases.extend(shown.cases.into_iter().filter(|case| seen.insert(case.name.clone())));
    }
    fits::put(&mut page.curves);
    Ok(page)
}

/// The name of a run: its path, as the user wrote it.
pub(super) fn label(path: &Path) -> String {
    path.display().to_string()
}

/// The directory of a record that was named by itself or by the run.json in it.
pub(super) fn directory(path: &Path) -> &Path {
    match path.parent() {
        _ if path.is_dir() => path,
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

pub(super) fn shown_mode(mode: knee_run::testcase::Mode) -> model::Mode {
    use knee_run::testcase::Mode;
    match mode {
        Mode::Processes => model::Mode::Processes,
        Mode::Threads => model::Mode::Threads,
    }
}
