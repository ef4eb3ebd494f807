//! A test that can be run, and the results of its runs, as plain data.

use alloc::string::String;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use crate::returned::Returned;
use crate::script::{Call, Nr, Step};

/// An order in which the calls are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The index of the test's expectation for this order.
    pub expect: usize,
    /// The numbers of the calls.
    pub calls: Vec<usize>,
}

/// A test that can be run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Plan {
    /// The steps of the set-up, each with the process that executes it.
    pub steps: Vec<(u8, Step)>,
    /// The calls, each with the process that makes it.
    pub calls: Vec<(u8, Call)>,
    /// The orders of the calls. The set-up is repeated for each order.
    pub orders: Vec<Order>,
}

impl Plan {
    /// Returns the indices of the calls that always enter the kernel. Calls that access memory are left out,
    /// since an access enters the kernel only if it faults.
    pub fn system_calls(&self) -> impl Iterator<Item = usize> {
        let in_memory = |call: &Call| matches!(call, Call::Memread { .. } | Call::Memwrite { .. });
        let calls = self.calls.iter().enumerate();
        calls.filter(move |(_, (_, call))| !in_memory(call)).map(|(nr, _)| nr)
    }

    /// Returns the number of processes that the plan needs, at least 1.
    pub fn processes(&self) -> usize {
        let of_steps = self.steps.iter().map(|(process, _)| *process);
        let of_calls = self.calls.iter().map(|(process, _)| *process);
        of_steps.chain(of_calls).max().map_or(1, |last| usize::from(last) + 1)
    }
}

/// The result of a plan. The host compares it with the results that the test expects.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Done {
    /// All runs of each order.
    Ran(Vec<Run>),
    /// A step of the set-up failed.
    SetupFailed(String),
}

/// One run of a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// The index of the order in the plan.
    pub order: usize,
    /// The test's inodes with their inode numbers, if a call returns inode numbers.
    pub inodes: Vec<(Nr, u64)>,
    /// The results of the calls, in the order in which the calls were made.
    pub returned: Vec<Returned>,
}
