//! From records to what a page shows.

use std::collections::{BTreeMap, BTreeSet};

use knee_measure::plan::Point;
use knee_measure::record::{Record, RecordError, RunRecord};
use knee_measure::results::{Compared, Results, ResultsError};
use knee_measure::summary::{CurveSummary, summarise};
use knee_measure::testcase::Mode;
use knee_report::{self as model, Change, ChangeVerdict, CpuShares, Estimate, Missing, Page};
use knee_stats::usl::{self, FitOptions, Worth, fit};
use knee_stats::{CompareOptions, Verdict};

use crate::present::number::plural;

/// The page of some runs, of which the first is the one to compare with.
pub(super) fn page(records: &[Record], knee: f64, threshold: f64) -> Result<Page, ResultsError> {
    let options = CompareOptions { threshold: Some(threshold), ..CompareOptions::default() };
    let mut page = Page {
        runs: records.iter().map(run).collect(),
        knee_efficiency: knee,
        threshold: (records.len() > 1).then_some(threshold),
        comparison_method: format!(
            "Medians over rounds are compared; intervals are {:.0} % bootstrap intervals of their \
             ratio; p-values are corrected for the number of points (Benjamini–Hochberg).",
            options.confidence * 100.0
        ),
        ..Page::default()
    };
    let mut seen = BTreeSet::new();
    for case in records.iter().flat_map(|record| &record.run.cases) {
        if seen.insert(case.name.clone()) {
            let family = case.family.as_str();
            page.cases.push(model::Case {
                bytes_per_unit: case.bytes,
                ..model::Case::new(&case.name, family, &case.description, &case.unit)
            });
        }
    }
    let first = Results::read(&records[0].dir)?;
    for (nr, record) in records.iter().enumerate() {
        let changes = match nr {
            0 => BTreeMap::new(),
            _ => changes(&first, &Results::read(&record.dir)?, &options),
        };
        page.curves.extend(curves(nr, record, knee, &changes)?);
    }
    Ok(page)
}

