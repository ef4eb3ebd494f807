//! `knee history`: find when points changed in a series of runs.

use std::path::PathBuf;

use knee_host::number::threshold;
use knee_host::text::Screen;
use knee_results::{Results, history, in_time_order};
use knee_stats::ChangeOptions;

use crate::args::{require_distinct, whole};
use crate::exit::{ExitStatus, bail_usage};
use crate::input::read;
use crate::present::compared::different_rates;
use crate::present::history::{json, table};
use crate::stdout;

/// Find when throughput changed in a series of runs
///
/// For each point (testcase, mode, task count), knee searches the medians of the runs for changes.
/// knee uses the E-divisive algorithm (Matteson and James 2014), which needs no threshold, can find
/// several changes, and ignores a single bad run. At 1% significance, knee finds changes only of
/// points that have results in at least ten runs. Results that other work disturbed do not count.
///
/// knee sorts records by start time. If the runs include results of will-it-scale, which have no
/// start time, knee keeps all runs in the given order.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee history runs/*                     search all runs
  knee history nightly/* --detail         also list points that did not change
  knee history runs/* --json | jq '.series[] | select(.changes != [])'")]
pub(crate) struct Args {
    /// Records of knee run or results of will-it-scale, at least ten (see --significance)
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Probability of reporting a change for a point that did not change. A larger probability
    /// requires fewer runs: 5% requires eight
    #[arg(long, value_name = "P%", default_value = "1%",
          value_parser = crate::args::percentage)]
    significance: f64,

    /// Minimum number of runs between two changes
    #[arg(long, value_name = "N", default_value = "3",
          value_parser = whole::<u32>(2..=1000))]
    shortest: u32,

    /// Seed of the permutation test: the same runs and seed give the same changes
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,

    /// Also list points that did not change, and print all notes
    #[arg(long)]
    detail: bool,

    /// Print one JSON document with all points instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let options = ChangeOptions {
        significance: args.significance,
        shortest_segment: args.shortest as usize,
        seed: args.seed,
        ..ChangeOptions::default()
    };
    let significance = threshold(args.significance);
    let Some(fewest) = options.fewest_values() else {
        bail_usage!(
            "--significance {significance}: too small for the {} shuffles of the permutation test; \
             use 0.1% or more",
            options.permutations
        );
    };
    if args.runs.len() < fewest {
        bail_usage!(
            "knee history requires at least {fewest} runs to find a change at {significance} \
             significance, but got {}; to compare two runs, use knee compare",
            args.runs.len()
        );
    }
    require_distinct(&args.runs)?;
    let mut runs = args
        .runs
        .iter()
        .map(|run| read(run).map(|read| read.results))
        .collect::<Result<Vec<_>, _>>()?;
    require_no_copies(&runs)?;
    if let Some(why) = different_rates(&runs) {
        bail_usage!("{why}");
    }
    in_time_order(&mut runs);
    let series = history(&runs, &options);
    match args.json {
        true => stdout::print_json(&json(&runs, &series, fewest))?,
        false => stdout::print(&table(&runs, &series, fewest, args.detail, &Screen::of_stdout()))?,
    }
    Ok(ExitStatus::Done)
}

/// Returns an error if two records are copies of the same run, which would count twice.
fn require_no_copies(runs: &[Results]) -> anyhow::Result<()> {
    let is_copy = |a: &Results, b: &Results| match (&a.origin, &b.origin) {
        (Some(a), Some(b)) => a.environment == b.environment && a.request == b.request,
        _ => false,
    };
    for (nr, run) in runs.iter().enumerate() {
        if let Some(first) = runs[..nr].iter().find(|first| is_copy(first, run)) {
            bail_usage!(
                "{} and {} are copies of the same run; name each run once",
                first.source.display(),
                run.source.display()
            );
        }
    }
    Ok(())
}
