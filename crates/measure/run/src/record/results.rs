//! The results in a record.

use std::collections::BTreeMap;
use std::path::Path;

use knee_results::{
    CaseInfo, CpuShares, Curve, Key, Latency, LatencyGap, Measured, Order, Origin, PerTask, Point,
    PointCounters, PointId, PointLatency, Results, Served,
};
use knee_stats::median;

use super::round::{is_disturbed, round_rates};
use super::{Record, RecordError, RoundSummary, Rounds, RunRecord};
use crate::job::{Score, Source};
use crate::plan::Case;

/// The measurements of a point of `case`, from its rounds.
fn measured<'r>(
    run: &RunRecord,
    case: &Case,
    tasks: u32,
    rounds: impl Iterator<Item = &'r RoundSummary> + Clone,
) -> Measured {
    let mut marks = BTreeMap::new();
    for (mark, n) in rounds.clone().flat_map(RoundSummary::marks) {
        *marks.entry(mark).or_insert(0) += n;
    }
    let fairness: Vec<f64> = rounds.clone().filter_map(RoundSummary::fairness).collect();
    let clean = || rounds.clone().filter(|round| round.clean_rate().is_some());
    // Of the clean rounds, which give the rate; of all, if there are none.
    let typical = |speed: fn(&RoundSummary) -> Option<f64>| {
        let of_clean: Vec<f64> = clean().filter_map(speed).collect();
        median(&of_clean).or_else(|| median(&rounds.clone().filter_map(speed).collect::<Vec<_>>()))
    };
    let cpu: Vec<CpuShares> = rounds.clone().filter_map(RoundSummary::cpu).collect();
    let n = cpu.len() as f64;
    Measured {
        rounds: round_rates(rounds.clone()),
        measured: rounds.clone().count(),
        disturbed: is_disturbed(clean().count(), rounds.clone().count(), run.request.rounds),
        oversubscribed: run.is_oversubscribed(case, tasks),
        looks: run.looks().filter(|_| run.request.order != Order::InTurns),
        samples: rounds.clone().map(|round| round.samples).sum(),
        marked: rounds.clone().map(RoundSummary::marked).sum(),
        marks,
        per_task: median(&fairness).map(|fairness| PerTask {
            min: rounds.clone().map(|round| round.min).fold(f64::INFINITY, f64::min),
            max: rounds.clone().map(|round| round.max).fold(0.0, f64::max),
            fairness,
        }),
        cpu: cpu.into_iter().reduce(|sum, shares| sum + shares).map(|sum| sum / n),
        gap: None,
        reference: typical(RoundSummary::cpu_speed),
        memory: typical(|round| round.memory),
        ..of_clean_rounds(rounds)
    }
}

/// What only the clean rounds of a point tell, or all rounds if none is clean: how a server and its load used their
/// CPUs, the latency, and the counters. The rest is unknown.
pub(super) fn of_clean_rounds<'r>(
    rounds: impl Iterator<Item = &'r RoundSummary> + Clone,
) -> Measured {
    let is_clean = |round: &RoundSummary| round.clean_rate().is_some();
    let has_clean = rounds.clone().any(is_clean);
    let counted = || rounds.clone().filter(|round| !has_clean || is_clean(round));
    let latencies: Vec<&Latency> = counted().map(RoundSummary::latency).collect();
    Measured {
        server: served(counted().filter_map(RoundSummary::served).collect()),
        latency: PointLatency::of(&latencies),
        latency_gap: latency_gap(counted()),
        counters: PointCounters::of(counted().map(RoundSummary::counters)),
        ..Measured::default()
    }
}

/// The rounds whose latency could not be measured, if any.
fn latency_gap<'r>(rounds: impl Iterator<Item = &'r RoundSummary> + Clone) -> Option<LatencyGap> {
    let of = rounds.clone().count();
    let mut failures = rounds.filter_map(RoundSummary::latency_failure).peekable();
    let first = *failures.peek()?;
    Some(LatencyGap {
        reason: first.reason.clone(),
        remedy: first.remedy.clone(),
        rounds: failures.count(),
        of,
    })
}

/// How a server and its load used their CPUs in `rounds`; `None` without rounds of a server.
fn served(rounds: Vec<Served>) -> Option<Served> {
    let of = |value: fn(&Served) -> f64| median(&rounds.iter().map(value).collect::<Vec<f64>>());
    Some(Served {
        server_busy: of(|round| round.server_busy)?,
        load_busy: of(|round| round.load_busy)?,
        cpu_per_request: of(|round| round.cpu_per_request)?,
        shared: rounds.iter().any(|round| round.shared),
    })
}

