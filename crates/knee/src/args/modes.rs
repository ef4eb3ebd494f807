//! The `--mode` option: processes, threads, or both.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};
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

/// The parser of a `--mode` option that takes one mode.
pub(crate) fn one_mode() -> impl TypedValueParser<Value = Mode> {
    PossibleValuesParser::new(Mode::ALL.map(Mode::as_str)).map(|name| {
        let mut all = Mode::ALL.into_iter();
        all.find(|mode| mode.as_str() == name).expect("clap accepts only these names")
    })
}
