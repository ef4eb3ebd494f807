//! `knee commute matrix`: the pairs of a model, or the results of a check.

use std::path::PathBuf;

use knee_commute::{Extent, explore_pairs, pairs, watch};
use knee_host::number::plural;
use knee_host::text::Screen;
use knee_report::Page;
use knee_trace::findings::MatrixDocument;

use super::interface::{From, warn};
use crate::exit::{ExitStatus, bail_usage};
use crate::input::checks;
use crate::present::commute::check::Results;
use crate::present::commute::{self as shown, conditions as present, shared};
use crate::present::page;
use crate::progress::{Amount, Progress};
use crate::stderr::tell;
use crate::{file, stdout};

/// Maximum pairs to warn about one by one if knee could not explore them completely.
const MOST_WARNINGS: usize = 3;

/// Print how often each pair of operations commutes, or is conflict-free in a kernel
///
/// Without DIR, knee explores a model and counts the situations in which each pair commutes. With a
/// DIR from `knee commute check -o DIR`, knee counts the conflict-free tests of each pair.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  knee commute matrix
  knee commute matrix -o posix.html                 HTML page with conditions
  knee commute matrix --json > posix.json           JSON with conditions
  knee report runs/* posix.json                     matrix and runs on one page
  knee commute matrix 6.1                           the results of a check
  knee commute matrix 6.1 -o 6.1.html               the same as an HTML page
  knee commute matrix shards/* -o 6.1.svg           all shards as a drawing

Exit status:
  4  the model failed for at least one pair")]
pub(super) struct Args {
    /// Record from `knee commute check -o DIR`, or several directories: the shards of one check
    #[arg(value_name = "DIR", conflicts_with_all = ["interface", "model", "limit"])]
    records: Vec<PathBuf>,

    #[command(flatten)]
    from: From,

    /// Print JSON, for programs and for `knee report`; the JSON of a model includes the conditions
    /// of every pair
    #[arg(long)]
    json: bool,

    /// File for a self-contained HTML page with the conditions or tests of every pair; - is
    /// standard output. With DIR and a FILE that ends in .svg, knee writes a drawing instead
    #[arg(short = 'o', long, value_name = "FILE", conflicts_with = "json")]
    output: Option<PathBuf>,
}

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    let is_drawing =
        args.output.as_ref().and_then(|file| file.extension()).is_some_and(|end| end == "svg");
    match args.records.as_slice() {
        [] if is_drawing => bail_usage!(
            "a drawing requires the results of a check; name the DIR of `knee commute check -o \
             DIR`"
        ),
        [] => of_model(args),
        named => of_record(args, named, is_drawing).map(|()| ExitStatus::Done),
    }
}

fn of_record(args: &Args, named: &[PathBuf], is_drawing: bool) -> anyhow::Result<()> {
    let findings = checks::open(named)?;
    let Some(path) = &args.output else {
        if args.json {
            return stdout::print_json(&serde_json::to_value(MatrixDocument::of(&findings))?);
        }
        return stdout::show(&Results::of(&findings.tests).text(&findings.check.tested));
    };
    if !findings.tests.iter().any(|test| test.operations().len() == 2) {
        let dir = named[0].display();
        bail_usage!(
            "{dir} has no results for pairs of operations, so there is no matrix; use knee \
             commute explain {dir}"
        );
    }
    let shared = shared::record(&findings)?;
    if !is_drawing {
        return page::write(&Page { shared: vec![shared], ..Page::default() }, path);
    }
    file::write(path, knee_report::draw(&shared).as_bytes())?;
    tell!("knee: wrote {}", path.display());
    Ok(())
}

fn of_model(args: &Args) -> anyhow::Result<ExitStatus> {
    watch(|what| tell!("knee: {what}"));
    let model = args.from.model()?;
    let names: Vec<&str> = model.operations().iter().map(|(name, _)| *name).collect();
    let (mut done, of) = (0, pairs(&*model).len() as u64);
    let mut progress = Progress::new(false);
    let mut failed = 0;
    let pairs = explore_pairs(&*model, &args.from.limits(), |_, explored| {
        if let Err(error) = explored {
            failed += 1;
            tell!("knee: {error}");
        }
        done += 1;
        progress.show(&Amount { done, of, unit: "pairs of operations" }, String::new);
    });
    drop(progress);
    if failed > 0 {
        let of = plural(failed + pairs.len(), "pair");
        tell!("knee: the model failed for {failed} of {of}; the matrix leaves out failed pairs");
    }
    let not_all = pairs.iter().filter(|(_, exploration)| exploration.extent != Extent::default());
    match not_all.clone().count() {
        0 => {}
        1..=MOST_WARNINGS => {
            for ([i, j], exploration) in not_all {
                let pair = format!("{} and {}", names[*i], names[*j]);
                warn(&pair, &exploration.extent, &args.from);
            }
        }
        n => {
            let of = pairs.len();
            tell!("knee: {n} of {of} pairs were not fully explored; --json lists them");
        }
    }
    let matrix = || shown::matrix::record(&*model, &pairs);
    match &args.output {
        None if args.json => stdout::print_json_text(&matrix().to_json())?,
        None => stdout::print(&present::matrix(&names, &pairs, &Screen::of_stdout()))?,
        Some(file) => page::write(&Page { matrices: vec![matrix()], ..Page::default() }, file)?,
    }
    Ok(if failed > 0 { ExitStatus::TestcaseDied } else { ExitStatus::Done })
}
