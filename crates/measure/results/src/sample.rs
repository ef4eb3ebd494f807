//! Properties of an interval in addition to its rates.

use std::ops::{Add, Div};

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
#[derive(Debug, Clone, Copy, Default, PartialEq)]
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

impl Add for CpuShares {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            user: self.user + other.user,
            system: self.system + other.system,
            idle: self.idle + other.idle,
            steal: self.steal + other.steal,
            machine_idle: self.machine_idle + other.machine_idle,
        }
    }
}

impl Div<f64> for CpuShares {
    type Output = Self;

    fn div(self, n: f64) -> Self {
        let Self { user, system, idle, steal, machine_idle } = self;
        let [user, system, idle, steal, machine_idle] =
            [user, system, idle, steal, machine_idle].map(|share| share / n);
        Self { user, system, idle, steal, machine_idle }
    }
}
