//! A capture: the result of one sampling, and its file.
//!
//! Functions are stored by name, and stacks as a tree: each node is a function that its parent's function
//! calls. The size of a capture grows with its distinct stacks, not with the duration of the sampling.
//!
//! The file is JSON (`schemas/capture.schema.json`) and needs no other file to be read.

mod file;
mod joined;
mod size;
mod stacks;

use knee_host::deserialize_flattened;
use knee_host::json::at_most;
use knee_results::{CaseId, ITERATIONS, Mode, PointId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use file::CaptureError;
pub(crate) use file::other_schema;
pub use stacks::{MOST_FRAMES, Stacks};

/// The version of the file format that this knee writes and reads.
pub const SCHEMA: u32 = 1;

/// The result of one sampling.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was sampled: a testcase, a command line, a process, or the file it was imported from.
    pub title: String,
    /// Where and when.
    pub machine: Machine,
    /// What a sample is.
    pub clock: Clock,
    /// Duration of the sampling in seconds; `None` if an imported file does not contain it.
    pub seconds: Option<f64>,
    /// CPU time of the target in seconds, measured independently of the samples; `None` if unknown.
    pub cpu_seconds: Option<f64>,
    /// Its work meanwhile; `None` if the target does not count iterations.
    pub work: Option<Work>,
    /// What is missing.
    pub losses: Losses,
    /// Names of programs, as the kernel knows them (`comm`).
    #[serde(deserialize_with = "at_most::<{ size::MOST_PROGRAMS }, _, _>")]
    pub programs: Vec<String>,
    /// Sampled functions.
    pub functions: Vec<Function>,
    /// Nodes of the tree of stacks. A parent precedes its children.
    pub stacks: Vec<Stack>,
    /// Sample counts of each stack in each program.
    pub counts: Vec<Count>,
}

/// Where and when a capture was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The kernel's name and release, such as `Linux 6.18.44`; empty if unknown.
    pub kernel: String,
    /// Online CPUs; 0 if unknown.
    pub cpus: u32,
    /// When it began, such as `2026-11-22T10:00:00Z`; empty if unknown.
    pub started_at: String,
}

/// The clock that triggers samples.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// The event, as `perf list` calls it: `cycles`, `cpu-clock`.
    pub event: String,
    /// What [`Count::weight`] counts.
    pub unit: Unit,
    /// Samples per second and CPU, if the frequency was set.
    pub frequency: Option<u64>,
    /// Whether it stopped in the kernel, because knee was not permitted to sample it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user_only: bool,
}

/// What weights count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds of CPU time.
    Nanoseconds,
    /// Cycles of a CPU.
    Cycles,
    /// Other events, or samples if the file does not specify the event.
    #[default]
    Events,
}

/// The work of a testcase or a server while it was sampled.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Work {
    /// The point whose tasks were sampled.
    #[serde(flatten)]
    pub point: PointId,
    /// Iterations of all tasks, or requests that a server has served.
    pub iterations: u64,
    /// What `iterations` counts, in the plural.
    #[serde(default = "iterations", skip_serializing_if = "is_iterations")]
    pub unit: String,
    /// How a server was loaded; absent if no server was sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<UnderLoad>,
    /// The line of a command as typed, such as `make -j{tasks}` or `--read 'tps = #' -- ./bench`. Absent if no command was
    /// sampled, and from captures of older versions of knee.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Whether other work disturbed so much of the sampling that nothing may be concluded from the costs.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disturbed: bool,
}

deserialize_flattened!(Work {
    iterations: u64,
    #[serde(default = "iterations")]
    unit: String,
    server: Option<UnderLoad>,
    command: Option<String>,
    #[serde(default)]
    disturbed: bool,
    ..point: PointId {
        #[serde(rename = "testcase")]
        case: CaseId,
        mode: Mode,
        tasks: u32,
    },
});

/// The state of a server under load while it was sampled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnderLoad {
    /// Share of the time of its CPUs in which it ran, 0 to 1.
    pub busy: f64,
    /// Whether the load shared the server's CPUs, or had too few CPUs of its own.
    pub shared: bool,
}

