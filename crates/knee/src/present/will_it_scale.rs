//! The lines that the binaries of will-it-scale print, for scripts that read them.

use std::fmt::Write;

use knee_measure::job::Phase;
use knee_measure::record::{Record, SampleLine};

/// `min:… max:… total:…`: whole operations per second.
pub(crate) fn sample(min: f64, max: f64, total: f64) -> String {
    format!("min:{min:.0} max:{max:.0} total:{total:.0}")
}

/// The output of one binary per point, one after the other.
pub(crate) fn render(record: &Record) -> String {
    let mut text = String::new();
    for point in record.run.points() {
        let lines: Vec<&SampleLine> =
            record.samples.iter().filter(|line| line.point == point).collect();
        let (measured, warmup): (Vec<&SampleLine>, Vec<&SampleLine>) =
            lines.into_iter().partition(|line| line.phase == Phase::Measure);
        if measured.is_empty() {
            continue;
        }
        let case = record.run.case(&point.testcase);
        let description = case.map_or(point.testcase.as_str(), |case| case.description.as_str());
        let _ = writeln!(text, "testcase:{description}\nwarmup");
        for line in warmup {
            let _ = writeln!(text, "{}", sample(line.min, line.max, line.total));
        }
        text += "measurement\n";
        for line in &measured {
            let _ = writeln!(text, "{}", sample(line.min, line.max, line.total));
        }
        let average = measured.iter().map(|line| line.total).sum::<f64>() / measured.len() as f64;
        let _ = writeln!(text, "average:{average:.0}");
    }
    text
}
