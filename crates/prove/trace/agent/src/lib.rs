//! Runs generated tests of the interface `posix` on the kernel below, and compares what the calls
//! return with what the model allows.
//!
//! ```text
//! tests ─ plan ─▶ steps and calls ─ run, workers ─▶ what was returned ─ compare ─▶ outcomes
//! ```
//!
//! Two processes with a thread for each call are made once and do all tests: a fork and a thread for
//! each test would take longer than the tests. They receive their commands through a shared page, as
//! plain data, and after each test close and unmap all that it could have made. Descriptors of the
//! agent itself are high, so that those of a test may begin with 0.
//!
//! In a guest it can do something else instead: have an operation done over and over by tasks on many
//! CPUs, so that its cost can be counted; or run a program, and report to the host what it prints.

mod apart;
mod arguments;
pub mod calibration;
mod calls;
mod channel;
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
mod returned;
mod run;
mod script;
mod set_up;
mod steps;
mod workers;

pub use apart::{MSR, parameter as msr_parameter};
pub use channel::{Report, Word, channel, reports};
pub use cost::{COST, CostRequest, EXPERIMENT, Experiment, Made, Mode, OPERATIONS, Operation};
pub use disk::{DISK, Disk};
pub use guest::{CONSOLE, init};
pub use knee_commute::{Finding, TestOutcome as Outcome};
pub use plan::Plan;
pub use process::{EVERY_ORDER, Line, Summary, main};
pub use program::{PROGRAM, PROGRAM_DIRECTORY, PROGRAM_INPUT, ProgramRequest};
pub use relay::{READ_AT, RELAY_BYTES, RING_BYTES, Relayed, WRITTEN_AT, places, relayed};
pub use run::{Done, Run};

/// The hidden subcommand of knee that makes it an agent.
pub const SUBCOMMAND: &str = "agent";
