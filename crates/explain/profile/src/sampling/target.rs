//! The target of sampling.

use std::io;

use super::access::SampleError;

/// What to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process, all its threads, and whatever they start from now on.
    Process(i32),
    /// A process that is about to become a program: sampled from then on, with whatever it starts.
    Exec(i32),
    /// Everything on all CPUs.
    System,
}

pub(super) fn gone(target: &Target) -> SampleError {
    match target {
        Target::Process(pid) | Target::Exec(pid) => SampleError::NoProcess { pid: *pid },
        Target::System => SampleError::Cpus(io::ErrorKind::NotFound.into()),
    }
}
