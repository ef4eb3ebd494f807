//! The record with its summaries, as one JSON document.

use knee_measure::record::{Record, SCHEMA};
use knee_measure::summary::CurveSummary;
use serde_json::json;

/// `run` is `run.json`, `samples` are the lines of `samples.jsonl`, `curves` the summaries.
pub(crate) fn render(record: &Record, curves: &[CurveSummary]) -> String {
    let document = json!({
        "schema": SCHEMA,
        "run": record.run,
        "curves": curves,
        "samples": record.samples,
    });
    format!("{document:#}\n")
}
