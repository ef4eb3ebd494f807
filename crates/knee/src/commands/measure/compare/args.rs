//! The options of `knee compare`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use knee_stats::ministat::MAX_DATA_SETS;

use crate::args::confidence::ConfidenceArgs;
use crate::args::form::FormArgs;
use crate::args::judgement::JudgementArgs;
use crate::args::whole;

/// Compare recorded runs, or files of numbers
///
/// A run is a record of `knee run` or results of will-it-scale: a CSV file, a directory of CSV
/// files, or the output of a binary. knee compares the rounds of each point (testcase, mode, task
/// count), not the samples within a round.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  knee compare runs/before runs/after          compare every point of two runs
  knee compare before after --fail-on slower   fail in continuous integration
  knee compare before after --markdown         print a table for a pull request
  knee compare mutex/ epoch/                   compare two variants of vm_mmap1
  knee compare old/ new/                       compare will-it-scale's CSV files
  knee compare before.txt after.txt            compare and plot files of numbers
  knee compare -C 2 -d , -c 99 a.csv b.csv     compare the second columns
  knee compare --format ministat a b           print the same output as ministat

A file of numbers contains one number per line. knee skips blank lines and comments, which start \
with #. knee computes intervals from exact quantiles of Student's t. With --format ministat, knee \
uses ministat's rounded table of quantiles. In this table, the column labelled 99.5% holds the \
quantiles for 99.8%, an error of ministat that knee reproduces.

A point is faster or slower if the p-value (corrected for all points compared) shows a \
difference, the interval of the ratio after/before excludes 1, and the change is at least \
--threshold. A point is the same if the whole interval differs from 1 by less than --threshold and each \
side has enough rounds. All other points are inconclusive.

If BEFORE contains one variant of a testcase and AFTER contains another, knee compares the two.

Exit status:
  0  success, even if the results differ
  1  a --fail-on condition matched
  2  a file has fewer than three numbers, or the runs have no points in common
  3  a file is missing, or knee cannot read its content
  5  no --fail-on condition matched, but other work disturbed a point too much to tell"
)]
pub(crate) struct Args {
    /// Baseline, followed by the runs or files to compare with it; at most seven in all. A
    /// file named - is standard input. Without arguments, knee reads numbers from standard input
    #[arg(value_name = "BEFORE AFTER", num_args = 0..=MAX_DATA_SETS)]
    pub(super) files: Vec<PathBuf>,

    #[command(flatten)]
    pub(super) form: FormArgs<Format>,

    #[command(flatten)]
    pub(super) confidence: ConfidenceArgs,

    #[command(flatten, next_help_heading = "Options for runs")]
    pub(super) records: JudgementArgs,

    #[command(flatten)]
    pub(super) numbers: NumberArgs,
}

/// Options that apply only to files of numbers.
#[derive(clap::Args)]
#[command(next_help_heading = "Options for files of numbers")]
pub(super) struct NumberArgs {
    /// Column that holds the numbers [default: 1]
    #[arg(short = 'C', long, value_name = "N",
          value_parser = column)]
    pub(super) column: Option<usize>,

    /// Characters that separate columns [default: space and tab]
    #[arg(short, long, value_name = "CHARS", allow_hyphen_values = true)]
    pub(super) delimiters: Option<OsString>,

    /// Print only the table of statistics, without plot and comparison
    #[arg(short = 'n', long)]
    pub(super) summary: bool,

    /// Omit the file names and the table header
    #[arg(short, long)]
    pub(super) quiet: bool,

    /// Draw the bars of each file on a separate line of the plot
    #[arg(short, long)]
    pub(super) separate: bool,

    /// Do not draw a plot
    #[arg(short = 'A', long)]
    pub(super) no_plot: bool,

    /// Width of the plot in columns [default: the terminal's width, or 74]
    #[arg(short, long, value_name = "COLUMNS", value_parser = whole::<u16>(1..=u16::MAX))]
    pub(super) width: Option<u16>,
}

impl Args {
    pub(super) fn format(&self) -> Format {
        self.form.format(Format::Json, Format::Markdown)
    }
}

impl NumberArgs {
    /// The name of the first option of this group that the user passed, if any.
    pub(super) fn given(&self) -> Option<&'static str> {
        let given = [
            (self.column.is_some(), "--column"),
            (self.delimiters.is_some(), "--delimiters"),
            (self.summary, "--summary"),
            (self.quiet, "--quiet"),
            (self.separate, "--separate"),
            (self.no_plot, "--no-plot"),
            (self.width.is_some(), "--width"),
        ];
        given.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}

/// The output formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    /// Table with verdicts in words; for numbers, also a plot
    Human,
    /// Output of ministat (numbers only)
    Ministat,
    /// Table for a pull request or a mailing list (runs only)
    Markdown,
    /// All results, as JSON (runs only)
    Json,
    /// Benchmark lines for Go's benchstat, one per round (runs only)
    Benchstat,
}

impl Format {
    pub(super) fn is_for_runs_only(self) -> bool {
        matches!(self, Self::Markdown | Self::Json | Self::Benchstat)
    }
}

pub(super) fn column(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "columns are counted from 1".to_owned())
}
