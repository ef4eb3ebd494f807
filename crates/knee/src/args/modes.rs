//! The `--mode` option: processes, threads, or both.

use clap::ValueEnum;
use knee_results::Mode;

/// The modes in which knee measures testcases.
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
