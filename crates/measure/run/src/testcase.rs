//! What a testcase is: an endless loop of one operation.
//!
//! Names and meaning follow will-it-scale, so that rates are comparable. Variants of a testcase,
//! such as what its tasks share, are values of its [parameters](crate::parameter):
//! `read1@file=same`.

use std::path::Path;

use knee_results::Family;
use serde::Serialize;

use crate::area::SharedObject;
use crate::call::TaskError;
use crate::parameter::{Choice, Parameter, ParameterError, Settings};
use crate::task::{Outcome, Task};

/// What a rate counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Unit {
    /// What is counted, in the plural: `iterations`, `pages`, `builds`.
    pub name: &'static str,
    /// Steps of the loop in one iteration: 1, or more for testcases with very long iterations.
    pub steps: u64,
    /// Bytes that one of them moves or fills; 0 if not applicable.
    pub bytes: u64,
}

impl Unit {
    /// One iteration of the loop.
    pub const ITERATIONS: Self = Self { name: "iterations", steps: 1, bytes: 0 };
    /// One page of 4096 bytes.
    pub const PAGES: Self = Self { name: "pages", steps: 1, bytes: 4096 };
}

/// A requirement of a testcase on the machine or the mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// A tmpfs at `/dev/shm`.
    Tmpfs,
    /// A file system that supports `O_DIRECT`.
    DirectIo,
    /// A C compiler named `cc`.
    CCompiler,
    /// Transparent huge pages not set to `never`.
    HugePages,
    /// The loopback network interface.
    Loopback,
    /// A CPU with a 128-bit compare-exchange.
    Exchange128,
    /// Tasks that are threads, because they share an object in the memory of their process.
    Threads,
    /// This many bytes of memory for each task.
    Memory(u64),
    /// This many open files for each task.
    OpenFiles(u64),
}

/// The input of a testcase's `prepare`, which runs once, in the runner, before any task exists.
pub struct Setup<'a> {
    /// An empty directory that is removed after the point.
    pub dir: &'a Path,
    /// Number of tasks.
    pub tasks: u32,
    /// A value for each parameter.
    pub settings: &'a Settings,
    /// Zeroed memory that all tasks will share, in both modes.
    pub object: &'a SharedObject,
}

/// One testcase.
pub struct Testcase {
    /// Name, as in will-it-scale if it is from that suite.
    pub name: &'static str,
    /// The service it exercises.
    pub family: Family,
    /// What one iteration does, in one line.
    pub description: &'static str,
    /// What a rate counts.
    pub unit: Unit,
    /// The requirements on the machine and the mode.
    pub needs: &'static [Need],
    /// Its parameters. A parameter with one value cannot be changed.
    pub parameters: &'static [Parameter],
    /// The choices with which it behaves like will-it-scale's testcase of this name, if they are
    /// not the defaults.
    pub original: Option<Choice>,
    /// Whether tasks share their CPU with their own helpers, and therefore wait for it by design.
    pub has_helpers: bool,
    /// Whether tasks start programs, or map code, after they have begun to count.
    pub starts_programs: bool,
    /// Shortest useful interval in seconds, for testcases whose steps are long.
    pub min_interval: f64,
    /// Prepares what the tasks share.
    pub prepare: fn(&Setup<'_>) -> Result<(), TaskError>,
    /// The loop: sets up, reports ready with [`Task::start`], and returns only on failure. It is a named
    /// function, because a profile would show a closure as `FnOnce::call_once`.
    pub run: fn(&Task<'_>) -> Outcome,
}

impl Testcase {
    /// A testcase of `family` with the loop `run`, and defaults for the other fields.
    pub const fn new(family: Family, run: fn(&Task<'_>) -> Outcome) -> Self {
        Self {
            name: "",
            family,
            description: "",
            unit: Unit::ITERATIONS,
            needs: &[],
            parameters: &[],
            original: None,
            has_helpers: false,
            starts_programs: false,
            min_interval: 0.0,
            prepare: |_| Ok(()),
            run,
        }
    }

    /// Its settings with these choices, pairs of key and value.
    ///
    /// # Errors
    /// A pair is unknown, repeats a key, or contradicts another.
    pub fn settings<K: AsRef<str>>(&self, chosen: &[(K, K)]) -> Result<Settings, ParameterError> {
        Settings::new(self.parameters, chosen)
    }
}
