//! One testcase in one mode with one task count.

use std::collections::BTreeMap;
use std::fmt;

use knee_stats::{Looks, MedianInterval, median_interval};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CaseId, CpuShares, LatencyGap, Mark, Mode, PointCounters, PointLatency, Served};

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// Tolerance for rounding: the computed confidence of six rounds is slightly below 95%.
const ROUNDING: f64 = 1e-9;
/// Maximum tasks of a point. A larger number is more likely a typing error than a real machine.
pub const MAX_TASKS: u32 = 16384;

/// Which point: one testcase in one mode with one task count.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PointId {
    /// What is measured.
    #[serde(rename = "testcase")]
    pub case: CaseId,
    /// Processes or threads.
    pub mode: Mode,
    /// Task count.
    pub tasks: u32,
}

impl fmt::Display for PointId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} ×{}", self.case, self.mode, self.tasks)
    }
}

/// What was measured at one task count. Rates are per second, in the unit of the testcase.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Task count. On a curve over connections, their number; see [`Axis`](crate::Axis).
    pub tasks: u32,
    /// Median over the rounds.
    pub rate: f64,
    /// Lower end of the interval of the median.
    pub low: f64,
    /// Upper end of the interval of the median.
    pub high: f64,
    /// Confidence of that interval: [`CONFIDENCE`], or less with too few rounds. If the rounds were
    /// looked at repeatedly, the interval of this one look is wider, so that this confidence holds
    /// at whichever look they ended.
    pub confidence: f64,
    /// The rate of each round that counts.
    pub rounds: Vec<f64>,
    /// How many rounds were measured, including disturbed ones that do not count.
    pub measured: usize,
    /// Whether other work disturbed too many rounds, so that nothing may be concluded from the
    /// point.
    pub disturbed: bool,
    /// Whether there are more tasks than CPUs. Such a point shows how tasks share CPUs, not how
    /// they scale.
    pub oversubscribed: bool,
    /// How the tasks differ, if the format contains it.
    pub per_task: Option<PerTask>,
    /// How the CPUs of the point spent their time, averaged over the samples.
    pub cpu: Option<CpuShares>,
    /// How the server and its load used their CPUs, if a server was measured.
    pub server: Option<Served>,
    /// How long single requests or iterations took, if that was measured.
    pub latency: Option<PointLatency>,
    /// The rounds without latency, if it could not be measured in all of them.
    pub latency_gap: Option<LatencyGap>,
    /// Events of the processors and the kernel, if they were counted.
    pub counters: Option<PointCounters>,
    /// Number of samples that count.
    pub samples: u64,
    /// How many of them are marked.
    pub marked: u64,
    /// Sample counts by mark.
    pub marks: BTreeMap<Mark, u64>,
}

/// How the tasks of a point differ.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct PerTask {
    /// Slowest task of any sample, per second.
    pub min: f64,
    /// Fastest task of any sample, per second.
    pub max: f64,
    /// Median over the rounds of Jain's fairness index, 1/tasks to 1.
    pub fairness: f64,
}

impl Point {
    /// The median of `rounds` and its interval; `None` without rounds.
    pub fn new(tasks: u32, rounds: Vec<f64>) -> Option<Self> {
        Self::at_look(tasks, rounds, None)
    }

    /// Like [`new`](Self::new), for rounds that ended at one of several `looks`.
    pub fn at_look(tasks: u32, rounds: Vec<f64>, looks: Option<Looks>) -> Option<Self> {
        let confidence = looks.map_or(CONFIDENCE, |l| l.confidence(rounds.len(), CONFIDENCE));
        let interval = median_interval(&rounds, confidence)?;
        Some(Self {
            tasks,
            rate: interval.median,
            low: interval.low,
            high: interval.high,
            confidence: interval.confidence.min(CONFIDENCE),
            samples: rounds.len() as u64,
            measured: rounds.len(),
            disturbed: false,
            oversubscribed: false,
            rounds,
            per_task: None,
            cpu: None,
            server: None,
            latency: None,
            latency_gap: None,
            counters: None,
            marked: 0,
            marks: BTreeMap::new(),
        })
    }

    /// The same point on a curve over connections, which knows nothing about single connections.
    pub fn with_connections(&self, connections: u32) -> Self {
        Self { tasks: connections, per_task: None, ..self.clone() }
    }

    /// Half the width of the interval as a share of the median.
    pub fn relative_half_width(&self) -> f64 {
        MedianInterval {
            median: self.rate,
            low: self.low,
            high: self.high,
            confidence: self.confidence,
            n: self.rounds.len(),
        }
        .relative_half_width()
    }

    /// Whether the interval, at [`CONFIDENCE`], is within a share `precision` of the median.
    pub fn is_precise(&self, precision: f64) -> bool {
        self.confidence + ROUNDING >= CONFIDENCE && self.relative_half_width() <= precision
    }

    /// Whether there is an interval. One round has none.
    pub fn has_interval(&self) -> bool {
        self.rounds.len() > 1
    }

    /// Whether the rate is only a lower bound, because a server left its CPUs idle.
    pub fn is_lower_bound(&self) -> bool {
        self.server.is_some_and(|server| server.is_lower_bound())
    }

    /// Whether the rate is a limit of the load: the server left its CPUs idle, and the load did not.
    pub fn is_limited_by_load(&self) -> bool {
        self.server.is_some_and(|server| server.is_lower_bound() && server.is_load_full())
    }

    /// Whether tasks share CPUs with each other, or a server with the load on it. Such a point shows how
    /// they share CPUs, and not how they scale.
    pub fn shares_cpus(&self) -> bool {
        self.oversubscribed || self.is_shared_with_load()
    }

    /// Whether a server shares its CPUs with the load on it.
    pub fn is_shared_with_load(&self) -> bool {
        self.server.is_some_and(|server| server.shared)
    }
}
