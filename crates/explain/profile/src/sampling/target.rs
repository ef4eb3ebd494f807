//! The target of sampling.

use std::io;

use super::access::SampleError;

/// What to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process, all its threads, and all processes that they start from now on.
    Process(i32),
    /// Processes with all their descendants, their threads, and all processes that they start from now on. knee
    /// itself is left out. There is at least one process.
    Trees(Vec<i32>),
    /// A process that is about to execute a program. Sampling starts then, and includes its descendants.
    Exec(i32),
    /// Everything on all CPUs.
    System,
}

impl Target {
    /// The process whose descendants are sampled, or the first of several; `None` for the whole system.
    pub fn pid(&self) -> Option<i32> {
        match self {
            Target::Process(pid) | Target::Exec(pid) => Some(*pid),
            Target::Trees(pids) => pids.first().copied(),
            Target::System => None,
        }
    }

    /// The error if the target has exited.
    pub(super) fn gone(&self) -> SampleError {
        match self.pid() {
            Some(pid) => SampleError::NoProcess { pid },
            None => SampleError::Cpus(io::ErrorKind::NotFound.into()),
        }
    }
}
