//! Predicted curves, and the document in which `knee predict` writes them.
//!
//! The table, the JSON, the file and the page all show these values. [`Predictions::parse`] reads a
//! file that anybody may have written. The schema of the document is
//! `schemas/prediction.schema.json`.

mod check;
mod limits;

use std::fmt;

use knee_host::deserialize_flattened;
use knee_host::json::at_most;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::check::PredictionError;
pub use self::limits::Limit;
use crate::{CaseId, Mode};

/// Version of the document.
pub const SCHEMA: u64 = 1;
/// What the document is, in its field `kind`.
pub const KIND: &str = "prediction";
/// The most predictions in a file. Each takes kilobytes of a page, however few bytes of the file it has.
const MOST_PREDICTIONS: usize = 500;
/// The most curves in a prediction.
pub const MOST_CURVES: usize = 16;
/// The most points of a curve.
pub const MOST_POINTS: usize = 4_096;
/// The most assumptions. A machine has fewer figures.
const MOST_ASSUMPTIONS: usize = 100;
/// The most stations of a point, the busiest of which are in the document.
pub const MOST_STATIONS: usize = 10;

/// Predictions of `knee predict`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Predictions {
    /// Version of the document: 1.
    pub schema: u64,
    /// `prediction`.
    pub kind: String,
    /// Version of knee that predicted.
    pub knee_version: String,
    /// Share of the draws inside a band.
    pub confidence: f64,
    /// What the user changed in the workload, such as `without label.count`; may be empty.
    pub changes: String,
    /// What the file of the machine lacks, and what was assumed instead.
    #[serde(deserialize_with = "at_most::<MOST_ASSUMPTIONS, _, _>")]
    pub assumptions: Vec<String>,
    /// One for each testcase.
    #[serde(deserialize_with = "at_most::<MOST_PREDICTIONS, _, _>")]
    pub predictions: Vec<Prediction>,
}

/// The prediction of a testcase on a machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// The testcase, or the operations of a program in each iteration, such as `push+pop`.
    pub testcase: CaseId,
    /// Whether tasks are processes or threads.
    pub mode: Mode,
    /// The machine.
    pub machine: Machine,
    /// The rate of one task with the first kernel.
    pub alone: Alone,
    /// One for each kernel. All have the same task counts.
    #[serde(deserialize_with = "at_most::<MOST_CURVES, _, _>")]
    pub curves: Vec<Curve>,
}

/// The machine of a prediction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// Its name in `knee machine list`, or in its file.
    pub name: String,
    /// Its processors.
    pub title: String,
}

/// The rate of one task.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Alone {
    /// Iterations per second.
    pub rate: f64,
    /// Host and kernel on which knee measured it. Null if the user gave it.
    pub measured_on: Option<String>,
}

/// The prediction for a kernel or a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// Name and release of the kernel, or name of the program.
    pub kernel: String,
    /// Time of an iteration of one task, relative to the first kernel or program.
    pub time_ratio: f64,
    /// Whether both times were measured. Otherwise `time_ratio` is the ratio of their instructions.
    pub is_measured: bool,
    /// The points, by task count.
    #[serde(deserialize_with = "at_most::<MOST_POINTS, _, _>")]
    pub points: Vec<Point>,
    /// What comes next without the limit of the last point. Null if nothing limits it.
    pub next: Option<Next>,
}

/// The prediction for a number of tasks. All rates are iterations per second of all tasks together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Number of tasks.
    pub tasks: u32,
    /// What limits the point, and so how far the prediction can be trusted.
    pub class: Class,
    /// The rate. Null if only the bound is known (class D).
    pub rate: Option<f64>,
    /// Lower end of the band. Null if only the bound is known.
    pub low: Option<f64>,
    /// Upper end of the band. Null if only the bound is known.
    pub high: Option<f64>,
    /// What the simulation gives, also where it cannot be trusted.
    pub simulated: f64,
    /// The rate without contention.
    pub free: f64,
    /// The rate without contention, or that at which the busiest station is always busy if that is
    /// less.
    pub bound: f64,
    /// The rate by mean value analysis. Null where it does not apply.
    pub analysis: Option<f64>,
    /// Name of the line or lock that costs more than 5% of the throughput. Null if none does.
    pub limit: Option<String>,
    /// The lines and locks that tasks wait for, the busiest first, at most ten.
    #[serde(deserialize_with = "at_most::<MOST_STATIONS, _, _>")]
    pub stations: Vec<Station>,
    /// The rate relative to the first kernel. Null for the first kernel, and where one of the two
    /// rates is only a bound.
    pub ratio: Option<Ratio>,
}

