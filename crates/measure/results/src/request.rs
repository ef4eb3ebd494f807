//! The parameters of a run.

use knee_host::counters::CounterSet;
use knee_host::{Environment, Placement};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{LatencyRequest, Mode};

/// The order in which the points of a round are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// As named on the command line.
    AsGiven,
    /// Shuffled anew in each round, so that a drift of the machine does not look like a curve.
    Shuffled,
    /// The two sides interleaved (ABBA: before, after; after, before), so that a drift of the
    /// machine affects both alike. The pairs of a round are shuffled.
    InTurns,
}

/// What the user requested, with all defaults filled in.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Request {
    /// Modes to measure.
    pub modes: Vec<Mode>,
    /// Task counts to measure.
    pub tasks: Vec<u32>,
    /// Rounds per point: each a fresh runner process.
    pub rounds: u32,
    /// Samples per round.
    pub samples: u64,
    /// Seconds per sample. Samples of testcases with long steps are longer.
    pub interval: f64,
    /// Seconds before the first sample of a round.
    pub warmup: f64,
    /// Seconds that a testcase may take to start.
    pub start_timeout: f64,
    /// Add rounds until the interval of a point is within this share of its median.
    pub precision: Option<f64>,
    /// Add rounds until the sides of a point differ, or are the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_decided: Option<UntilDecided>,
    /// Seconds of measuring per point after which `precision` and `until_decided` add no more
    /// rounds.
    pub max_time: f64,
    /// Measure disturbed rounds again until the run takes this many times as long as planned. 1 repeats
    /// no round.
    #[serde(default = "no_patience")]
    pub patience: f64,
    /// Order of the points within a round.
    pub order: Order,
    /// Seed of all random choices.
    pub seed: u64,
    /// The placement order.
    pub placement: Placement,
    /// The CPUs, in placement order.
    pub cpus: Vec<u32>,
    /// Which latency is measured beside the rates; absent if none is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyRequest>,
    /// The events that are counted beside the rates; absent if none are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<CounterSet>,
    /// Directory for the files of testcases.
    pub dir: std::path::PathBuf,
    /// Whether this run measures the noise floor.
    pub aa: bool,
}

impl Request {
    /// The options of `knee run` that cost the tasks time, and so lower their rates.
    pub fn slowing_options(&self) -> Vec<&'static str> {
        let reads_clock = self.latency.is_some_and(LatencyRequest::slows_rates);
        let options = [(reads_clock, "--latency"), (self.counters.is_some(), "--counters")];
        options.into_iter().filter(|(is_on, _)| *is_on).map(|(_, option)| option).collect()
    }
}

/// The question that an interleaved run decides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UntilDecided {
    /// Sides whose ratio differs from 1 by at most this are the same.
    pub within: f64,
    /// Confidence of the answers at all points together, 0 to 1.
    pub confidence: f64,
}

/// Records from before 2026-11-26 have no repeated rounds.
fn no_patience() -> f64 {
    1.0
}

/// The origin of results.
#[derive(Debug, Clone, PartialEq)]
pub struct Origin {
    /// The machine.
    pub environment: Environment,
    /// What the user requested.
    pub request: Request,
    /// Whether all of it was measured.
    pub complete: bool,
}
