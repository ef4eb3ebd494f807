//! `knee report`: write a self-contained HTML page about runs.

#[cfg(feature = "prove")]
mod checks;
mod connections;
mod inputs;
#[cfg(feature = "explain")]
mod machines;
mod page;
#[cfg(feature = "explain")]
mod profiles;
mod run;
#[cfg(not(feature = "prove"))]
mod without_checks;
#[cfg(not(feature = "explain"))]
mod without_explain;

use std::path::PathBuf;

use knee_report::Page;

use self::inputs::Inputs;
#[cfg(not(feature = "prove"))]
use self::without_checks as checks;
#[cfg(not(feature = "explain"))]
use self::{without_explain as machines, without_explain as profiles};
use crate::args::{percentage, require_distinct};
use crate::exit::ExitStatus;
use crate::present;

/// Write a self-contained HTML page about recorded runs
///
/// The page needs no network or server: you can mail it, or open it from disk. For each testcase,
/// the page shows the curve, the knee, what limits the curve, and the samples. It also describes
/// the machine. For several runs, the page shows how each run differs from the first.
#[cfg_attr(
    feature = "prove",
    doc = "For a commute matrix, the page shows when operations commute. For a commute check, the \
           page shows what memory the operations share in a kernel."
)]
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee report runs/2026-11-21T090000Z                    write report.html
  knee report runs/before runs/after -o change.html      add verdicts on changes
  knee report results/old runs/new         compare with will-it-scale's CSV
  knee report runs/new mmap1/*.json        add captures of knee profile growth
  knee report machine.toml                 show what knee machine measured
  knee report open1.json runs/new          show a prediction beside a measured run
  knee report posix.json runs/new          add a matrix of knee commute matrix
  knee report 6.1 6.12 -o shared.html      show records of knee commute check
  knee report part/* 6.12 -o shared.html   combine shards of knee commute check
  knee report runs/before -o - | gzip > report.html.gz")]
pub(crate) struct Args {
    /// Records of knee run, or results of will-it-scale: a CSV file, a directory of CSV files, or
    /// the output of a binary. knee compares each further run with the first.
    #[cfg_attr(
        feature = "explain",
        doc = "The arguments can also include captures and lock waits (from knee profile), which the \
               page shows beside the curve of their testcase."
    )]
    #[cfg_attr(
        feature = "prove",
        doc = "Matrices (from knee commute matrix --json) and records of knee commute check are \
               accepted too; the page combines the shards of a check."
    )]
    #[cfg_attr(
        feature = "explain",
        doc = "A file of knee machine measure (FILE.toml) becomes a map of the CPUs. A file of knee \
               predict (FILE.json) becomes a chart, beside the measured curve of its testcase."
    )]
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// File to write the page to; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,

    /// Efficiency threshold: the knee is the first task count with an efficiency below P%
    #[arg(long, value_name = "P%", default_value = "80%", value_parser = percentage)]
    knee: f64,

    /// Smallest change between runs that counts as faster or slower
    #[arg(long, value_name = "P%", default_value = "2%", value_parser = percentage)]
    threshold: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    require_distinct(&args.runs)?;
    let Inputs { predictions, matrices, checks, profiles, machines, runs } =
        Inputs::sorted(&args.runs)?;
    let shared = checks.read()?;
    let page = page::page(&runs, args.knee, args.threshold)?;
    let mut page = Page { predictions, matrices, shared, ..page };
    profiles.put(&mut page)?;
    machines.put(&mut page);
    present::page::write(&page, &args.output)?;
    Ok(ExitStatus::Done)
}
