//! `knee history`: find when points changed in a series of runs.

use std::path::PathBuf;

use knee_host::text::Screen;
use knee_results::{history, in_time_order};
use knee_stats::ChangeOptions;

use crate::args::require_distinct;
use crate::exit::{ExitStatus, usage};
use crate::input::read;
use crate::present::history::{json, table};
use crate::stdout;

/// Fewest runs that can show a change: three before it and three after.
const FEWEST_RUNS: usize = 6;

/// Find when points changed in a series of runs
///
/// For each point, knee searches the medians of the runs for changes with the E-divisive algorithm
/// (Matteson and James 2014). The algorithm needs no threshold, can find several changes, and does
/// not report a single bad run as a change. knee sorts records by the time of measurement. Other
/// results stay in the order given.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee history runs/*                     search all runs
  knee history nightly/* --detail         also list points that never changed
  knee history runs/* --json | jq '.series[] | select(.changes != [])'")]
pub(crate) struct Args {
    /// Records of knee run or results of will-it-scale; at least six
    #[arg(value_name = "RUN", required = true)]
    runs: Vec<PathBuf>,

    /// Probability of reporting a change at a steady point
    #[arg(long, value_name = "P%", default_value = "1%",
          allow_negative_numbers = true, value_parser = crate::args::percentage)]
    significance: f64,

    /// Fewest runs between two changes
    #[arg(long, value_name = "N", default_value = "3", allow_negative_numbers = true,
          value_parser = clap::value_parser!(u32).range(2..=1000))]
    shortest: u32,

    /// Seed of the shuffles: the same runs and seed give the same changes
    #[arg(long, value_name = "N", default_value = "1", allow_negative_numbers = true)]
    seed: u64,

    /// List also the points that did not change, and print all notes
    #[arg(long)]
    detail: bool,

    /// Print one JSON document instead of a table; it always holds all points
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if args.runs.len() < FEWEST_RUNS {
        return Err(usage(format!(
            "{} are too few for a history; name at least {FEWEST_RUNS}, or compare two with knee \
             compare",
            args.runs.len()
        )));
    }
    require_distinct(&args.runs)?;
    let mut runs = args
        .runs
        .iter()
        .map(|run| read(run).map(|read| read.results))
        .collect::<Result<Vec<_>, _>>()?;
    in_time_order(&mut runs);
    let options = ChangeOptions {
        significance: args.significance,
        shortest_segment: args.shortest as usize,
        seed: args.seed,
        ..ChangeOptions::default()
    };
    let series = history(&runs, &options);
    let text = if args.json {
        json(&runs, &series)
    } else {
        table(&runs, &series, args.detail, &Screen::of_stdout())
    };
    stdout::print(&text)?;
    Ok(ExitStatus::Done)
}
