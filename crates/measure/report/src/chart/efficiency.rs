//! Efficiency against tasks: the chart that shows scaling problems first.

use knee_host::number::percent;
use knee_results::Point;
use maud::Markup;

use super::drawing::Path;
use super::frame::{BOTTOM, Frame};
use super::throughput::MARKED_POINTS;
use super::{Panel, run_class, sentences};
use crate::verdict::implausible;

const HEIGHT: f64 = BOTTOM + 26.0;

pub(crate) fn efficiency(panel: &Panel) -> Markup {
    let best = panel
        .case
        .curves
        .iter()
        .flat_map(|reading| reading.measured.points().iter().filter_map(|p| reading.efficiency(p)))
        .fold(1.0, f64::max);
    let description = sentences(panel, |reading| {
        let last = reading.measured.last()?;
        let efficiency = percent(reading.measured.last_efficiency()?);
        Some(format!("{efficiency} with {}.", reading.measured.place(last.tasks)))
    });
    let mut frame = Frame::new(panel, HEIGHT, (0.0, best * 1.05), "Efficiency", &description);
    frame.grid(percent);
    frame.boundaries(panel);
    frame.ideal_level(panel, 1.0);
    frame.level("threshold", panel.reading.page.knee_efficiency);
    let mut ends = Vec::new();
    for (i, reading) in panel.curves.iter().enumerate() {
        let run = reading.curve.run;
        let sparse = reading.measured.points().len() <= MARKED_POINTS;
        let mut line = Path::default();
        for piece in reading.unbroken() {
            let at = |point: &Point| {
                let efficiency = reading.efficiency(point)?;
                Some((frame.x.at(f64::from(point.tasks)), frame.y.at(efficiency)))
            };
            line.line(piece.iter().filter_map(at));
        }
        let class = if sparse { "line marked" } else { "line" };
        frame.drawing.group(&run_class(run), &[(class, &line)]);
        for (point, scaling) in reading.implausible() {
            let mut ring = Path::default();
            ring.ring(frame.x.at(f64::from(point.tasks)), frame.y.at(scaling.efficiency));
            frame.drawing.titled_path("implausible", &ring, &implausible());
        }
        for point in reading.disturbed() {
            frame.disturbed(panel, (i, point.tasks), BOTTOM - 8.0);
        }
        let last = reading.measured.last().zip(reading.measured.last_efficiency());
        if let Some((point, efficiency)) = last {
            let at = (frame.x.at(f64::from(point.tasks)), frame.y.at(efficiency));
            ends.push((at, run_class(run), percent(efficiency)));
        }
    }
    frame.end_labels(ends);
    frame.gaps(panel);
    frame.drawing.finish()
}
