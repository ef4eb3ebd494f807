//! Compares runs: every point of the first run with the same point of each other run.

use knee_results::Compared;

use super::args::{Args, Format};
use crate::exit::{ExitStatus, bail_usage, ensure_usage};
use crate::input::read;
use crate::present::compared::{Comparisons, Form, benchstat, different_rates, nothing_in_common};
use crate::stderr::tell;
use crate::stdout;

pub(super) fn run(args: &Args) -> anyhow::Result<ExitStatus> {
    if let Some(option) = args.numbers.given() {
        bail_usage!("{option} applies only to files of numbers, but the arguments are runs");
    }
    let format = args.format();
    ensure_usage!(
        format != Format::Ministat,
        "--format ministat applies only to files of numbers, but the arguments are runs"
    );
    ensure_usage!(
        args.files.len() >= 2 || format == Format::Benchstat,
        "only one run to compare; name a run BEFORE and a run AFTER"
    );
    let results = args
        .files
        .iter()
        .map(|file| read(file).map(|read| read.results))
        .collect::<Result<Vec<_>, _>>()?;
    // Readers of this format compare all runs with each other.
    if format == Format::Benchstat
        && let Some(why) = different_rates(&results)
    {
        bail_usage!("{why}");
    }
    let [before, others @ ..] = results.as_slice() else { unreachable!("a record was seen") };
    let options = args.records.options(args.confidence.get());
    let compared = others.iter().map(|after| (after, Compared::new(before, after, &options)));
    let comparisons = Comparisons { before, options, compared: compared.collect() };
    match format {
        Format::Human | Format::Ministat => {
            comparisons.print(Form::Table { all_notes: args.form.detail })?;
        }
        Format::Markdown => comparisons.print(Form::Markdown)?,
        Format::Json => comparisons.print(Form::Json)?,
        Format::Benchstat => stdout::print(&benchstat::render(&results))?,
    }
    let judged = args.records.judge(&comparisons.compared);
    let nothing = |compared: &Compared| compared.in_common == 0 && format != Format::Benchstat;
    for (after, _) in comparisons.compared.iter().filter(|(_, compared)| nothing(compared)) {
        tell!("knee: {}", nothing_in_common(before, after));
    }
    let all = comparisons.compared.iter().all(|(_, compared)| nothing(compared));
    Ok(match judged {
        ExitStatus::Done if all && !comparisons.compared.is_empty() => ExitStatus::Usage,
        judged => judged,
    })
}
