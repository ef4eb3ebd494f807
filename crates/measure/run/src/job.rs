//! The protocol between knee and the runner of one round: a job in, events out, each a line of JSON
//! on standard input and output. The input stays open while knee wants the result; closing it ends
//! the round.

use std::path::PathBuf;

use knee_host::counters::CounterSet;
use knee_host::shell::word;
use knee_results::{CaseId, Counts, CpuShares, Latency, LatencyRequest, Mark, Mode, ServerUse};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::call::TaskError;
use crate::description::Server;
use crate::placeholders;

/// Default time in seconds for a testcase to get ready.
pub const START_TIMEOUT: f64 = 30.0;

/// The source of the loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Source {
    /// A testcase compiled for will-it-scale.
    Plugin {
        /// The shared object.
        plugin: PathBuf,
        /// SHA-256 of the file when the run began, in hexadecimal; absent from older records.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        sha256: Option<String>,
    },
    /// A command, which needs no runner.
    Command {
        /// What to run.
        command: Command,
    },
    /// A server under load, which needs no runner.
    Server {
        /// Its description.
        server: Box<Server>,
        /// The directory of the description.
        here: PathBuf,
    },
    /// A testcase of knee's own, found by its identity.
    BuiltIn {},
}

/// A command that is measured from start to end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Command {
    /// The command line as typed, with placeholders such as [`Command::TASKS`].
    pub line: String,
    /// What its rate is.
    pub score: Score,
    /// The text around the printed rate, with [`Command::NUMBER`] in place of the rate. Without it, the rate
    /// is the last number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<String>,
    /// Whether a point runs as many copies as it has tasks, instead of one command.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub copies: bool,
    /// Where it runs.
    pub dir: PathBuf,
}

impl Command {
    /// Placeholder for the task count in a command.
    pub const TASKS: &str = placeholders::TASKS;
    /// Placeholder for the list of the CPUs that the command may use, such as `0-3,8`.
    pub const CPUS: &str = placeholders::CPUS;
    /// Placeholder for the length of the measurement in seconds.
    pub const SECONDS: &str = placeholders::SECONDS;
    /// Placeholder for an empty directory, which is removed after the round.
    pub const DIR: &str = placeholders::DIR;
    /// Placeholder for a TCP port that is free when the command starts.
    pub const PORT: &str = placeholders::PORT;
    /// All placeholders in a command.
    pub const PLACEHOLDERS: [&str; 5] =
        [Self::TASKS, Self::CPUS, Self::SECONDS, Self::DIR, Self::PORT];

    /// A command line with the pattern for its rate, as a user types them: `--read 'tps = #' -- ./bench`.
    pub fn typed(line: &str, read: Option<&str>) -> String {
        match read {
            Some(read) => format!("--read {} -- {line}", word(read)),
            None => line.to_owned(),
        }
    }

    /// A word in braces that is probably meant to be a placeholder, and this placeholder.
    pub fn misspelt(line: &str) -> Option<(&str, &'static str)> {
        placeholders::misspelt(line, &Self::PLACEHOLDERS)
    }

    /// Stands for the rate in [`Command::read`].
    pub const NUMBER: char = placeholders::NUMBER;
    /// Shorter commands, in seconds, are marked as starved only if they have used a tick of CPU time, and lost a tick of
    /// each CPU in addition: the idle times of the machine are rounded to ticks. They are never marked as slow.
    pub const SHORT: f64 = 0.5;

    /// A command in the directory `dir` whose rate is that of its runs, one at each point.
    pub fn timed(line: impl Into<String>, dir: impl Into<PathBuf>) -> Self {
        let (line, dir) = (line.into(), dir.into());
        Self { line, score: Score::Time, read: None, copies: false, dir }
    }

    /// Whether one command gets a task count or CPUs, and so differs between points.
    pub fn takes_tasks(&self) -> bool {
        self.line.contains(Self::TASKS) || self.line.contains(Self::CPUS)
    }

