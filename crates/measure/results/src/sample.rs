//! Properties of an interval in addition to its rates.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A reason to distrust an interval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// A task was preempted by other work on its CPU.
    Starved,
    /// The hypervisor took the CPU (steal time).
    Steal,
    /// The measuring process was late: the interval is much longer than requested.
    Late,
    /// The clocks disagree about the length of the interval.
    Clock,
    /// A task completed no iteration in this interval.
    Stalled,
    /// The machine itself was slower than in most rounds of the run, by the reference loops. Found
    /// when a record is read, so samples do not carry it.
    Slow,
}

/// How the CPUs of the point spent an interval, as shares of their time.
#[derive(Debug, Clone, Copy, Default, PartialEq, derive_more::Add, derive_more::Div)]
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CpuShares {
    /// In user space.
    pub user: f64,
    /// In the kernel, interrupts included.
    pub system: f64,
    /// Idle or waiting for I/O.
    pub idle: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Idle share of the whole machine, as in will-it-scale's CSV.
    pub machine_idle: f64,
}
