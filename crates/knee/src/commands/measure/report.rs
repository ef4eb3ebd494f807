//! `knee report`: one page to read and to mail.

mod changes;
mod fits;
mod matrices;
mod page;
mod profiles;
mod run;

use std::path::PathBuf;

use knee_report::Page;

use self::matrices::Split;
use crate::args::percentage;
use crate::exit::{ExitStatus, usage};
use crate::present;

/// Write a self-contained HTML page about recorded runs
///
/// The page needs no network and no server: mail it, or open it from a disk. It shows every
/// testcase as a curve with its knee and what limits it, the samples behind it, and the machine; of
/// several runs also how each differs from the first; of a matrix, when operations commute; of a check,
/// what they share in a kernel.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee report runs/2026-11-21T090000Z                    report.html in this directory
  knee report runs/before runs/after -o change.html      with verdicts on what changed
  knee report results/old runs/new         CSV files of will-it-scale, and a record
  knee report runs/new mmap1/*.json        with captures of knee profile growth -o mmap1
  knee report posix.json runs/new          with a matrix of knee commute matrix --json
  knee report 6.1 6.12 -o shared.html      what knee commute check -o DIR has found
  knee report part/* 6.12 -o shared.html   … of one check in shards
  knee report runs/before -o - | gzip > report.html.gz")]
pub(crate) struct Args {
    /// Records of knee run, or CSV files (or a directory of them) or output of will-it-scale; further
    /// ones are compared with the first. JSON files of knee commute matrix may be among them, captures
    /// and lock waits of knee profile, which stand beside the curves of their testcases, and
    /// directories of knee commute check, of which shards of one check are shown as one
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Where to write the page; - is standard output
    #[arg(short, long, value_name = "FILE", default_value = "report.html")]
    output: PathBuf,

    /// Efficiency below which a curve has its knee
    #[arg(long, value_name = "P%", default_value = "80%", value_parser = percentage)]
    knee: f64,

    /// The smallest change between runs that matters
    #[arg(long, value_name = "P%", default_value = "2%", value_parser = percentage)]
    threshold: f64,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    for (nr, run) in args.runs.iter().enumerate() {
        if args.runs[..nr].contains(run) {
            return Err(usage(format!("{} is named twice", run.display())));
        }
    }
    let Split { matrices, shared, captures, waits, runs } = matrices::split(&args.runs)?;
    let mut page = Page { matrices, shared, ..page::page(&runs, args.knee, args.threshold)? };
    profiles::put(&captures, &mut page)?;
    profiles::put_waits(&waits, &mut page)?;
    present::page::write(&page, &args.output)?;
    Ok(ExitStatus::Done)
}
