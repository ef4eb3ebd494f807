//! The record with its summaries, as one JSON document.

use std::io::Write;

use knee_measure::record::{Record, SCHEMA};
use knee_measure::summary::CurveSummary;

/// `run` is `run.json`, `curves` are the summaries, `samples` the lines of `samples.jsonl`, which
/// are passed on one by one: there may be millions.
pub(super) fn render(
    record: &Record,
    curves: &[CurveSummary],
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let run = serde_json::to_string(&record.run)?;
    let curves = serde_json::to_string(curves)?;
    write!(out, "{{\"schema\":{SCHEMA},\n\"run\":{run},\n\"curves\":{curves},\n\"samples\":[")?;
    for (nr, line) in record.samples()?.enumerate() {
        let comma = if nr > 0 { "," } else { "" };
        write!(out, "{comma}\n{}", serde_json::to_string(&line?)?)?;
    }
    writeln!(out, "\n]}}")?;
    Ok(())
}
