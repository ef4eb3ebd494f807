//! Whether a finished run answers the question that it was for.

use knee_results::{Curve, Point};
use knee_run::record::Record;

use crate::exit::ExitStatus;
use crate::present::Format;
use crate::present::notes::CALMER;
use crate::present::progress::shows_notes;
use crate::present::warnings::all_disturbed;
use crate::stderr::tell;

/// The exit status of the run in `record`, whose results have been printed in `format`. Warns if no
/// point is usable.
///
/// Only a run with `--precision` asks for a decision: whether each point is precise. Any other run that
/// is disturbed is still a complete record, from which a later comparison concludes nothing.
pub(super) fn status(record: &Record, format: Format) -> anyhow::Result<ExitStatus> {
    let run = &record.run;
    let curves = run.curves(&record.rounds_left()?);
    if let Some(warning) = all_disturbed(&curves).filter(|_| !shows_notes(format)) {
        tell!("knee: {warning}; {CALMER}");
    }
    let is_open = |point: &Point, precision| point.disturbed || !point.is_precise(precision);
    let misses_precision = run.request.precision.is_some_and(|precision| {
        curves.iter().flat_map(Curve::points).any(|point| is_open(point, precision))
    });
    Ok(match ExitStatus::of_failures(&run.failures) {
        ExitStatus::Done if misses_precision => ExitStatus::TooNoisy,
        status => status,
    })
}
