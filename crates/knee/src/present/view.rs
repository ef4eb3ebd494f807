//! Output formats and options for a record.

use clap::ValueEnum;
use knee_host::text::Screen;
use knee_run::noise::NoiseFloors;

/// Format of the results on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Table with notes and a summary.
    Human,
    /// Record and summaries, as one JSON document.
    Json,
    /// Flat CSV for spreadsheets, with a row per point.
    Csv,
    /// The same table, separated by tabs.
    Tsv,
    /// CSV in will-it-scale's format, one block per testcase.
    WillItScaleCsv,
    /// Same output lines as will-it-scale's binaries.
    WillItScale,
}

/// How to print a record.
pub(crate) struct View<'a> {
    pub(crate) format: Format,
    /// Whether to print a line per point instead of a line per curve.
    pub(crate) detail: bool,
    /// Whether to print all notes instead of only the most important.
    pub(crate) all_notes: bool,
    /// Whether CSV and TSV have a row per round instead of a row per point.
    pub(crate) by_round: bool,
    /// Efficiency below which a curve has its knee.
    pub(crate) knee: f64,
    pub(crate) floors: Option<&'a NoiseFloors>,
    pub(crate) screen: Screen,
}
