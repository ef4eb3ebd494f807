//! `knee compare`: are these different, by how much, and is that real?

mod human;
mod ministat;
mod numbers;
mod records;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use knee_results::Kind;
use knee_stats::ministat::{Confidence, MAX_DATA_SETS, Reader};

use crate::args::form::FormArgs;
use crate::args::judgement::JudgementArgs;
use crate::exit::{ExitStatus, usage};
use crate::stdout;

/// Width of a plot that does not go to a terminal, as ministat has it.
const WIDTH: u16 = 74;
/// What a plot needs beside its columns on a line: a border on both sides.
const BORDERS: u16 = 2;

/// Compare recorded runs, or files of numbers
///
/// Runs are records of `knee run`, or what will-it-scale left: CSV files, a directory of them, or
/// the output of its binaries. Every point (testcase, mode, number of tasks) is compared over its
/// rounds, never over the samples within one.
#[derive(clap::Args)]
#[command(
    args_override_self = true,
    after_help = "Examples:
  knee compare runs/before runs/after             every point of two runs
  knee compare before after --fail-on slower      for continuous integration
  knee compare before after --markdown            for a pull request or a mail
  knee compare mutex/ epoch/                      runs of vm_mmap1@di=mutex and of vm_mmap1@di=epoch
  knee compare old/ new/                          directories of will-it-scale's CSV files
  knee compare before.txt after.txt               a number per line each, and a plot of them
  knee compare -C 2 -d , -c 99 a.csv b.csv        the second column of other CSV files
  knee compare --format ministat a b              to the byte what ministat prints

A file of numbers holds one per line; blank lines and comments from a # on are skipped. Intervals
are Student's t: exact, but with --format ministat by ministat's table, which is rounded and whose
99.5% are really 99.8%.

Verdicts: faster or slower when the p-value, corrected for all points compared, and the interval of
the ratio agree, and the change is not below --threshold; same when the whole interval lies within
--threshold; inconclusive otherwise.

Of a testcase that has one variant before and another one after these two are compared.

Exit status: 0 whatever differs; 1 for what --fail-on names; 2 for a file that holds no results, or
fewer than three numbers, and for runs that have no point in common; 3 for a file that cannot be read"
)]
pub(crate) struct Args {
    /// What came first, and what to compare with it; up to seven; - or none: numbers on standard
    /// input
    #[arg(value_name = "BEFORE AFTER", num_args = 0..=MAX_DATA_SETS)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    form: FormArgs<Format>,

    /// Confidence of intervals and verdicts: 80, 90, 95, 98, 99 or 99.5
    #[arg(short, long, value_name = "P%", default_value = "95", allow_negative_numbers = true)]
    confidence: Confidence,

    #[command(flatten, next_help_heading = "Options for runs")]
    records: JudgementArgs,

    #[command(flatten)]
    numbers: NumberArgs,
}

/// Options that only mean something for files of numbers.
#[derive(clap::Args)]
#[command(next_help_heading = "Options for files of numbers")]
struct NumberArgs {
    /// The column that holds the numbers [default: 1]
    #[arg(short = 'C', long, value_name = "N", allow_negative_numbers = true,
          value_parser = column)]
    column: Option<usize>,

    /// Characters that separate columns [default: space and tab]
    #[arg(short, long, value_name = "CHARS", allow_hyphen_values = true)]
    delimiters: Option<OsString>,

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
    #[arg(short, long, value_name = "COLUMNS", allow_negative_numbers = true)]
    width: Option<u16>,
}

impl Args {
    fn format(&self) -> Format {
        self.form.format(Format::Json, Format::Markdown)
    }
}

impl NumberArgs {
    /// One that was given.
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

/// Form of the results on standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// A table and verdicts in words; of numbers also a plot
    Human,
    /// What ministat prints, of numbers
    Ministat,
    /// A table for a pull request or a mailing list, of runs
    Markdown,
    /// All that was computed, of runs, for programs
    Json,
    /// Go benchmark lines for benchstat, a round each, of runs
    Benchstat,
}

impl Format {
    fn is_for_runs_only(self) -> bool {
        matches!(self, Self::Markdown | Self::Json | Self::Benchstat)
    }
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
        confidence: args.confidence,
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
