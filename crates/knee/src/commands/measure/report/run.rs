//! The description of a run on a page: machine, plan, failures and warnings.

use std::collections::BTreeMap;
use std::path::Path;

use knee_host::number::{plural, si};
use knee_host::text::one_line;
use knee_report::{Change, Run};
use knee_results::{Key, LatencyRequest, Measured, Results};
use knee_run::record::{RunEnd, RunRecord};
use knee_stats::{RatioInterval, median};

/// The comparison of each point with the same point of the first run.
pub(super) type Changes = BTreeMap<Key, Change>;

const NO_ENVIRONMENT: &str = "Results of will-it-scale contain only rates. The machine, the \
    kernel, the time, the placement and the rate of each task are unknown.";

/// The name of a run: its path, as the user wrote it.
pub(super) fn label(path: &Path) -> String {
    one_line(&path.to_string_lossy()).into_owned()
}

/// The description of a run of knee.
pub(super) fn recorded(record: &RunRecord, results: &Results, path: &Path) -> Run {
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
    if r.latency.is_some_and(LatencyRequest::slows_rates) {
        let what = "The rates include reading the clock after each iteration (--latency).";
        warnings.push(what.to_owned());
    }
    if let Some(counters) = &r.counters {
        warnings.push("The rates include the cost of counting events (--counters).".to_owned());
        if counters.user_only {
            warnings.push("All counters except task-clock cover only user mode.".to_owned());
        }
        let missing = counters.what_is_unavailable();
        warnings.extend(missing.map(|what| format!("Not counted: {what}.")));
    }
    warnings.extend(record.failed_repeats.iter().map(|failed| {
        let (round, reason) = (failed.round + 1, &failed.failure.reason);
        format!("Round {round} of {} failed and does not count: {reason}.", failed.point)
    }));
    warnings.extend(results.points.iter().filter_map(|(key, measured)| {
        let (gap, of) = (measured.latency_gap.as_ref()?, measured.rounds.len());
        Some(format!("{} of {of} rounds of {key} have no latency: {}.", gap.rounds, gap.reason))
    }));
    Run {
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
        is_incomplete: !record.complete && record.end != Some(RunEnd::Done),
        warnings,
        off_chart: Vec::new(),
        failures: failures.iter().map(|f| format!("{}: {}", f.point, f.failure.reason)).collect(),
    }
}

/// The description of a run of will-it-scale, which records rates but nothing about the machine.
/// `against` is the first run and the changes from it; `None` if this is the first run.
pub(super) fn foreign(results: &Results, against: Option<(&Run, &Changes)>) -> Run {
    let placeless =
        results.points.iter().filter(|(key, _)| key.mode.is_none() || key.tasks.is_none()).map(
            |(key, measured)| {
                let change =
                    against.and_then(|(first, changes)| Some(change(first, changes.get(key)?)));
                placeless(key, measured, results) + &change.unwrap_or_default()
            },
        );
    Run {
        label: label(&results.source),
        plan: "results of will-it-scale: machine and time unknown".to_owned(),
        warnings: vec![NO_ENVIRONMENT.to_owned()],
        off_chart: placeless.collect(),
        ..Run::default()
    }
}

/// A description of results that cannot be placed on a chart.
fn placeless(key: &Key, measured: &Measured, results: &Results) -> String {
    let unit = results.unit(&key.case);
    let what = match median(&measured.rounds) {
        Some(rate) => {
            format!("{} {unit}/s in {}", si(rate), plural(measured.rounds.len(), "round"))
        }
        None => measured.gap.clone().unwrap_or_else(|| "no rounds".to_owned()),
    };
    let unknown = match key.mode {
        Some(_) => "no task count",
        None => "neither mode nor task count",
    };
    format!(
        "{}: {what}. The output contains {unknown}. To show it on a chart, name the file like \
         mmap1_threads-4.txt.",
        key.case
    )
}

/// The result of a comparison with the first run, as a sentence to append.
fn change(first: &Run, change: &Change) -> String {
    if change.disturbed {
        return format!(" Against {}: too disturbed to compare.", first.label);
    }
    let by = &change.comparison;
    let ratio = by.ratio.map_or(String::new(), |RatioInterval { ratio, low, high }| {
        format!(" ×{ratio:.3} [{low:.3}, {high:.3}]")
    });
    format!(" Against {}: {}{ratio}.", first.label, by.verdict.as_str())
}
