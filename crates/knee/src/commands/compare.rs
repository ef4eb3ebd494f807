//! `knee compare`: are these numbers different, by how much, and is that real?

mod human;
mod ministat;
mod numbers;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use knee_stats::ministat::{Confidence, MAX_DATA_SETS, Reader};

use crate::exit::{ExitStatus, usage};
use crate::stdout;

/// Width of a plot that does not go to a terminal, as ministat has it.
const WIDTH: u16 = 74;
/// What a plot needs beside its columns on a line: a border on both sides.
const BORDERS: u16 = 2;

/// Compare files of numbers: summaries, a plot, and what differs from the first
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  knee compare before.txt after.txt               a number per line each
  knee compare -C 2 -d , -c 99 a.csv b.csv        the second column of CSV files
  knee compare --format ministat a b              to the byte what ministat prints

A file holds a number per line; blank lines and comments from a # on are skipped.

Exit status: 0 whether there is a difference or not; 2 for a file that is not numbers or has fewer
than three; 3 for a file that cannot be read"
)]
pub(crate) struct Args {
    /// Up to seven files; - or none: standard input
    #[arg(value_name = "FILE", num_args = 0..=MAX_DATA_SETS)]
    files: Vec<PathBuf>,

    /// Form of the results on standard output
    #[arg(long, value_enum, default_value = "human")]
    format: Format,

    /// Confidence of intervals and verdicts: 80, 90, 95, 98, 99 or 99.5
    #[arg(short, long, value_name = "P%", default_value = "95")]
    confidence: Confidence,

    /// The column that holds the numbers
    #[arg(short = 'C', long, value_name = "N", default_value = "1", value_parser = column)]
    column: usize,

    /// Characters that separate columns [default: space and tab]
    #[arg(
        short,
        long,
        value_name = "CHARS",
        default_value = " \t",
        hide_default_value = true,
        allow_hyphen_values = true
    )]
    delimiters: OsString,

    /// Summaries only: no plot, no comparison
    #[arg(short = 'n', long)]
    summary: bool,

    /// No names of files and no head of the table
    #[arg(short, long)]
    quiet: bool,

    /// The bars of the plot on a line for each file
    #[arg(short, long)]
    separate: bool,

    /// Statistics only: no plot
    #[arg(short = 'A', long)]
    no_plot: bool,

    /// Columns of the plot; as wide as the terminal, or 74
    #[arg(short, long, value_name = "COLUMNS")]
    width: Option<u16>,
}

/// Form of the results on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table, a plot and verdicts in words.
    Human,
    /// What ministat prints.
    Ministat,
}

/// What is to be shown of the data sets.
struct View {
    confidence: Confidence,
    comparisons: bool,
    head: bool,
    plot: Option<Plot>,
}

/// How the plot is drawn.
struct Plot {
    width: u16,
    separate: bool,
}

fn column(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|&n| n > 0).ok_or_else(|| "columns are counted from 1".to_owned())
}

pub(crate) fn run(args: Args) -> anyhow::Result<ExitStatus> {
    if args.delimiters.is_empty() {
        return Err(usage("--delimiters: at least one character is needed"));
    }
    let reader = Reader {
        column: args.column,
        delimiters: args.delimiters.as_encoded_bytes(),
        longest_line: (args.format == Format::Ministat).then_some(Reader::MINISTAT_BUFFER),
    };
    let sets = numbers::read_all(&args.files, &reader)?;
    let plot = (!args.summary && !args.no_plot).then(|| Plot {
        width: args.width.or_else(terminal_width).unwrap_or(WIDTH),
        separate: args.separate,
    });
    let view =
        View { confidence: args.confidence, comparisons: !args.summary, head: !args.quiet, plot };
    match args.format {
        Format::Human => stdout::print(&human::render(&sets, &view)?)?,
        Format::Ministat => stdout::print_bytes(&ministat::render(&sets, &view)?)?,
    }
    Ok(ExitStatus::Done)
}

/// The columns of a plot on the terminal that is standard output; `None` if it is none.
fn terminal_width() -> Option<u16> {
    let stdout = std::io::stdout();
    if !rustix::termios::isatty(&stdout) {
        return None;
    }
    // ministat takes the variable as the width of the plot, without borders.
    let variable = std::env::var("COLUMNS").ok().filter(|columns| !columns.is_empty());
    if let Some(columns) = variable {
        return columns.parse().ok();
    }
    let size = rustix::termios::tcgetwinsize(&stdout).ok()?;
    (size.ws_col > 0).then(|| size.ws_col.saturating_sub(BORDERS))
}
