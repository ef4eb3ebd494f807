//! Processes, threads, or both.

use clap::ValueEnum;
use knee_results::Mode;

/// In which modes testcases are measured.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Modes {
    Processes,
    Threads,
    Both,
}

impl Modes {
    pub(crate) fn modes(self) -> Vec<Mode> {
        match self {
            Self::Processes => vec![Mode::Processes],
            Self::Threads => vec![Mode::Threads],
            Self::Both => vec![Mode::Processes, Mode::Threads],
        }
    }
}
