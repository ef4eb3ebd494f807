//! A testcase in the overview: speed-up against tasks, both logarithmic, on one scale for the whole
//! page. Perfect scaling is the diagonal, a curve that does not scale is flat, and one that loses
//! throughput falls. This works for any unit, and equally well for 4 tasks and for 256.

use knee_host::number::percent;
use knee_results::{Mode, Point};
use maud::Markup;

use super::drawing::{Drawing, Path};
use super::run_class;
use super::scale::Scale;
use crate::reading::{CurveReading, Labelled, Reading, range};

const WIDTH: f64 = 132.0;
const HEIGHT: f64 = 84.0;
const EDGE: f64 = 5.0;
/// Minimum logarithm of a speed-up: less than a quarter of the throughput of one task is drawn as a
/// quarter, because the shape is clear by then.
const LEAST_SPEEDUP: f64 = -2.0;
/// A point closer than this to the previous one is not drawn, unless it is a knee, a peak or an
/// end. The distance is about a pixel at the size of a sparkline.
const APART: f64 = 0.8;

/// The scale that all sparklines of a page share.
pub(crate) struct SparkScale {
    x: Scale,
    y: Scale,
}

impl SparkScale {
    /// `None` if no curve has two task counts.
    pub(crate) fn of(reading: &Reading) -> Option<Self> {
        let (first, last) = range(reading.page.curves.iter())?;
        reading.curves().find(|(_, curve)| curve.measured.last_efficiency().is_some())?;
        let (x0, x1) = (f64::from(first).log2(), f64::from(last).log2());
        let speedups = reading.curves().flat_map(|(_, reading)| {
            let measured = &reading.measured;
            measured.points().iter().filter_map(|point| Some(measured.scaling(point)?.speedup))
        });
        let (least, most) = speedups
            .map(|speedup| speedup.log2().max(LEAST_SPEEDUP))
            .fold((x0, x1), |(low, high), speedup| (low.min(speedup), high.max(speedup)));
        Some(Self {
            x: Scale::new((x0, x1), (EDGE, WIDTH - EDGE)),
            y: Scale::new((least, most), (HEIGHT - EDGE, EDGE)),
        })
    }
}

/// The curves of one mode of a testcase, a line per run.
pub(crate) fn spark(scale: &SparkScale, name: &str, mode: Mode, curves: &[CurveReading]) -> Markup {
    let description: Vec<String> = curves.iter().map(|reading| sentence(reading, mode)).collect();
    let title = format!("{name}, {}", mode.as_str());
    let mut drawing = Drawing::new("spark", (WIDTH, HEIGHT), &title, &description.join(" "), "");
    let (x0, x1) = scale.x.domain;
    let mut ideal = Path::default();
    ideal.line([x0, x1].into_iter().map(|n| (scale.x.at(n), scale.y.at(n))));
    drawing.path("ideal", &ideal);
    for reading in curves {
        let at = |n: u32, efficiency: f64| {
            let n = f64::from(n).log2();
            (scale.x.at(n), scale.y.within((n + efficiency.log2()).max(LEAST_SPEEDUP)))
        };
        let run = reading.curve.run;
        let mut line = Path::default();
        let mut knee = Path::default();
        for piece in reading.unbroken() {
            let last = piece.last().map(|point| point.tasks);
            let peak = reading.measured.peak().map(|point| point.tasks);
            let mut drawn = f64::NEG_INFINITY;
            let kept = piece.iter().filter(|point| {
                let n = Some(point.tasks);
                let x = scale.x.at(f64::from(point.tasks).log2());
                let keeps = x - drawn >= APART || [last, peak, reading.knee].contains(&n);
                if keeps {
                    drawn = x;
                }
                keeps
            });
            let shown = |point: &Point| Some(at(point.tasks, reading.efficiency(point)?));
            line.line(kept.filter_map(shown));
        }
        let at_knee = reading.knee.and_then(|tasks| reading.measured.at(tasks));
        if let Some(point) = at_knee
            && let Some(efficiency) = reading.efficiency(point)
        {
            let (x, y) = at(point.tasks, efficiency);
            knee.move_to(x, y - 6.0).vertical_to(y + 6.0);
        }
        drawing.group(&run_class(run), &[("line", &line), ("knee-mark", &knee)]);
        let mut gaps = Path::default();
        for gap in &reading.curve.missing {
            let (x, y) = (scale.x.at(f64::from(gap.tasks).log2()), HEIGHT - EDGE - 2.0);
            gaps.cross(x, y, 2.5);
        }
        drawing.path("gap", &gaps);
    }
    drawing.finish()
}

fn sentence(reading: &CurveReading, mode: Mode) -> String {
    let (Some(last), Some(efficiency)) =
        (reading.measured.last(), reading.measured.last_efficiency())
    else {
        return format!("{}: {}.", reading.run.label, reading.verdict.label().words);
    };
    let knee = reading.knee.map_or(String::new(), |knee| format!(", knee at {knee}"));
    format!(
        "{}: {}; efficiency {} with {}{knee}.",
        reading.run.label,
        reading.verdict.label().words,
        percent(efficiency),
        mode.tasks(last.tasks)
    )
}
