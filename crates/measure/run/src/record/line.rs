//! Reading a line of `samples.jsonl`.

use knee_results::{CaseId, Counts, CpuShares, Latency, Mark, Mode, PointId, ServerUse};
use knee_stats::Spread;
use serde::Deserialize;

use super::SampleLine;
use crate::job::{Failure, Phase};

/// The fields of [`SampleLine`] without nesting. Serde reads flattened fields through a map of
/// their names, which takes a quarter of the run time of `knee compare`.
#[derive(Deserialize)]
pub(super) struct Line {
    testcase: CaseId,
    mode: Mode,
    tasks: u32,
    round: u32,
    sample: u64,
    phase: Phase,
    seconds: f64,
    total: f64,
    min: f64,
    max: f64,
    mean: f64,
    stddev: f64,
    fairness: f64,
    rates: Vec<f64>,
    cpu: Option<CpuShares>,
    lost: Option<f64>,
    reference: Option<f64>,
    memory: Option<f64>,
    server: Option<ServerUse>,
    latency: Option<Latency>,
    latency_failure: Option<Failure>,
    counters: Option<Counts>,
    marks: Vec<Mark>,
}

impl From<Line> for SampleLine {
    fn from(line: Line) -> Self {
        Self {
            point: PointId { case: line.testcase, mode: line.mode, tasks: line.tasks },
            round: line.round,
            sample: line.sample,
            phase: line.phase,
            seconds: line.seconds,
            spread: Spread {
                total: line.total,
                min: line.min,
                max: line.max,
                mean: line.mean,
                stddev: line.stddev,
                fairness: line.fairness,
            },
            rates: line.rates,
            cpu: line.cpu,
            lost: line.lost,
            reference: line.reference,
            memory: line.memory,
            server: line.server,
            latency: line.latency,
            latency_failure: line.latency_failure,
            counters: line.counters,
            marks: line.marks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_its_schema_describes() {
        let text = r#"{"testcase":"read1@file=same","mode":"threads","tasks":2,"round":1,"sample":0,
            "phase":"measure","seconds":0.2,"total":30.0,"min":10.0,"max":20.0,"mean":15.0,
            "stddev":5.0,"fairness":0.9,"rates":[10.0,20.0],"cpu":null,"marks":["late"]}"#;
        let nested: SampleLine = serde_json::from_str(text).unwrap();
        let flat: Line = serde_json::from_str(text).unwrap();
        assert_eq!(SampleLine::from(flat), nested);
    }
}
