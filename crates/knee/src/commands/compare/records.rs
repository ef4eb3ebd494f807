//! Comparing runs: every point of the first with the same point of each of the others.

use clap::ValueEnum;
use knee_measure::results::{Compared, Results};
use knee_stats::{CompareOptions, Verdict};

use super::{Args, Format};
use crate::exit::{ExitStatus, usage};
use crate::present::compared::{Comparisons, benchstat, json, markdown, table};
use crate::stdout;

/// The smallest change that matters, unless --threshold says otherwise.
const THRESHOLD: f64 = 0.02;

/// What --fail-on can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FailOn {
    /// A point is slower than before
    Slower,
    /// A point is faster than before
    Faster,
    /// A point has neither changed nor been shown to be the same
    Inconclusive,
    /// A point that has results before has none after
    Missing,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(option) = args.numbers.given() {
        return Err(usage(format!("{option} is for files of numbers, and these are runs")));
    }
    if args.format == Format::Ministat {
        return Err(usage("--format ministat is for files of numbers, and these are runs"));
    }
    if args.files.len() < 2 && args.format != Format::Benchstat {
        return Err(usage("one run is nothing to compare: name what came BEFORE and AFTER"));
    }
    let results =
        args.files.iter().map(|file| Results::read(file)).collect::<Result<Vec<_>, _>>()?;
    let [before, others @ ..] = results.as_slice() else { unreachable!("a record was seen") };
    let options = CompareOptions {
        confidence: args.confidence.percent() / 100.0,
        threshold: Some(args.records.threshold.unwrap_or(THRESHOLD)),
        ..CompareOptions::default()
    };
    let compared = others.iter().map(|after| (after, Compared::new(before, after, &options)));
    let comparisons = Comparisons { before, options, compared: compared.collect() };
    let text = match args.format {
        Format::Markdown => markdown::render(&comparisons),
        Format::Json => json::render(&comparisons),
        Format::Benchstat => benchstat::render(&results),
        Format::Human | Format::Ministat => table::render(&comparisons),
    };
    stdout::print(&text)?;
    let found = comparisons
        .compared
        .iter()
        .any(|(_, compared)| args.records.fail_on.iter().any(|&policy| finds(policy, compared)));
    Ok(if found { ExitStatus::Policy } else { ExitStatus::Done })
}

fn finds(policy: FailOn, compared: &Compared) -> bool {
    let any = |is: fn(Verdict) -> bool| compared.points.iter().any(|p| is(p.comparison.verdict));
    match policy {
        FailOn::Slower => any(|verdict| verdict == Verdict::Slower),
        FailOn::Faster => any(|verdict| verdict == Verdict::Faster),
        FailOn::Inconclusive => any(|verdict| matches!(verdict, Verdict::Inconclusive { .. })),
        FailOn::Missing => compared.gaps.iter().any(|g| g.before.is_none() && g.after.is_some()),
    }
}
