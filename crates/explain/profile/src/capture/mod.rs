//! A capture: what one sampling came to, as it is kept in a file.
//!
//! Functions are kept by name, and stacks as a tree: each node is a function, called by the one of its
//! parent. So a capture is as large as its distinct stacks, however long the sampling was.
//!
//! The file is JSON (`schemas/capture.schema.json`), and a reader needs nothing but it.

mod file;
mod stacks;

use knee_results::PointId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use file::CaptureError;
pub(crate) use file::other_schema;
pub use stacks::{About, Stacks};

/// The version of the file format that this knee writes and reads.
pub const SCHEMA: u32 = 1;

/// What one sampling came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Capture {
    /// [`SCHEMA`].
    pub schema: u32,
    /// What was sampled: a testcase, a command line, a process, or the file it was imported from.
    pub title: String,
    /// Where and when.
    pub machine: Machine,
    /// What a sample is.
    pub clock: Clock,
    /// How long it was sampled, in seconds; `None` where an imported file does not say.
    pub seconds: Option<f64>,
    /// CPU time of what was sampled, in seconds, whatever the samples say; `None` where it was not
    /// counted.
    pub cpu_seconds: Option<f64>,
    /// What it got done meanwhile; `None` where nobody counts.
    pub work: Option<Work>,
    /// What is missing.
    pub losses: Losses,
    /// Names of programs, as the kernel knows them (`comm`).
    pub programs: Vec<String>,
    /// Functions that were seen.
    pub functions: Vec<Function>,
    /// Nodes of the tree of stacks. A parent stands before its children.
    pub stacks: Vec<Stack>,
    /// How often each stack was seen, in each program.
    pub counts: Vec<Count>,
}

/// Where and when a capture was taken.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The kernel's name and release, such as `Linux 6.18.44`; empty where it is unknown.
    pub kernel: String,
    /// Online CPUs; 0 where it is unknown.
    pub cpus: u32,
    /// When it began, such as `2026-11-22T10:00:00Z`; empty where it is unknown.
    pub started_at: String,
}

/// What makes a sample due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// The event, as `perf list` calls it: `cycles`, `cpu-clock`.
    pub event: String,
    /// What [`Count::weight`] counts.
    pub unit: Unit,
    /// Samples for each second of a CPU, where it was chosen so.
    pub frequency: Option<u64>,
    /// Whether it stood still in the kernel, which we were not allowed to see.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub user_only: bool,
}

/// What weights count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Nanoseconds of CPU time.
    Nanoseconds,
    /// Cycles of a CPU.
    Cycles,
    /// Events of another kind, or samples where a file does not say more.
    Events,
}

/// What tasks of a testcase got done while they were sampled.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Work {
    /// The point whose tasks were sampled.
    #[serde(flatten)]
    pub point: PointId,
    /// Iterations of all tasks.
    pub iterations: u64,
}

/// What a capture lacks, and knows that it does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Losses {
    /// Samples for which there was no room.
    pub lost: u64,
    /// How often the kernel stopped sampling for a while because it took too long.
    pub throttled: u64,
    /// Samples whose stacks were deeper than what the kernel records; their outermost functions are
    /// missing.
    pub cut: u64,
    /// Samples that could not be read.
    pub unreadable: u64,
}

/// Where a function is.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// In a program or a library.
    User,
    /// In the kernel or a module of it.
    Kernel,
}

/// A function that was seen.
#[derive(
    Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct Function {
    /// Its name; `[module]` where only that is known, and else `[unknown]`.
    pub name: String,
    /// The file it is in: a path, `[kernel]`, or the kernel's module; `None` where it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Where it is.
    pub kind: Kind,
    /// Whether it is part of its caller's code.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub inlined: bool,
}

/// A node of the tree of stacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// The node of the caller; `None` for a stack's outermost function.
    pub parent: Option<u32>,
    /// The function, by its place among the functions.
    pub function: u32,
}

/// How often a program was seen with a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Count {
    /// The program, by its place among the programs.
    pub program: u32,
    /// The node of the innermost function; `None` for samples without a stack.
    pub stack: Option<u32>,
    /// Samples.
    pub samples: u64,
    /// What the samples stand for, in the clock's unit.
    pub weight: u64,
}

impl Function {
    /// A function of which only the name is known.
    pub fn new(name: impl Into<String>, kind: Kind) -> Function {
        Function { name: name.into(), module: None, kind, inlined: false }
    }
}

impl Capture {
    /// Samples of all stacks.
    pub fn samples(&self) -> u64 {
        self.counts.iter().map(|count| count.samples).sum()
    }

    /// Weight of all stacks, in the clock's unit.
    pub fn weight(&self) -> u64 {
        self.counts.iter().map(|count| count.weight).sum()
    }

    /// The functions of a stack, from the innermost to the outermost, by their places.
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
