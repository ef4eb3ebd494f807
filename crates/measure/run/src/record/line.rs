//! Reading a line of `samples.jsonl`.

use knee_host::deserialize_flattened;
use knee_results::{CaseId, Counts, CpuShares, Latency, Mark, Mode, PointId, ServerUse};
use knee_stats::Spread;

use super::SampleLine;
use crate::job::{Failure, Phase};

deserialize_flattened!(SampleLine {
    round: u32,
    sample: u64,
    phase: Phase,
    seconds: f64,
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
    ..point: PointId {
        #[serde(rename = "testcase")]
        case: CaseId,
        mode: Mode,
        tasks: u32,
    },
    ..spread: Spread {
        total: f64,
        min: f64,
        max: f64,
        mean: f64,
        stddev: f64,
        fairness: f64,
    },
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_as_its_schema_describes() {
        let text = r#"{"testcase":"read1@file=same","mode":"threads","tasks":2,"round":1,"sample":0,
            "phase":"measure","seconds":0.2,"total":30.0,"min":10.0,"max":20.0,"mean":15.0,
            "stddev":5.0,"fairness":0.9,"rates":[10.0,20.0],"cpu":null,"marks":["late"]}"#;
        let expected = SampleLine {
            point: PointId {
                case: serde_json::from_str(r#""read1@file=same""#).unwrap(),
                mode: Mode::Threads,
                tasks: 2,
            },
            round: 1,
            sample: 0,
            phase: Phase::Measure,
            seconds: 0.2,
            spread: Spread {
                total: 30.0,
                min: 10.0,
                max: 20.0,
                mean: 15.0,
                stddev: 5.0,
                fairness: 0.9,
            },
            rates: vec![10.0, 20.0],
            cpu: None,
            lost: None,
            reference: None,
            memory: None,
            server: None,
            latency: None,
            latency_failure: None,
            counters: None,
            marks: vec![Mark::Late],
        };
        assert_eq!(serde_json::from_str::<SampleLine>(text).unwrap(), expected);
    }
}
