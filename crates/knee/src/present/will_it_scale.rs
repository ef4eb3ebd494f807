//! The lines that the binaries of will-it-scale print, for scripts that read them.

use std::io::Write;

use knee_measure::job::Phase;
use knee_measure::plan::Point;
use knee_measure::record::{Record, Rounds};

/// `min:… max:… total:…`: whole operations per second.
pub(crate) fn sample(min: f64, max: f64, total: f64) -> String {
    format!("min:{min:.0} max:{max:.0} total:{total:.0}")
}

/// The output of one binary per point, one after the other. The record has the points interleaved,
/// so it is read again for each.
pub(super) fn render(
    record: &Record,
    finished: &Rounds,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    for point in record.run.points() {
        if finished.of(&point).next().is_none() {
            continue;
        }
        let case = record.run.case(&point.testcase);
        let description = case.map_or(point.testcase.as_str(), |case| case.description.as_str());
        writeln!(out, "testcase:{description}\nwarmup")?;
        totals(record, finished, &point, Phase::Warmup, out)?;
        writeln!(out, "measurement")?;
        let totals = totals(record, finished, &point, Phase::Measure, out)?;
        writeln!(out, "average:{:.0}", totals.0 / totals.1.max(1) as f64)?;
    }
    Ok(())
}

/// Prints the samples of one phase; returns the sum of their totals and their number.
fn totals(
    record: &Record,
    finished: &Rounds,
    point: &Point,
    phase: Phase,
    out: &mut dyn Write,
) -> anyhow::Result<(f64, u64)> {
    let mut totals = (0.0, 0);
    for line in record.samples()? {
        let line = line?;
        let wanted = line.point == *point && line.phase == phase;
        if wanted && finished.contains(point, line.round) {
            writeln!(out, "{}", sample(line.min, line.max, line.total))?;
            totals = (totals.0 + line.total, totals.1 + 1);
        }
    }
    Ok(totals)
}
