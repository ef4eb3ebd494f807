//! A store in the buffer of a CPU.

/// A store that has not taken effect.
#[derive(Debug, Clone, Copy)]
pub(super) struct Store {
    pub(super) line: usize,
    pub(super) progress: Progress,
    /// The lock that it releases.
    pub(super) releases: Option<usize>,
}

/// How far a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// The line has not been requested.
    Waits,
    /// The line is on its way.
    Requested,
    /// The line has been with the CPU.
    Arrived,
}
