//! `knee compare`: whether runs or files of numbers differ, by how much, and how surely.

mod human;
mod ministat;
mod numbers;
mod records;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use knee_results::Kind;
use knee_stats::ministat::{Confidence, MAX_DATA_SETS, Reader};

use crate::args::confidence::ConfidenceArgs;
use crate::args::form::FormArgs;
use crate::args::judgement::JudgementArgs;
use crate::exit::{ExitStatus, usage};
use crate::stdout;

/// Width of a plot when standard output is not a terminal, as in ministat.
const WIDTH: u16 = 74;
/// Columns that the borders of a plot take on a line, one on each side.
const BORDERS: u16 = 2;

/// Compare recorded runs, or files of numbers
///
/// A run is a record of `knee run` or results of will-it-scale: a CSV file, a directory of such
/// files, or the output of its binaries. knee compares each point (testcase, mode, task count) by
/// its rounds, not by the samples within a round.
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
  knee compare --format ministat a b           print what ministat prints

A file of numbers holds one number per line. Blank lines and comments, which start with #, are
skipped. Intervals use the exact quantiles of Student's t. With --format ministat they use
ministat's table, which is rounded and whose 99.5% column is really 99.8%.

Verdicts: A point is faster or slower if three conditions hold: the p-value, corrected for all
points compared, shows a difference; the interval of the ratio agrees; the change is at least
--threshold. A point is the same if the whole interval lies within --threshold. Otherwise it is
inconclusive.

If a testcase has one variant before and a different one after, knee compares the two variants.

Exit status: 0 on success, even if the results differ; 1 if a --fail-on condition matched; 2 if a
file holds no results or fewer than three numbers, or if the runs share no point; 3 if a file cannot
be read"
)]
pub(crate) struct Args {
    /// Baseline, and runs or files to compare with it; up to seven in all. With - or without
    /// arguments, knee reads numbers from standard input
    #[arg(value_name = "BEFORE AFTER", num_args = 0..=MAX_DATA_SETS)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    form: FormArgs<Format>,

    #[command(flatten)]
    confidence: ConfidenceArgs,

    #[command(flatten, next_help_heading = "Options for runs")]
    records: JudgementArgs,

    #[command(flatten)]
    numbers: NumberArgs,
}

/// Options that apply only to files of numbers.
#[derive(clap::Args)]
#[command(next_help_heading = "Options for files of numbers")]
struct NumberArgs {
    /// Column that holds the numbers [default: 1]
    #[arg(short = 'C', long, value_name = "N", allow_negative_numbers = true,
          value_parser = column)]
    column: Option<usize>,

    /// Characters that separate columns [default: space and tab]
    #[arg(short, long, value_name = "CHARS", allow_hyphen_values = true)]
    delimiters: Option<OsString>,

    /// Print only summaries, without plot and comparison
    #[arg(short = 'n', long)]
    summary: bool,

    /// Omit the file names and the table header
    #[arg(short, long)]
    quiet: bool,

    /// Draw the bars of each file on a separate line of the plot
    #[arg(short, long)]
    separate: bool,

    /// Print only statistics, without a plot
    #[arg(short = 'A', long)]
    no_plot: bool,

    /// Width of the plot in columns [default: the terminal's width, or 74]
    #[arg(short, long, value_name = "COLUMNS", allow_negative_numbers = true)]
    width: Option<u16>,
}

impl Args {
    fn format(&self) -> Format {
        self.form.format(Format::Json, Format::Markdown)
    }
}

impl NumberArgs {
    /// The name of an option of this group that the user passed, if any.
    fn given(&self) -> Option<&'static str> {
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
enum Format {
    /// Table with verdicts in words; for numbers, also a plot
    Human,
    /// Output of ministat (numbers only)
    Ministat,
    /// Table for a pull request or a mailing list (runs only)
    Markdown,
    /// All results, as JSON (runs only)
    Json,
    /// Go benchmark lines for benchstat, one per round (runs only)
    Benchstat,
}

impl Format {
    fn is_for_runs_only(self) -> bool {
        matches!(self, Self::Markdown | Self::Json | Self::Benchstat)
    }
}

/// Which parts of the results to print.
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
    let kinds = args.files.iter().map(|file| Kind::of(file)).collect::<Result<Vec<_>, _>>()?;
    let stranger = args.files.iter().zip(&kinds).find(|(_, kind)| kind.is_none());
    match (kinds.iter().flatten().next(), stranger) {
        (None, _) => compare_numbers(&args),
        (Some(_), None) => records::run(&args),
        (Some(_), Some((file, _))) if !file.exists() => {
            Err(usage(format!("{}: there is no such file or directory", file.display())))
        }
        (Some(_), Some((file, _))) => Err(usage(format!(
            "{}: this is neither a record of knee run nor output of will-it-scale, but another \
             one of the files is; compare like with like",
            file.display()
        ))),
    }
}

fn compare_numbers(args: &Args) -> anyhow::Result<ExitStatus> {
    let options = &args.numbers;
    let format = args.format();
    if let Some(option) = args.records.given() {
        return Err(usage(format!("{option} is for runs, and these are files of numbers")));
    }
    if format.is_for_runs_only() {
        return Err(usage("files of numbers have --format human and --format ministat only"));
    }
    let delimiters = options.delimiters.clone().unwrap_or_else(|| " \t".into());
    if delimiters.is_empty() {
        return Err(usage("--delimiters: at least one character is needed"));
    }
    let reader = Reader {
        column: options.column.unwrap_or(1),
        delimiters: delimiters.as_encoded_bytes(),
        longest_line: (format == Format::Ministat).then_some(Reader::MINISTAT_BUFFER),
    };
    let sets = numbers::read_all(&args.files, &reader)?;
    let plot = (!options.summary && !options.no_plot).then(|| Plot {
        width: options.width.or_else(terminal_width).unwrap_or(WIDTH),
        separate: options.separate,
    });
    let view = View {
        confidence: args.confidence.get(),
        comparisons: !options.summary,
        head: !options.quiet,
        plot,
    };
    match format {
        Format::Ministat => stdout::print_bytes(&ministat::render(&sets, &view)?)?,
        _ => stdout::print(&human::render(&sets, &view)?)?,
    }
    Ok(ExitStatus::Done)
}

/// The columns of a plot if standard output is a terminal, otherwise `None`.
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
