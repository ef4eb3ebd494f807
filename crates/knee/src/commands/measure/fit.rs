//! `knee fit`: fit the Universal Scalability Law to find what limits each curve.

use std::collections::BTreeSet;
use std::path::PathBuf;

use knee_host::shell::word;
use knee_host::text::Screen;
use knee_results::Curve;
use knee_stats::usl::{FitOptions, fit_all};

use crate::args::confidence::ConfidenceArgs;
use crate::args::{glob, whole};
use crate::exit::{ExitStatus, bail_usage, ensure_usage};
use crate::input::read;
use crate::present::fit::{FittedCurve, json, table};
use crate::stdout;

/// Fit the Universal Scalability Law to the curves of a run
///
/// The law models the throughput of n tasks:
///
/// lambda n / (1 + sigma (n-1) + kappa n (n-1))
///
/// lambda is the throughput of one task. sigma is the share of the work that only one task can do
/// at a time (contention). kappa is the cost of keeping each pair of tasks consistent (coherency).
///
/// If kappa is above 0, throughput peaks at sqrt((1-sigma)/kappa) tasks and then falls. If kappa
/// cannot be distinguished from 0, knee fits Amdahl's law, which limits the speed-up to 1/sigma.
///
/// The law describes tasks that have a CPU each. knee therefore leaves out points with more tasks
/// than CPUs, and points that other work disturbed.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee fit runs/2026-11-21T090000Z                 fit every curve
  knee fit runs/2026-11-21T090000Z 'mmap*' --json  fit some curves as JSON
  knee fit results/mmap1.csv                       fit results of will-it-scale

A fit predicts throughput at other task counts only if the curve has at least six task counts. \
With fewer, the fit describes only the measured points, and knee prints \"not a prediction\".")]
pub(crate) struct Args {
    /// Record of knee run, or results of will-it-scale (CSV or output of a binary)
    run: PathBuf,

    /// Testcases to fit: names or globs [default: all]
    #[arg(value_name = "NAME | GLOB", value_parser = glob)]
    names: Vec<glob::Pattern>,

    /// Efficiency threshold: the fitted knee is the first task count at which the fitted law gives
    /// an efficiency below P%
    #[arg(long, value_name = "P%", default_value = "80%", value_parser = crate::args::percentage)]
    knee: f64,

    #[command(flatten)]
    confidence: ConfidenceArgs,

    /// Count of bootstrap resamples
    #[arg(long, value_name = "N", default_value = "2000",
          value_parser = whole::<u32>(100..=1_000_000))]
    resamples: u32,

    /// Seed of the resampling: the same run and seed give the same intervals
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole::<u64>(0..=u64::MAX))]
    seed: u64,

    /// Print one JSON document instead of a table
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let results = read(&args.run)?.results;
    let options = FitOptions {
        confidence: args.confidence.get().percent() / 100.0,
        resamples: args.resamples,
        seed: args.seed,
    };
    let wanted = |name: &str| args.names.is_empty() || args.names.iter().any(|g| g.matches(name));
    let curves: Vec<Curve> =
        results.curves().into_iter().filter(|curve| wanted(&curve.case.to_string())).collect();
    let rounds: Vec<Vec<(u32, Vec<f64>)>> = curves.iter().map(Curve::rounds).collect();
    let fits = fit_all(&rounds, &options);
    let cpus = results.origin.as_ref().map(|origin| origin.request.cpus.len());
    let fitted = |(curve, fit)| FittedCurve { curve, cpus, fit };
    let curves: Vec<FittedCurve> = curves.into_iter().zip(fits).map(fitted).collect();
    if curves.is_empty() {
        let run = args.run.display();
        let measured: BTreeSet<String> =
            results.cases.keys().map(|case| word(&case.to_string()).into_owned()).collect();
        ensure_usage!(!args.names.is_empty(), "{run}: the results contain no curve");
        let measured = measured.into_iter().collect::<Vec<_>>().join(", ");
        bail_usage!("{run} has no curve with this name; measured: {measured}");
    }
    if args.json {
        stdout::print_json(&json(&results, &curves, &options, args.knee))?;
    } else {
        let screen = Screen::of_stdout();
        stdout::print(&table(&results, &curves, &options, args.knee, &screen))?;
    }
    Ok(ExitStatus::Done)
}
