//! Rejects numbers that are valid JSON but that no run of knee writes.
//!
//! Otherwise they would cause meaningless tables, or a panic far from the file: a sum that
//! overflows becomes NaN in the next step, and a negative time cannot be converted to a `Duration`.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use knee_results::{LatencyRequest, MAX_RATE, MAX_TASKS};
use knee_stats::Spread;

use super::{RunRecord, SampleLine};

/// Four months: more than any interval or timeout that a user can request.
const MAX_SECONDS: f64 = 1e7;
/// Ten times the maximum that a user can request; a loop over all rounds must end.
const ROUNDS: RangeInclusive<u32> = 1..=1_000_000;
/// The resolution of the clocks.
const MIN_SECONDS: f64 = 1e-9;
/// Shares are quotients of clock ticks whose readings may not be from the same instant.
const SHARE: RangeInclusive<f64> = -1.0..=100.0;

/// Levels of confidence for which knee can plan looks.
const CONFIDENCE: RangeInclusive<f64> = 0.0..=0.9999;

/// Checks `run.json`; the error names the field.
pub(super) fn check_run(run: &RunRecord) -> Result<(), String> {
    let request = &run.request;
    within("request.interval", request.interval, MIN_SECONDS..=MAX_SECONDS)?;
    let seconds = [
        ("request.warmup", request.warmup),
        ("request.start_timeout", request.start_timeout),
        ("request.max_time", request.max_time),
        ("request.patience", request.patience),
        ("request.precision", request.precision.unwrap_or(0.0)),
    ];
    let shortest = run.cases.iter().map(|case| ("min_interval of a case", case.min_interval));
    for (name, value) in seconds.into_iter().chain(shortest) {
        within(name, value, 0.0..=MAX_SECONDS)?;
    }
    if let Some(asked) = request.until_decided {
        within("request.until_decided.within", asked.within, 0.0..=1.0)?;
        within("request.until_decided.confidence", asked.confidence, CONFIDENCE)?;
    }
    if let Some(LatencyRequest::Requests { share }) = request.latency {
        within("request.latency.requests.share", share, 0.0..=1.0)?;
    }
    if !ROUNDS.contains(&request.rounds) {
        let (least, most) = (ROUNDS.start(), ROUNDS.end());
        return Err(format!("request.rounds: {} is not in {least} to {most}", request.rounds));
    }
    if let Some(tasks) = request.tasks.iter().find(|tasks| !(1..=MAX_TASKS).contains(tasks)) {
        return Err(format!("request.tasks: {tasks} is not in 1 to {MAX_TASKS}"));
    }
    if run.cases.iter().any(|case| case.steps == 0) {
        return Err("steps of a case: 0 is not at least 1".to_owned());
    }
    check_size(run)?;
    let points = run.points();
    let mut seen = BTreeSet::new();
    match points.iter().find(|point| !seen.insert(*point)) {
        Some(point) => Err(format!("the point {point} occurs twice")),
        None => Ok(()),
    }
}

/// Checks that a run does not have too many points, or testcases with too long names.
pub(super) fn check_size(run: &RunRecord) -> Result<(), String> {
    let (modes, tasks) = (run.request.modes.len(), run.request.tasks.len());
    let cases = run.cases.len();
    let points = cases.saturating_mul(modes).saturating_mul(tasks);
    knee_results::check_size(cases, points, run.cases.iter().map(|case| &case.id))
}

/// Checks a line of `samples.jsonl`; the error names the field.
pub(super) fn check_sample(line: &SampleLine) -> Result<(), String> {
    within("seconds", line.seconds, MIN_SECONDS..=MAX_SECONDS)?;
    let Spread { total, min, max, mean, stddev, fairness } = line.spread;
    let rates = [
        ("total", total),
        ("min", min),
        ("max", max),
        ("mean", mean),
        ("stddev", stddev),
        ("fairness", fairness),
        ("reference", line.reference.unwrap_or(0.0)),
        ("memory", line.memory.unwrap_or(0.0)),
    ];
    let tasks = line.rates.iter().map(|&rate| ("rates", rate));
    for (name, rate) in rates.into_iter().chain(tasks) {
        within(name, rate, 0.0..=MAX_RATE)?;
    }
    within("lost", line.lost.unwrap_or(0.0), SHARE)?;
    if let Some(server) = line.server {
        within("server_cpu", server.server_cpu, 0.0..=MAX_RATE)?;
        within("load_cpu", server.load_cpu, 0.0..=MAX_RATE)?;
        within("server_busy", server.server_busy, SHARE)?;
        within("load_busy", server.load_busy, SHARE)?;
    }
    if let Some(latency) = &line.latency {
        within("latency.rate", latency.rate.unwrap_or(0.0), 0.0..=MAX_RATE)?;
        within("latency.clock", latency.clock.unwrap_or(0.0), 0.0..=1e9 * MAX_SECONDS)?;
    }
    if let Some(counters) = &line.counters {
        within("counters.seconds", counters.seconds, MIN_SECONDS..=MAX_SECONDS)?;
        for &value in counters.values.values() {
            within("counters.values", value, 0.0..=MAX_RATE)?;
        }
        for &share in counters.shares.values() {
            within("counters.shares", share, 0.0..=1.0)?;
        }
    }
    let Some(cpu) = line.cpu else { return Ok(()) };
    for share in [cpu.user, cpu.system, cpu.idle, cpu.steal, cpu.machine_idle] {
        within("cpu", share, SHARE)?;
    }
    Ok(())
}

fn within(name: &str, value: f64, range: RangeInclusive<f64>) -> Result<(), String> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(format!("{name}: {value:?} is not in {:?} to {:?}", range.start(), range.end()))
}