    /// Whether the command gets the length of the measurement.
    pub fn takes_seconds(&self) -> bool {
        self.line.contains(Self::SECONDS)
    }
}

/// What the rate of a command is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Score {
    /// Invocations per second, from the time that the command takes.
    Time,
    /// A number on its standard output: see [`Command::read`].
    Printed,
}

/// One round of one point.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// What to run.
    pub case: CaseId,
    /// Where its loop comes from.
    pub source: Source,
    /// Processes or threads.
    pub mode: Mode,
    /// Task count.
    pub tasks: u32,
    /// The CPUs that tasks may use, in the order of the placement.
    pub cpus: Vec<u32>,
    /// Whether each task is bound to one of them, instead of to all.
    pub pin: bool,
    /// A CPU that no task uses, for the measuring process.
    pub sampler_cpu: Option<u32>,
    /// Seconds before the first interval that counts.
    pub warmup: f64,
    /// Seconds from sample to sample.
    pub interval: f64,
    /// Seconds that preparation may take, and again seconds until all tasks are ready.
    pub start_timeout: f64,
    /// Number of samples; `None`: until the input is closed.
    pub samples: Option<u64>,
    /// Which latency to measure.
    pub latency: Option<LatencyRequest>,
    /// Which events to count.
    pub counters: Option<CounterSet>,
    /// A directory for the testcase, removed after the round.
    pub dir: PathBuf,
    /// The layout of the memory of this round, a random number below [`LAYOUTS`].
    ///
    /// It is the number of bytes added to the environment, which shifts the stack of the runner and
    /// its tasks (Mytkowicz et al., "Producing wrong data without doing anything obviously wrong!",
    /// ASPLOS 2009). Modulo [`MAPS`], it is the number of small maps that the runner creates, which
    /// decides where the maps of the testcase lie among the nodes of the kernel's maple tree. At a
    /// boundary between two nodes, mmap1 runs at two thirds of its speed. A fixed layout would bias
    /// all rounds alike.
    pub layout: u32,
}

/// The number of layouts: the offsets within a page of environment.
pub const LAYOUTS: u32 = 4096;
/// One more than the maximum number of small maps: two leaves of the maple tree
/// (`MAPLE_RANGE64_SLOTS` of linux/maple_tree.h is 16).
pub const MAPS: u32 = 32;

impl Job {
    /// The CPUs that tasks are bound to one by one; empty if they are not.
    pub(crate) fn seats(&self) -> &[u32] {
        if self.pin { &self.cpus } else { &[] }
    }
}

/// What the runner reports, in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// Tasks are about to be created, in this process group.
    Starting {
        /// The description of the testcase.
        description: String,
        /// Process group of the tasks, which is killed as a whole.
        group: i32,
    },
    /// One interval.
    Sample(Box<Sample>),
    /// The round has failed; nothing follows.
    Failed(Failure),
    /// The round is complete, and all of its processes are gone.
    Done,
}

/// Whether an interval counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Warm-up: caches, allocators and clocks settle. Does not count.
    Warmup,
    /// Counts.
    Measure,
    /// The whole round, from its warm-up to its last sample. Does not count, but its marks apply to
    /// all samples of the round.
    Round,
}

