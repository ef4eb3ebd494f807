//! How a record is to be shown.

use clap::ValueEnum;
use knee_host::text::Screen;
use knee_run::noise::NoiseFloors;

/// Format of the results on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table to read at a glance.
    Human,
    /// The record with its summaries, as one JSON document.
    Json,
    /// will-it-scale's CSV, a block per testcase.
    Csv,
    /// The lines that will-it-scale's binaries print.
    WillItScale,
}

/// How to print a record.
pub(crate) struct View<'a> {
    pub(crate) format: Format,
    /// A block per curve with a line per point, instead of a line per curve.
    pub(crate) detail: bool,
    /// All notes, not only the most important ones.
    pub(crate) all_notes: bool,
    /// Efficiency below which a curve has its knee.
    pub(crate) knee: f64,
    pub(crate) floors: Option<&'a NoiseFloors>,
    pub(crate) screen: Screen,
}
