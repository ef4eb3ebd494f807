//! Runs generated tests of the interface `posix` on the running kernel, and compares what the calls
//! return with what the model allows.
//!
//! ```text
//! tests ─ plan ─▶ steps and calls ─ run, workers ─▶ returned values ─ compare ─▶ outcomes
//! ```
//!
//! The agent starts up to three processes, each with a thread per call. These processes run all tests,
//! because starting processes and threads for each test would take longer than the test. The
//! threads receive commands as plain data through a shared page. After each test, the agent closes
//! all descriptors and unmaps all pages that the test may have left behind. The agent's own
//! descriptors have high numbers, so that the descriptors of a test can begin at 0.
//!
//! In a guest, the agent has two more modes: it measures the cost of an operation that is repeated by tasks
//! on many CPUs, or it runs a program and sends the program's output to the host.

mod apart;
mod arguments;
mod calibration;
mod calls;
mod cleanup;
mod compare;
mod cost;
mod disk;
mod fault;
mod guest;
mod layout;
mod module;
mod plan;
mod process;
mod program;
mod relay;
mod run;
mod set_up;
mod steps;
mod workers;

pub use apart::{MSR, parameter as msr_parameter};
pub use cost::{
    COST, CostRequest, EXPERIMENT, Experiment, Made, Mode, Operation, operations, testcases,
};
pub use disk::{DISK, Disk};
pub use guest::{CONSOLE, init};
pub use knee_commute::{Finding, TestOutcome as Outcome};
pub use plan::plan;
pub use process::{EVERY_ORDER, Line, REPEAT, Summary, main};
pub use program::{PROGRAM, PROGRAM_DIRECTORY, PROGRAM_INPUT, ProgramRequest};
pub use relay::{READ_AT, RELAY_BYTES, RING_BYTES, Relayed, WRITTEN_AT, places, relayed};
pub use run::outcome;

/// The hidden subcommand of knee that starts the agent.
pub const SUBCOMMAND: &str = "agent";
