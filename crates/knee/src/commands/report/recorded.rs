//! What a record of `knee run` has to show.

use std::collections::BTreeMap;
use std::path::Path;

use knee_host::number::plural;
use knee_report::{self as model, CpuShares, Missing, PerTask};
use knee_run::case_id::CaseId;
use knee_run::plan::Point;
use knee_run::record::{Record, RecordError, RunRecord};
use knee_run::summary::{CurveSummary, summarise};
use knee_run::testcase::Mode;

use super::page::{Shown, directory, label, shown_mode};

pub(super) fn shown(nr: usize, path: &Path, knee: f64) -> Result<Shown, RecordError> {
    let record = Record::open(directory(path))?;
    let cases = record.run.cases.iter().map(|case| model::Case {
        bytes_per_unit: case.bytes,
        ..model::Case::new(
            &case.id.to_string(),
            case.family.as_str(),
            &case.description,
            &case.unit,
        )
    });
    Ok(Shown {
        cases: cases.collect(),
        curves: curves(nr, &record, knee)?,
        run: run(&record.run, path),
    })
}

fn run(record: &RunRecord, path: &Path) -> model::Run {
    let RunRecord { environment: e, request: r, failures, .. } = record;
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
    if !record.complete {
        warnings.push("The run is not complete.".to_owned());
    }
    model::Run {
        label: label(path),
        hostname: e.hostname.clone(),
        kernel: e.kernel.clone(),
        cpu: e.cpu_model.clone().unwrap_or_default() + &topology,
        virtualisation: e.hypervisor.clone().unwrap_or_else(|| "none".to_owned()),
        started_at: e.started_at.clone(),
        plan: format!("{} × {} × {} s", plural(r.rounds as usize, "round"), r.samples, r.interval),
        placement: r.placement.to_string(),
        seed: Some(r.seed),
        command_line: e.command_line.clone(),
        knee_version: e.knee_version.clone() + if e.debug_build { ", debug build" } else { "" },
        facts: known.chain(mitigations).collect(),
        warnings,
        off_chart: Vec::new(),
        failures: failures
            .iter()
            .map(|f| {
                let Point { case, mode, tasks } = &f.point;
                format!("{case} {mode} ×{tasks}: {}", f.failure.reason)
            })
            .collect(),
    }
}

/// The curves of the record, also those of which there are only failures.
fn curves(nr: usize, record: &Record, knee: f64) -> Result<Vec<model::Curve>, RecordError> {
    let run = &record.run;
    let mut curves: BTreeMap<(CaseId, Mode), model::Curve> = BTreeMap::new();
    for summary in summarise(run, &record.finished_rounds()?, knee) {
        let curve = curve(nr, &summary);
        curves.insert((summary.case, summary.mode), curve);
    }
    let failures: BTreeMap<&Point, &str> =
        run.failures.iter().map(|f| (&f.point, f.failure.reason.as_str())).collect();
    for point in run.points() {
        let (name, mode, tasks) = (point.case.clone(), point.mode, point.tasks);
        let curve = curves
            .entry((name, mode))
            .or_insert_with(|| model::Curve::new(nr, &point.case.to_string(), shown_mode(mode)));
        if curve.points.binary_search_by_key(&tasks, |measured| measured.tasks).is_err() {
            let reason = failures.get(&point).unwrap_or(&"no round of it was finished");
            curve.missing.push(Missing { tasks, reason: (*reason).to_owned() });
        }
    }
    Ok(curves.into_values().collect())
}

fn curve(nr: usize, summary: &CurveSummary) -> model::Curve {
    let points = summary.points.iter().map(|entry| {
        let p = &entry.point;
        model::Point {
            rate: p.rate,
            low: p.low,
            high: p.high,
            confidence: p.confidence,
            per_task: Some(PerTask { min: p.min, max: p.max, fairness: p.fairness }),
            cpu: p.cpu.map(|c| CpuShares { user: c.user, system: c.system, idle: c.idle }),
            samples: p.samples,
            marked: p.marked,
            ..model::Point::new(p.point.tasks, p.rounds.clone())
        }
    });
    let has_base = summary.points.first().is_some_and(|entry| entry.point.point.tasks == 1);
    model::Curve {
        points: points.collect(),
        knee: summary.knee.filter(|_| has_base),
        peak: summary.peak,
        ..model::Curve::new(nr, &summary.case.to_string(), shown_mode(summary.mode))
    }
}
