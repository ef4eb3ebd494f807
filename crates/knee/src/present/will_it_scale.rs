//! The lines that the binaries of will-it-scale print, for scripts that read them.

pub(crate) mod csv;

use std::collections::BTreeMap;
use std::io::Write;

use knee_results::PointId;
use knee_run::job::Phase;
use knee_run::record::{Record, Rounds};
use knee_stats::Spread;

/// `min:… max:… total:…`: whole operations per second.
pub(crate) fn sample(spread: &Spread) -> String {
    let Spread { min, max, total, .. } = spread;
    format!("min:{min:.0} max:{max:.0} total:{total:.0}")
}

/// The printed statistics of the samples of one point.
#[derive(Default)]
struct Samples {
    warmup: Vec<Spread>,
    measured: Vec<Spread>,
}

/// The output of one binary per point, one after the other.
pub(super) fn render(
    record: &Record,
    finished: &Rounds,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let samples = by_point(record, finished)?;
    for point in record.run.points() {
        let Some(samples) = samples.get(&point) else { continue };
        let case = record.run.case(&point.case);
        let description =
            case.map_or_else(|| point.case.to_string(), |case| case.description.clone());
        writeln!(out, "testcase:{description}\nwarmup")?;
        print(&samples.warmup, out)?;
        writeln!(out, "measurement")?;
        print(&samples.measured, out)?;
        let sum: f64 = samples.measured.iter().map(|spread| spread.total).sum();
        writeln!(out, "average:{:.0}", sum / samples.measured.len().max(1) as f64)?;
    }
    Ok(())
}

/// The record interleaves the points, so one pass sorts its samples by point.
fn by_point(record: &Record, finished: &Rounds) -> anyhow::Result<BTreeMap<PointId, Samples>> {
    let mut points: BTreeMap<PointId, Samples> = BTreeMap::new();
    for line in record.samples()? {
        let line = line?;
        // The format cannot mark a round.
        let round = finished.get(&line.point, line.round);
        if round.is_some_and(|round| round.clean_rate().is_some()) {
            let samples = points.entry(line.point).or_default();
            match line.phase {
                Phase::Warmup => samples.warmup.push(line.spread),
                Phase::Measure => samples.measured.push(line.spread),
                Phase::Round => {}
            }
        }
    }
    Ok(points)
}

fn print(samples: &[Spread], out: &mut dyn Write) -> std::io::Result<()> {
    samples.iter().try_for_each(|spread| writeln!(out, "{}", sample(spread)))
}
