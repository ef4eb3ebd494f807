//! The record of a run: a directory of plain files that other tools can read.
//!
//! ```text
//! runs/2026-11-21T090000Z/
//!   run.json        the request, the machine, how the run ended      (schemas/run.schema.json)
//!   samples.jsonl   one line per measured interval                   (schemas/sample.schema.json)
//! ```
//!
//! `run.json` is replaced atomically. `samples.jsonl` grows by whole lines, each written with one
//! system call as soon as the sample is measured. If knee is killed, at most the sample in progress
//! is lost. The file is flushed to the disk after each round, so that a crash of the machine loses
//! at most a round. A flush after each sample would disturb the next one.
//!
//! The directory is locked while a record is written, so that two runs never write into one. The lock is the
//! file `.lock`, which may remain after a killed run.

mod error;
mod line;
mod lock;
mod machine;
mod older;
mod paused;
mod plausible;
mod reader;
mod results;
mod round;
mod sides;
mod writer;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use error::{Access, Lacking, RecordError};
pub use machine::Machine;
pub use paused::Paused;
pub use reader::{Record, directory};
pub use round::{RoundSummary, Rounds, is_disturbed, round_rates};
pub use sides::InTurns;
pub use writer::Writer;

use crate::job::{Failure, FailureKind, Phase};
use crate::plan::Case;
use knee_host::shell::word;
use knee_host::{Environment, deserialize_flattened};
use knee_results::{
    CONFIDENCE, CaseId, Counts, CpuShares, Latency, Mark, Mode, Order, PointId, Request, ServerUse,
};
use knee_stats::{Looks, Spread};

/// Version of the files that this knee writes.
pub const SCHEMA: u32 = 1;
/// Name of the file of samples.
pub const SAMPLES_FILE: &str = "samples.jsonl";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum RunEnd {
    /// Everything that could be measured has been.
    Done,
    /// A signal ended it.
    Interrupted,
    /// The record could not be written any further.
    Failed,
}

/// A point without a result, and the reason.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct PointFailure {
    /// The point.
    #[serde(flatten)]
    pub point: PointId,
    /// The round in which it failed; earlier ones have samples.
    pub round: u32,
    /// What happened.
    #[serde(flatten)]
    pub failure: Failure,
}

deserialize_flattened!(PointFailure {
    round: u32,
    ..point: PointId {
        #[serde(rename = "testcase")]
        case: CaseId,
        mode: Mode,
        tasks: u32,
    },
    ..failure: Failure {
        kind: FailureKind,
        reason: String,
        remedy: String,
    },
});

/// Processes that still ran after a command had ended, and that knee ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LeftRunning {
    /// The command or server.
    pub testcase: CaseId,
    /// The names of the programs, one for each process.
    pub programs: Vec<String>,
}

/// `run.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RunRecord {
    /// Version of this format: 1.
    pub schema: u32,
    /// Whether everything requested has been measured.
    pub complete: bool,
    /// How it ended; absent while it runs, or when it was killed.
    pub end: Option<RunEnd>,
    /// What the user requested.
    pub request: Request,
    /// The machine it ran on.
    pub environment: Environment,
    /// The testcases.
    pub cases: Vec<Case>,
    /// What could not be measured.
    pub failures: Vec<PointFailure>,
    /// Further rounds that failed at points that already had a result. The points keep their earlier
    /// rounds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failed_repeats: Vec<PointFailure>,
    /// Commands that left processes running, and servers that did not stop in time, each with the processes of
    /// the first such round.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<LeftRunning>,
}

/// How to continue a run, after words such as `to continue it`. If that runs commands, it says so, because whoever wrote
/// the record chose them.
fn resume_advice(order: Order, dir: &Path, runs_commands: bool) -> String {
    let warning = if runs_commands { " (this runs the commands in the record)" } else { "" };
    format!("{warning}: {}", resume_command(order, dir))
}

/// The command that continues a run in this order, whose record is in `dir`.
fn resume_command(order: Order, dir: &Path) -> String {
    let command = if order == Order::InTurns { "ab" } else { "run" };
    format!("knee {command} --resume {}", word(dir))
}

impl RunRecord {
    /// The case with the identity `id`.
    pub fn case(&self, id: &CaseId) -> Option<&Case> {
        self.cases.iter().find(|case| case.id == *id)
    }

    /// The command that continues this run, whose record is in `dir`.
    pub fn resume_command(&self, dir: &Path) -> String {
        resume_command(self.request.order, dir)
    }

    /// How to continue this run, whose record is in `dir`, after words such as `to continue it`. If that runs commands
    /// that the record names, it says so.
    pub fn resume_advice(&self, dir: &Path) -> String {
        resume_advice(self.request.order, dir, self.runs_commands())
    }

    /// Whether measuring runs commands, servers or plug-ins that the record names.
    pub fn runs_commands(&self) -> bool {
        !self.cases.iter().all(Case::is_built_in)
    }