/// One measured interval.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Whether it counts.
    pub phase: Phase,
    /// Length in seconds, by CLOCK_MONOTONIC_RAW, averaged over the tasks.
    pub seconds: f64,
    /// Steps per second of each task, each over its own measured interval.
    pub rates: Vec<f64>,
    /// How the CPUs of the point spent the interval; `None` if /proc/stat cannot be read.
    pub cpu: Option<CpuShares>,
    /// Share of the time of the tasks' CPUs that was neither idle nor used by the tasks, kernel
    /// threads or interrupts, nor stolen by the hypervisor. `None` where it is unknown.
    pub lost: Option<f64>,
    /// Steps per second of the reference loop before the round, averaged over the tasks; in
    /// [`Phase::Round`], after the round, averaged over the CPUs. `None` where it was not run.
    pub reference: Option<f64>,
    /// Bytes per second that a task reads from memory before the round, averaged over the tasks;
    /// `None` where it was not measured.
    pub memory: Option<f64>,
    /// How a server and the load on it used their CPUs; `None` if no server was measured.
    pub server: Option<ServerUse>,
    /// How long single requests or iterations took; `None` if that was not measured.
    pub latency: Option<Latency>,
    /// Why the latency could not be measured, although the rate was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub latency_failure: Option<Failure>,
    /// Events of the processors and the kernel; `None` if they were not counted.
    pub counters: Option<Counts>,
    /// Reasons to distrust the interval.
    pub marks: Vec<Mark>,
    /// In [`Phase::Round`], the names of the programs that still ran after the command had ended, or after the
    /// server was asked to stop and its time was over, and that knee ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_running: Vec<String>,
}

/// Why a point has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FailureKind {
    /// The machine lacks something: a program, a permission, a system call.
    CannotRun,
    /// A task was killed, aborted, reported an error or returned.
    Died,
    /// A task completed no iteration, or the testcase never became ready.
    Hung,
    /// The runner itself failed.
    Runner,
}

impl FailureKind {
    /// The kind of failure of a command that ended with this exit status; `None` after a signal. 126 and 127 are the
    /// statuses of a shell for a file that is not a program and for a missing program.
    pub(crate) fn of_command(status: Option<i32>) -> Self {
        if matches!(status, Some(126 | 127)) { Self::CannotRun } else { Self::Died }
    }
}

/// A failure and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// What happened.
    pub reason: String,
    /// What to do next.
    pub remedy: String,
}

impl Failure {
    /// A failure with advice.
    pub fn new(kind: FailureKind, reason: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { kind, reason: reason.into(), remedy: remedy.into() }
    }

    /// The same failure in a round with this task count, with advice that is still to be followed.
    pub(crate) fn with_tasks(self, tasks: u32) -> Self {
        let is_alone = tasks == 1 && self.remedy == DIED_REMEDY;
        Self { remedy: if is_alone { DIED_ALONE_REMEDY.to_owned() } else { self.remedy }, ..self }
    }

    /// A failure of knee's own machinery.
    pub fn runner(reason: impl Into<String>) -> Self {
        Self::new(
            FailureKind::Runner,
            reason,
            "run it again; if it fails again, `knee doctor` shows what is unusual on this machine",
        )
    }
}

impl From<TaskError> for Failure {
    /// Some errors mean that the machine does not provide what the testcase requires.
    fn from(error: TaskError) -> Self {
        let remedy = match error.errno {
            Some(Errno::NOSYS) => "this kernel lacks the system call; use a newer one",
            Some(Errno::PERM | Errno::ACCESS) => {
                "run as root, or outside the container or seccomp filter that forbids it"
            }
            Some(Errno::OPNOTSUPP | Errno::INVAL) => {
                "this file system or kernel does not support it; try another --dir"
            }
            Some(Errno::MFILE | Errno::NFILE) => "raise the limit: ulimit -n 1048576",
            Some(Errno::NOSPC | Errno::DQUOT) => "delete files there, or choose another --dir",
            Some(Errno::NOMEM) => "use fewer tasks (-t), or free memory",
            Some(Errno::AGAIN) => "use fewer tasks (-t), or raise ulimit -u and kernel.pid_max",
            _ => return Self::new(FailureKind::Died, error.to_string(), DIED_REMEDY),
        };
        Self::new(FailureKind::CannotRun, error.to_string(), remedy)
    }
}

/// Advice for a task that died without a known cause.
pub(crate) const DIED_REMEDY: &str =
    "run it with one task (-t 1) to see whether it also fails alone";
/// The same for a task that was alone.
const DIED_ALONE_REMEDY: &str =
    "it was the only task, so look for the cause in the testcase and in the kernel log (dmesg)";