impl Point {
    /// The rate and both ends of its band; `None` if only the bound is known.
    pub fn band(&self) -> Option<(f64, f64, f64)> {
        Some((self.rate?, self.low?, self.high?))
    }

    /// The station that limits the point.
    pub fn binding(&self) -> Option<&Station> {
        let limit = self.limit.as_ref()?;
        self.stations.iter().find(|station| station.name == *limit)
    }
}

/// A line or a lock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Station {
    /// Name of the data.
    pub name: String,
    /// What it is.
    pub kind: StationKind,
    /// How many of these lines or locks are in use.
    pub instances: u32,
    /// Share of the time during which the busiest of them is busy.
    pub utilisation: f64,
    /// Mean number of tasks that wait for the most wanted of them.
    pub waiting: f64,
    /// Transfers of the line, or sections of the lock, per iteration.
    pub visits: f64,
    /// Mean time in ns of a transfer or section.
    pub service_ns: f64,
    /// Share of the transfers that come from another socket.
    pub far: f64,
    /// The rate at which the busiest of them would always be busy.
    pub plateau: f64,
}

/// The kind of a station.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum StationKind {
    /// A cache line.
    Line,
    /// A lock.
    Lock,
    /// The CPUs of an address space, whose translations are flushed.
    Shootdown,
}

/// A ratio of two rates, with its band.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ratio {
    /// The median of the draws.
    pub value: f64,
    /// Lower end of the band.
    pub low: f64,
    /// Upper end of the band.
    pub high: f64,
}

/// The last point of a curve without the line or lock that limits it.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Next {
    /// Name of the line or lock.
    pub without: String,
    /// The point.
    #[serde(flatten)]
    pub point: Point,
}

deserialize_flattened!(Next {
    without: String,
    ..point: Point {
        tasks: u32,
        class: Class,
        rate: Option<f64>,
        low: Option<f64>,
        high: Option<f64>,
        simulated: f64,
        free: f64,
        bound: f64,
        analysis: Option<f64>,
        limit: Option<String>,
        #[serde(deserialize_with = "at_most::<MOST_STATIONS, _, _>")]
        stations: Vec<Station>,
        ratio: Option<Ratio>,
    },
});

/// What limits a point, and so which parts of the model its prediction depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[derive(Serialize, Deserialize, JsonSchema)]
pub enum Class {
    /// Nothing that tasks share: only the clock and the hardware threads.
    A,
    /// A line, a lock or TLB shootdowns, within a socket.
    B,
    /// The same over several sockets.
    C,
    /// Semaphores for which both readers and writers wait, and locks of programs. Tasks that wait may
    /// sleep, so only the bound is known.
    D,
}

impl Class {
    /// All, the most trustworthy first.
    pub const ALL: [Self; 4] = [Self::A, Self::B, Self::C, Self::D];

    /// What the class says about a point, as a sentence without a full stop.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::A => "nothing that the tasks share slows them down",
            Self::B => "a cache line, a lock or TLB shootdowns slow them down, within a socket",
            Self::C => "a cache line, a lock or TLB shootdowns slow them down, between sockets",
            Self::D => "tasks that wait for a lock may sleep, so only a bound is known",
        }
    }
}

impl fmt::Display for Class {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

impl Prediction {
    /// The classes of its points, each once, in order.
    pub fn classes(&self) -> impl Iterator<Item = Class> {
        let points = || self.curves.iter().flat_map(|curve| &curve.points);
        Class::ALL.into_iter().filter(move |class| points().any(|point| point.class == *class))
    }
}

impl Curve {
    /// Where the time of an iteration is from, for curves after the first one: `× 0.97 instructions`.
    pub fn source(&self) -> String {
        match self.is_measured {
            true => "measured".to_owned(),
            false => format!("× {:.2} instructions", self.time_ratio),
        }
    }
}

impl Alone {
    /// Where the rate is from: `given by --at`.
    pub fn source(&self) -> String {
        match &self.measured_on {
            Some(place) => format!("measured on {place}, not scaled"),
            None => "given by --at".to_owned(),
        }
    }
}

/// The JSON schema of the document.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Predictions).to_value()
}

#[cfg(test)]
mod tests;
