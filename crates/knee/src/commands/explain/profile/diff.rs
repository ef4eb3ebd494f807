//! `knee profile diff`.

use std::path::PathBuf;

use anyhow::Context;
use clap::ValueEnum;
use knee_host::write_atomically;
use knee_profile::diff::{diff, table};
use knee_profile::import;
use knee_profile::view::flame::{Widths, difference};

use crate::exit::ExitStatus;
use crate::stdout;

/// Compare two captures by function
///
/// Where both know how many iterations were done, costs for each iteration are compared, else shares of
/// the samples. What exceeds the sampling error, of all functions together, is marked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee profile diff before.json after.json
  knee profile diff before.json after.json --flame diff.svg
  knee profile diff old.data perf.data -n 50")]
pub(super) struct Args {
    /// The first capture, or what `knee profile show` reads
    #[arg(value_name = "BEFORE")]
    before: PathBuf,

    /// The second
    #[arg(value_name = "AFTER")]
    after: PathBuf,

    /// Functions that are shown at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 25)]
    most: usize,

    /// Write a flame graph of the differences as well, an SVG for a browser
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,

    /// Whose samples make the widths of the flame graph: what is gone is seen with before
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
    if let Some(file) = &args.flame {
        let widths = match args.widths {
            WidthsArg::Before => Widths::Before,
            WidthsArg::After => Widths::After,
        };
        write_atomically(file, difference(&before, &after, widths).as_bytes())
            .with_context(|| format!("cannot write {}", file.display()))?;
    }
    stdout::print(&table(&diff(&before, &after), args.most).to_string())?;
    Ok(ExitStatus::Done)
}