impl RunRecord {
    /// Where and how its results were measured.
    pub(super) fn origin(&self) -> Origin {
        Origin {
            environment: self.environment.clone(),
            request: self.request.clone(),
            complete: self.complete,
        }
    }

    /// Whether so many tasks of `case` need more CPUs than the run uses.
    pub fn is_oversubscribed(&self, case: &Case, tasks: u32) -> bool {
        u64::from(tasks) * case.cpus_per_task > self.request.cpus.len() as u64
    }

    /// The curves of the finished `rounds`, in the requested order.
    pub fn curves(&self, rounds: &Rounds) -> Vec<Curve> {
        let mut curves: Vec<(PointId, Vec<Point>)> = Vec::new();
        for (case, id) in self.points_of_cases() {
            let measured = measured(self, case, id.tasks, rounds.of(&id));
            let Some(point) = measured.point(id.tasks) else { continue };
            match curves.last_mut() {
                Some((first, points)) if first.case == id.case && first.mode == id.mode => {
                    points.push(point);
                }
                _ => curves.push((id, vec![point])),
            }
        }
        curves.into_iter().map(|(id, points)| Curve::new(id.case, id.mode, points)).collect()
    }
}

impl Record {
    /// All requested points, measured or not; `source` is the path of the record as the user typed
    /// it.
    ///
    /// # Errors
    /// The record cannot be read, or a complete one lacks rounds.
    pub fn results(&self, source: &Path) -> Result<Results, RecordError> {
        let run = &self.run;
        let finished = self.finished_rounds()?;
        let failures: BTreeMap<&PointId, &str> =
            run.failures.iter().map(|f| (&f.point, f.failure.reason.as_str())).collect();
        let mut results = Results::new(source);
        results.cases.extend(run.cases.iter().map(|case| (case.id.clone(), case_info(case))));
        for (case, point) in run.points_of_cases() {
            let rounds = finished.of(&point).count();
            let asked = run.request.rounds;
            let mut measured = measured(run, case, point.tasks, finished.of(&point));
            measured.gap = match failures.get(&point) {
                Some(reason) => Some((*reason).to_owned()),
                None if measured.rounds.is_empty() => Some("no round finished".to_owned()),
                None if rounds < asked as usize => {
                    Some(format!("only {rounds} of {asked} rounds finished"))
                }
                None => None,
            };
            let key = Key { case: point.case, mode: Some(point.mode), tasks: Some(point.tasks) };
            results.points.insert(key, measured);
        }
        results.origin = Some(run.origin());
        Ok(results)
    }
}

/// The information about a case that results contain.
pub(super) fn case_info(case: &Case) -> CaseInfo {
    CaseInfo {
        family: Some(case.family),
        description: case.description.clone(),
        unit: case.unit.clone(),
        bytes: case.bytes,
        min_interval: case.min_interval,
        timed: matches!(
            &case.source,
            Source::Command { command } if command.score == Score::Time
        ),
        load_host: match &case.source {
            Source::Server { server, .. } => {
                server.load.host.as_ref().map(|host| host.name().to_owned())
            }
            _ => None,
        },
        settings: settings(&case.source),
    }
}

/// What `source` runs and with which load, by name. Without what it never depends on, such as how a
/// server stops.
fn settings(source: &Source) -> BTreeMap<&'static str, String> {
    let listed = |texts: &[String]| (!texts.is_empty()).then(|| texts.join("; "));
    let settings = match source {
        Source::Command { command } => {
            vec![("command", Some(command.line.clone())), ("--read", command.read.clone())]
        }
        Source::Server { server, .. } => {
            let load = &server.load;
            let files = server.files.iter().map(|(name, text)| format!("{name}: {text}"));
            let fill = server.fill.iter().map(|fill| format!("{} × {}", fill.count, fill.request));
            let request = load.request.iter().map(ToString::to_string).collect::<Vec<_>>();
            vec![
                ("command", Some(server.server.command.clone())),
                ("files", listed(&files.collect::<Vec<_>>())),
                ("setup", listed(&server.setup)),
                ("prepare", listed(&server.prepare)),
                ("fill", listed(&fill.collect::<Vec<_>>())),
                ("load", load.command.clone().or(listed(&request))),
                ("load.read", load.read.clone()),
                ("load.connections", Some(load.connections.to_string())),
                ("load.reconnect", Some(load.reconnect.to_string())),
            ]
        }
        Source::Plugin { .. } | Source::BuiltIn {} => Vec::new(),
    };
    settings.into_iter().filter_map(|(name, text)| Some((name, text?))).collect()
}
