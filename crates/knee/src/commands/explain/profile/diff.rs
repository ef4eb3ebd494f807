//! `knee profile diff`.

use std::path::PathBuf;

use clap::ValueEnum;
use knee_profile::diff::{diff, table};
use knee_profile::import;
use knee_profile::view::flame::{Widths, difference};

use crate::args::whole;
use crate::exit::ExitStatus;
use crate::{file, stdout};

/// Compare two captures by function
///
/// If both captures contain iteration counts, knee compares the cost per iteration. Otherwise it
/// compares shares of the samples. knee marks differences that exceed the sampling error. The
/// p-values are corrected for the number of functions.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee profile diff before.json after.json
  knee profile diff before.json after.json --flame diff.svg
  knee profile diff old.data perf.data --top 50")]
pub(super) struct Args {
    /// First capture, in any format that `knee profile show` reads
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// Second capture, in any format that `knee profile show` reads
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Maximum number of functions to print
    #[arg(long, value_name = "N", default_value_t = 25,
          value_parser = whole::<usize>(0..=usize::MAX))]
    top: usize,

    /// File for a flame graph of the differences (an SVG for a browser)
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,

    /// Capture that sets the widths of the flame graph; with `before`, the graph also shows
    /// functions that AFTER no longer contains
    #[arg(long, value_enum, default_value = "after", requires = "flame")]
    widths: WidthsArg,
}

#[derive(Clone, Copy, ValueEnum)]
enum WidthsArg {
    Before,
    After,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let (before, after) = (import::open(&args.before)?, import::open(&args.after)?);
    if let Some(path) = &args.flame {
        let widths = match args.widths {
            WidthsArg::Before => Widths::Before,
            WidthsArg::After => Widths::After,
        };
        file::write(path, difference(&before, &after, widths).as_bytes())?;
    }
    stdout::show_table(&table(&diff(&before, &after), args.top))?;
    Ok(ExitStatus::Done)
}
