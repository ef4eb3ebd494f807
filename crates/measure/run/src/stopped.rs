//! Why a round ended before all of its samples were there.

use std::io;

use crate::job::Failure;

/// Why a round did not complete.
#[derive(Debug)]
pub enum Stopped {
    /// A failure. The samples before it were delivered.
    Failed(Failure),
    /// A signal asked knee to stop.
    Interrupted(i32),
    /// The receiver of the samples does not want any more.
    ByReceiver(io::Error),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
