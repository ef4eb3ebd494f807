//! The record with its summaries, as one JSON document.

use std::io::Write;

use knee_run::record::{Record, SCHEMA};
use knee_run::summary::CurveSummary;
use serde_json::Value;

use super::has_base;

/// `run` is `run.json`, `curves` are the summaries, `samples` the lines of `samples.jsonl`, which
/// are passed on one by one: there may be millions.
pub(super) fn render(
    record: &Record,
    curves: &[CurveSummary],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let run = serde_json::to_string(&record.run)?;
    let curves = curves.iter().map(summary).collect::<Result<Vec<Value>, _>>()?;
    let curves = serde_json::to_string(&curves)?;
    write!(out, "{{\"schema\":{SCHEMA},\n\"run\":{run},\n\"curves\":{curves},\n\"samples\":[")?;
    for (nr, line) in record.samples()?.enumerate() {
        let comma = if nr > 0 { "," } else { "" };
        write!(out, "{comma}\n{}", serde_json::to_string(&line?)?)?;
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}

/// A curve; what is relative to one task is null without a point at one task.
fn summary(curve: &CurveSummary) -> serde_json::Result<Value> {
    let mut value = serde_json::to_value(curve)?;
    if !has_base(curve) {
        value["knee"] = Value::Null;
        for point in value["points"].as_array_mut().into_iter().flatten() {
            point["speedup"] = Value::Null;
            point["efficiency"] = Value::Null;
        }
    }
    Ok(value)
}
