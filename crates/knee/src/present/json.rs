//! The record with its summaries, as one JSON document.

use std::io::Write;

use knee_results::{Axis, Curve, Point};
use knee_run::record::{Record, SCHEMA};
use serde_json::{Value, json};

/// Writes a document with four parts. `run` is `run.json`. `curves` are the curves with their
/// knees at the efficiency `threshold`, and `over_connections` those of servers over connections, with
/// the same points. `samples` are the lines of `samples.jsonl`, written one by
/// one, because there may be millions.
pub(super) fn render(
    record: &Record,
    curves: &[Curve],
    threshold: f64,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let run = serde_json::to_string(&record.run)?;
    let all = |curves: &[Curve]| {
        let all: Vec<Value> = curves.iter().map(|curve| curve_json(curve, threshold)).collect();
        serde_json::to_string(&all)
    };
    let (sweeps, curves) = (all(&Curve::over_connections(curves))?, all(curves)?);
    write!(
        out,
        "{{\"schema\":{SCHEMA},\n\"run\":{run},\n\"curves\":{curves},\n\
         \"over_connections\":{sweeps},\n\"samples\":["
    )?;
    for (nr, line) in record.samples()?.enumerate() {
        let comma = if nr > 0 { "," } else { "" };
        write!(out, "{comma}\n{}", serde_json::to_string(&line?)?)?;
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}

/// A point. `connections` is null unless they are swept. Values relative to one task are null for a
/// point that is not sound, and if there is no sound point at one task.
pub(super) fn point_json(curve: &Curve, point: &Point) -> Value {
    let scaling = curve.scaling(point);
    let id = curve.id(point.tasks);
    let connections = id.case.connections();
    json!({
        "speedup": scaling.map(|scaling| scaling.speedup),
        "efficiency": scaling.map(|scaling| scaling.efficiency),
        "testcase": id.case,
        "mode": id.mode,
        "tasks": id.tasks,
        "connections": connections,
        "rate": point.rate,
        "low": point.low,
        "high": point.high,
        "confidence": point.confidence,
        "rounds": point.rounds,
        "measured": point.measured,
        "disturbed": point.disturbed,
        "oversubscribed": point.oversubscribed,
        "implausible": scaling.map(|scaling| scaling.is_implausible()),
        "min": point.per_task.map(|tasks| tasks.min),
        "max": point.per_task.map(|tasks| tasks.max),
        "fairness": point.per_task.map(|tasks| tasks.fairness),
        "cpu": point.cpu,
        "server": point.server,
        "latency": point.latency,
        "latency_gap": point.latency_gap,
        "counters": point.counters,
        "lower_bound": point.server.map(|server| server.is_lower_bound()),
        "samples": point.samples,
        "marked": point.marked,
        "marks": point.marks,
    })
}

fn curve_json(curve: &Curve, threshold: f64) -> Value {
    let points = curve.points().iter().map(|point| point_json(curve, point));
    let tasks = match curve.axis {
        Axis::Tasks => None,
        Axis::Connections { tasks } => Some(tasks),
    };
    json!({
        "testcase": curve.case,
        "mode": curve.mode,
        "axis": curve.axis.as_str(),
        "tasks": tasks,
        "points": points.collect::<Vec<Value>>(),
        "knee": curve.knee(threshold).tasks(),
        "peak": curve.peak().map(|peak| peak.tasks),
        "scaling": curve.verdict(threshold).as_str(),
    })
}