fn run(record: &Record) -> model::Run {
    let RunRecord { environment: e, request: r, failures, .. } = &record.run;
    let facts = [
        ("kernel build", Some(e.kernel_version.clone())),
        ("architecture", Some(e.architecture.clone())),
        ("kernel command line", e.kernel_command_line.clone()),
        ("frequency governor", e.governor.clone()),
        ("clock source", e.clocksource.clone()),
        ("transparent huge pages", e.transparent_huge_pages.clone()),
        ("C library", e.libc.clone()),
        ("file system", e.work_dir_file_system.clone()),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    let mitigations = e.mitigations.iter().map(|(k, v)| (format!("mitigation of {k}"), v.clone()));
    let topology = e.topology.as_ref().map(|t| format!(", {t}")).unwrap_or_default();
    let mut warnings = Vec::new();
    if !record.run.complete {
        warnings.push("The run is not complete.".to_owned());
    }
    model::Run {
        label: record.dir.display().to_string(),
        hostname: e.hostname.clone(),
        kernel: e.kernel.clone(),
        cpu: e.cpu_model.clone().unwrap_or_default() + &topology,
        virtualisation: e.hypervisor.clone().unwrap_or_else(|| "none".to_owned()),
        started_at: e.started_at.clone(),
        plan: format!("{} × {} × {} s", plural(r.rounds as usize, "round"), r.samples, r.interval),
        placement: r.placement.to_string(),
        seed: Some(r.seed),
        command_line: e.command_line.clone(),
        knee_version: e.knee_version.clone(),
        facts: known.chain(mitigations).collect(),
        warnings,
        failures: failures
            .iter()
            .map(|f| {
                let Point { testcase, mode, tasks } = &f.point;
                format!("{testcase} {mode} ×{tasks}: {}", f.failure.reason)
            })
            .collect(),
    }
}

/// The curves of one run, also those of which there are only failures.
fn curves(
    nr: usize,
    record: &Record,
    knee: f64,
    changes: &BTreeMap<Point, Change>,
) -> Result<Vec<model::Curve>, RecordError> {
    let run = &record.run;
    let summaries = summarise(run, &record.finished_rounds()?, knee);
    let mut curves: BTreeMap<(String, Mode), model::Curve> = BTreeMap::new();
    for summary in &summaries {
        let curve = curve(nr, summary, changes);
        curves.insert((summary.testcase.clone(), summary.mode), curve);
    }
    for point in run.points() {
        let (name, mode, tasks) = (point.testcase.clone(), point.mode, point.tasks);
        let curve = curves
            .entry((name, mode))
            .or_insert_with(|| model::Curve::new(nr, &point.testcase, shown(mode)));
        if !curve.points.iter().any(|measured| measured.tasks == tasks) {
            let failure = run.failures.iter().find(|failure| failure.point == point);
            let reason = failure.map_or("not measured", |f| &f.failure.reason).to_owned();
            curve.missing.push(Missing { tasks, reason });
        }
    }
    Ok(curves.into_values().collect())
}

fn curve(nr: usize, summary: &CurveSummary, changes: &BTreeMap<Point, Change>) -> model::Curve {
    let points = summary.points.iter().map(|entry| {
        let p = &entry.point;
        model::Point {
            rate: p.rate,
            low: p.low,
            high: p.high,
            confidence: p.confidence,
            min: p.min,
            max: p.max,
            fairness: p.fairness,
            cpu: p.cpu.map(|c| CpuShares { user: c.user, system: c.system, idle: c.idle }),
            samples: p.samples,
            marked: p.marked,
            change: changes.get(&p.point).cloned(),
            ..model::Point::new(p.point.tasks, p.rounds.clone())
        }
    });
    let has_base = summary.points.first().is_some_and(|entry| entry.point.point.tasks == 1);
    model::Curve {
        points: points.collect(),
        knee: summary.knee.filter(|_| has_base),
        peak: summary.peak,
        fit: fitted(summary),
        ..model::Curve::new(nr, &summary.testcase, shown(summary.mode))
    }
}

fn shown(mode: Mode) -> model::Mode {
    match mode {
        Mode::Processes => model::Mode::Processes,
        Mode::Threads => model::Mode::Threads,
    }
}

/// The Universal Scalability Law, where there are points enough for it.
fn fitted(summary: &CurveSummary) -> Option<model::Fit> {
    let rounds: Vec<(u32, Vec<f64>)> = summary
        .points
        .iter()
        .map(|entry| (entry.point.point.tasks, entry.point.rounds.clone()))
        .collect();
    let fit = fit(&rounds, &FitOptions::default()).ok()?;
    let estimate = |e: &usl::Estimate| {
        let (low, high) = e.interval.unwrap_or((e.value, e.value));
        Estimate { value: e.value, low, high }
    };
    let kappa = if fit.is_amdahl {
        Estimate { value: 0.0, ..estimate(&fit.kappa) }
    } else {
        estimate(&fit.kappa)
    };
    let is_prediction = fit.worth == Worth::Prediction;
    let note = match is_prediction {
        true => String::new(),
        false => format!("{}: not a prediction", plural(rounds.len(), "point")),
    };
    Some(model::Fit {
        lambda: estimate(&fit.lambda),
        sigma: estimate(&fit.sigma),
        kappa,
        r2: fit.r_squared.unwrap_or(1.0),
        peak: fit.peak.as_ref().map(estimate),
        is_prediction,
        note,
    })
}

/// What changed at each point that both runs have.
fn changes(before: &Results, after: &Results, options: &CompareOptions) -> BTreeMap<Point, Change> {
    let compared = Compared::new(before, after, options);
    let change = |point: knee_measure::results::ComparedPoint| {
        let key = point.key;
        let at = Point { testcase: key.testcase, mode: key.mode?, tasks: key.tasks? };
        let ratio = point.comparison.ratio?;
        let (verdict, note) = match point.comparison.verdict {
            Verdict::Faster => (ChangeVerdict::Faster, String::new()),
            Verdict::Slower => (ChangeVerdict::Slower, String::new()),
            Verdict::Same => (ChangeVerdict::Same, String::new()),
            Verdict::Inconclusive { rounds_needed } => (
                ChangeVerdict::Inconclusive,
                rounds_needed.map_or(String::new(), |n| format!("{n} rounds would tell")),
            ),
        };
        let p = point.comparison.adjusted_p;
        Some((
            at,
            Change { ratio: ratio.ratio, low: ratio.low, high: ratio.high, p, verdict, note },
        ))
    };
    compared.points.into_iter().filter_map(change).collect()
}
