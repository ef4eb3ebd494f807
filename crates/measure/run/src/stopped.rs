//! Why a round ended before all of its samples were there.

use std::io;

use crate::job::Failure;

/// Why a round gave no complete result.
#[derive(Debug)]
pub enum Stopped {
    /// Something failed; the samples before it were delivered.
    Failed(Failure),
    /// A signal asked knee to stop.
    Interrupted(i32),
    /// The receiver of the samples wanted no more.
    ByReceiver(io::Error),
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}