    /// Notes the programs that a command or server left running, unless the record has some of it. Returns
    /// whether the record has changed.
    pub fn note_left_running(&mut self, testcase: &CaseId, programs: Vec<String>) -> bool {
        let is_noted = self.left_running.iter().any(|left| left.testcase == *testcase);
        if is_noted || programs.is_empty() {
            return false;
        }
        self.left_running.push(LeftRunning { testcase: testcase.clone(), programs });
        true
    }

    /// The shortest useful interval of the case `id`, in seconds.
    pub fn shortest_interval(&self, id: &CaseId) -> f64 {
        self.case(id).map_or(0.0, |case| case.min_interval)
    }

    /// The looks at the rounds, if each look decides whether a point needs more of them.
    pub fn looks(&self) -> Option<Looks> {
        let request = &self.request;
        match (request.until_decided, request.precision) {
            // The answers about all points hold together; each point has two sides.
            (Some(asked), _) => {
                Some(Looks::new(asked.confidence, self.points().len() / 2, request.rounds))
            }
            (None, Some(_)) => Some(Looks::new(CONFIDENCE, 1, request.rounds)),
            (None, None) => None,
        }
    }

    /// The description of a run that begins now on this machine.
    pub fn new(request: Request, cases: Vec<Case>) -> Self {
        Self {
            schema: SCHEMA,
            complete: false,
            end: None,
            environment: Environment::capture(&request.dir),
            request,
            cases,
            failures: Vec::new(),
            failed_repeats: Vec::new(),
            left_running: Vec::new(),
        }
    }

    /// Describes the machine again, for a run that begins later than it was planned.
    pub fn begin_now(&mut self) {
        self.environment = Environment::capture(&self.request.dir);
    }

    /// All points, in the requested order.
    pub fn points(&self) -> Vec<PointId> {
        self.points_of_cases().map(|(_, point)| point).collect()
    }

    /// All points, in the requested order, each with its case. A loop over many points must not search for the case
    /// of each.
    fn points_of_cases(&self) -> impl Iterator<Item = (&Case, PointId)> {
        crate::plan::points(&self.cases, &self.request.modes, &self.request.tasks)
    }
}

/// A line of `samples.jsonl`: one measured interval of one point. All rates are per second, in
/// the unit of the testcase.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct SampleLine {
    /// The point.
    #[serde(flatten)]
    pub point: PointId,
    /// Round, from 0.
    pub round: u32,
    /// Number of the interval in its round, from 0.
    pub sample: u64,
    /// Whether it counts.
    pub phase: Phase,
    /// Length in seconds, by CLOCK_MONOTONIC_RAW.
    pub seconds: f64,
    /// Throughput, and how evenly the tasks shared it.
    #[serde(flatten)]
    pub spread: Spread,
    /// Each task.
    pub rates: Vec<f64>,
    /// How the CPUs of the point spent the interval.
    pub cpu: Option<CpuShares>,
    /// Share of the time of the CPUs of the point that other work got.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost: Option<f64>,
    /// Steps per second of the reference loop before the round, averaged over the tasks; in a line of
    /// the phase `round`, after the round. Shows the speed of the CPUs, independent of the testcase.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<f64>,
    /// Bytes per second that a task reads from memory before the round, averaged over the tasks.
    /// Shows whether other work uses the memory bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<f64>,
    /// How a server and the load on it used their CPUs. Only the lines of a server contain it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerUse>,
    /// How long single requests or iterations took. Only a run that measures latency contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Why the latency of the server could not be measured in this round, although its rate was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_failure: Option<Failure>,
    /// Events of the processors and the kernel. Only a run that counts them contains it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counters: Option<Counts>,
    /// Reasons to distrust the interval.
    pub marks: Vec<Mark>,
}

impl SampleLine {
    /// The line for a sample of a runner, in units of `steps` steps. `None` without tasks.
    pub fn new(
        point: &PointId,
        round: u32,
        sample: u64,
        measured: crate::job::Sample,
        steps: u64,
    ) -> Option<Self> {
        let rates: Vec<f64> = measured.rates.iter().map(|rate| rate / steps as f64).collect();
        Some(Self {
            point: point.clone(),
            round,
            sample,
            phase: measured.phase,
            seconds: measured.seconds,
            spread: Spread::of(&rates)?,
            rates,
            cpu: measured.cpu,
            lost: measured.lost,
            reference: measured.reference,
            memory: measured.memory,
            server: measured.server,
            latency: measured.latency,
            latency_failure: measured.latency_failure,
            counters: measured.counters,
            marks: measured.marks,
        })
    }
}

/// The JSON schema of `run.json`.
pub fn run_schema() -> serde_json::Value {
    schemars::schema_for!(RunRecord).to_value()
}

/// The JSON schema of a line of `samples.jsonl`.
pub fn sample_schema() -> serde_json::Value {
    schemars::schema_for!(SampleLine).to_value()
}
