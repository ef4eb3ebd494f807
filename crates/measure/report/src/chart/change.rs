//! Ratios of further runs to the first: a marker per point, whose shape is the verdict, and its
//! interval.

use knee_host::number;
use knee_stats::Verdict;
use maud::Markup;

use super::drawing::Path;
use super::frame::{BOTTOM, Frame};
use super::throughput::MARKED_POINTS;
use super::{Panel, run_class, sentences};
use crate::model::Change;
use crate::page::words_of_changes;

const HEIGHT: f64 = BOTTOM + 26.0;
/// Minimum range of the axis on each side of no change, so that a chart of noise looks like noise.
const LEAST_RANGE: f64 = 0.1;

pub(crate) fn change(panel: &Panel) -> Markup {
    let changes = || {
        let readings = panel.curves.iter();
        let compared = readings.flat_map(|r| r.curve.changes.values()).filter(|c| !c.disturbed);
        compared.filter_map(|change| change.comparison.ratio)
    };
    let least = changes().map(|c| c.low.min(c.ratio)).fold(1.0 - LEAST_RANGE, f64::min);
    let most = changes().map(|c| c.high.max(c.ratio)).fold(1.0 + LEAST_RANGE, f64::max);
    let description = sentences(panel, |reading| {
        (!reading.changes.is_empty()).then(|| words_of_changes(&reading.changes) + ".")
    });
    let room = (most - least) * 0.05;
    let domain = ((least - room).max(0.0), most + room);
    let mut frame = Frame::new(panel, HEIGHT, domain, "Change against the first run", &description);
    if let Some(threshold) = panel.reading.page.threshold {
        frame.level("threshold", 1.0 - threshold);
        frame.level("threshold", 1.0 + threshold);
    }
    frame.grid(|ratio| {
        let percent = (ratio - 1.0) * 100.0;
        let sign = match percent.round() {
            less if less < 0.0 => "−",
            more if more > 0.0 => "+",
            _ => "",
        };
        format!("{sign}{:.0}%", percent.abs())
    });
    frame.level("axis", 1.0);
    frame.boundaries(panel);
    let runs = panel.curves.len();
    let mut ends = Vec::new();
    for (i, reading) in panel.curves.iter().enumerate() {
        let run = reading.curve.run;
        let changed = || {
            let changes = reading.curve.changes.iter().filter(|(_, change)| !change.disturbed);
            changes.filter_map(|(&tasks, Change { comparison, .. })| {
                Some((tasks, comparison.ratio?, comparison.verdict))
            })
        };
        let mut line = Path::default();
        let mut intervals = Path::default();
        line.line(changed().map(|(n, r, _)| (frame.x_of_run(n, i, runs), frame.y.within(r.ratio))));
        for (n, ratio, _) in changed() {
            let x = frame.x_of_run(n, i, runs);
            intervals.move_to(x, frame.y.within(ratio.low)).vertical_to(frame.y.within(ratio.high));
        }
        let paths = [("line thin", &line), ("interval", &intervals)];
        frame.drawing.group(&run_class(run), &paths);
        let sparse = reading.measured.points().len() <= MARKED_POINTS;
        for verdict in Verdict::ALL {
            let mut marks = Path::default();
            for (n, ratio, _) in changed().filter(|(.., v)| *v == verdict) {
                let x = frame.x_of_run(n, i, runs);
                let y = frame.y.within(ratio.ratio);
                match sparse {
                    true => marks.marker(shape(verdict), x, y),
                    false => marks.dot(x, y),
                };
            }
            frame.drawing.path(&format!("median {}", verdict.as_str()), &marks);
        }
        for (&tasks, _) in reading.curve.changes.iter().filter(|(_, change)| change.disturbed) {
            frame.disturbed(panel, (i, tasks), BOTTOM - 8.0);
        }
        if let Some((n, last, _)) = changed().next_back() {
            let at = (frame.x_of_run(n, i, runs), frame.y.within(last.ratio));
            ends.push((at, run_class(run), number::change(last.ratio)));
        }
    }
    frame.end_labels(ends);
    frame.drawing.finish()
}

/// The index of the marker for `verdict`. Triangles point in the direction of the change.
fn shape(verdict: Verdict) -> usize {
    match verdict {
        Verdict::Slower => 4,
        Verdict::Faster => 3,
        Verdict::Inconclusive => 5,
        Verdict::Same => 1,
    }
}