fn iterations() -> String {
    ITERATIONS.to_owned()
}

fn is_iterations(unit: &str) -> bool {
    unit == ITERATIONS
}

/// The unit of some work: iterations, unless the work says otherwise.
pub(crate) fn unit(work: Option<&Work>) -> &str {
    work.map_or(ITERATIONS, |work| &work.unit)
}

/// One of a unit, such as `iteration` of `iterations` and `query` of `queries`.
pub fn one_of(unit: &str) -> String {
    match (unit.strip_suffix("ies"), unit.strip_suffix('s')) {
        (Some(start), _) => format!("{start}y"),
        (None, Some(one)) => one.to_owned(),
        (None, None) => unit.to_owned(),
    }
}

/// `an iteration`, `a request`
pub(crate) fn with_article(noun: &str) -> String {
    let article = if noun.starts_with(['a', 'e', 'i', 'o']) { "an" } else { "a" };
    format!("{article} {noun}")
}

/// What is known to be missing in a capture.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// Samples lost because the buffer was full.
    pub lost: u64,
    /// Records of programs, processes and mappings of code that were lost because the buffer was full. Samples
    /// may have the wrong program, or functions without names.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub untracked: u64,
    /// How often the kernel paused sampling because it took too long.
    pub throttled: u64,
    /// Samples whose stacks are too deep for the kernel to record completely; they lack their
    /// outermost functions.
    pub cut: u64,
    /// Samples that could not be read.
    pub unreadable: u64,
    /// Files whose functions have no names or keep their mangled names, because the maps of just-in-time compilers
    /// and the programs that other users can change would take too much memory or time, or because such a program
    /// is not a 64-bit one.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unnamed_files: u64,
    /// Mappings of code that were left out, because all mappings of the sampled processes would take too much
    /// memory. Functions there have no names.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown_mappings: u64,
    /// Samples that were left out, because knee does not read captures with so many different stacks, programs or
    /// functions.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Where a function is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// In a program or a library.
    User,
    /// In the kernel or a module of it.
    Kernel,
}

/// A sampled function.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct Function {
    /// Its name; `[module]` if only the module is known, otherwise `[unknown]`.
    pub name: String,
    /// Its file: a path, `[kernel]`, or a kernel module; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Where it is.
    pub kind: Kind,
    /// Whether it is inlined into its caller.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

/// A node of the tree of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// The node of the caller; `None` for a stack's outermost function.
    pub parent: Option<u32>,
    /// Index of the function in `functions`.
    pub function: u32,
}

/// How often a stack was sampled in a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// Index of the program in `programs`.
    pub program: u32,
    /// The node of the innermost function; `None` for samples without a stack.
    pub stack: Option<u32>,
    /// Samples.
    pub samples: u64,
    /// The weight of the samples, in the clock's unit.
    pub weight: u64,
}

impl Function {
    /// A function with only a name.
    pub fn new(name: impl Into<String>, kind: Kind) -> Function {
        Function { name: name.into(), module: None, kind, inlined: false }
    }
}

impl Capture {
    /// Whether other work disturbed it, so that nothing may be concluded from its costs.
    pub fn is_disturbed(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.disturbed)
    }

    /// Samples of all stacks.
    pub fn samples(&self) -> u64 {
        self.counts.iter().map(|count| count.samples).sum()
    }

    /// Weight of all stacks, in the clock's unit.
    pub fn weight(&self) -> u64 {
        self.counts.iter().map(|count| count.weight).sum()
    }

    /// The functions of a stack, by index, from the innermost to the outermost.
    pub fn functions_of(&self, stack: Option<u32>) -> impl Iterator<Item = u32> + '_ {
        let mut next = stack;
        std::iter::from_fn(move || {
            let node = self.stacks[next? as usize];
            next = node.parent;
            Some(node.function)
        })
    }
}

/// The JSON schema of a capture.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(Capture).to_value()
}

#[cfg(test)]
mod tests;
