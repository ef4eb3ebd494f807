//! Saved traces, from which any number of curves can be predicted.
//!
//! The file is JSON:
//!
//! ```json
//! {
//!   "schema": 1, "kind": "prediction trace", "knee": "0.1.0",
//!   "traces": [{
//!     "testcase": "open1", "mode": "processes", "of": { "kernel": "Linux 6.12.117" },
//!     "iterations": 1, "alone": { "rate": 2e6, "measured_on": "vm, Linux 6.18" },
//!     "workload": {
//!       "recorded": [{ "node": 0, "iterations": ["2000 a0 2000 a0"] }],
//!       "lines": [{ "name": "aa_profile.label.count", "scope": "global" }],
//!       "locks": [{ "name": "zone.lock", "line": 0, "kind": "spin", "scope": "node" }]
//!     }
//!   }]
//! }
//! ```
//!
//! Each iteration is a text, because a trace consists of hundreds of thousands of [steps](crate::simulate::Step):
//!
//! | word | step |
//! | --- | --- |
//! | `120` | 120 instructions |
//! | `l4`, `s4`, `a4`, `c4` | a load, a store, an atomic instruction, or a compare-and-swap after a load, on line 4 |
//! | `x0` | takes lock 0 exclusively |
//! | `r0` | takes lock 0 shared |
//! | `u0` | releases lock 0 |
//! | `f` | flushes translations of other CPUs |
//!
//! Files can come from other people, so the reader limits their sizes and checks all indices.

mod file;
mod notation;
#[cfg(test)]
mod tests;

use std::fmt;

use knee_results::Mode;
use knee_results::prediction::Alone;
use serde::{Deserialize, Serialize};

use crate::simulate::Workload;

pub use self::file::TraceError;
pub use self::notation::StepError;

/// The traces in a file, in the order of the kernels, and for each kernel in the order of the testcases.
#[derive(Debug, Clone, PartialEq)]
pub struct Traces(pub Vec<Trace>);

/// What tasks do that repeat one testcase, or operations of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// The testcase, or the operations of one iteration of a program, such as `push+pop`.
    pub testcase: String,
    /// Whether the traced tasks were threads or processes.
    pub mode: Mode,
    /// What was traced.
    pub of: Traced,
    /// Iterations of the testcase in each recorded iteration.
    pub iterations: u32,
    /// The rate of one task, if known.
    pub alone: Option<Alone>,
    /// The recorded iterations.
    pub workload: Workload,
}

/// What was traced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Traced {
    /// A kernel, with its release.
    Kernel(String),
    /// The code of a program, with its name.
    Program(String),
}

impl fmt::Display for Traced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kernel(name) | Self::Program(name) => f.write_str(name),
        }
    }
}

impl Trace {
    /// Mean number of instructions of an iteration of the testcase.
    pub fn instructions(&self) -> f64 {
        self.workload.mean_instructions() / f64::from(self.iterations)
    }
}
