//! A testcase in the overview: speed-up against tasks, both logarithmic, on one scale for the whole
//! page. Perfect scaling is the diagonal, a curve that does not scale is flat, and one that loses
//! throughput falls. This works for any unit, and equally well for 4 tasks and for 256.

use knee_host::number::percent;
use knee_results::{Mode, Point};
use maud::Markup;

use super::drawing::{Anchor, Drawing, Path};
use super::run_class;
use super::scale::Scale;
use crate::reading::{CurveReading, Reading, range};
use crate::verdict::Labelled as _;

const WIDTH: f64 = 132.0;
const HEIGHT: f64 = 84.0;
const EDGE: f64 = 5.0;
/// Distance between the end of perfect scaling and its label, which leaves room for the curve.
const BESIDE: f64 = 14.0;
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
    /// The end of perfect scaling, as a logarithm of a task count.
    with_cpus: f64,
}

/// The speed-up to draw at a point, also at one that is not sound. `None` if it is unknown because
/// the point at one task is not sound.
fn speedup(reading: &CurveReading, point: &Point) -> Option<f64> {
    match reading.measured.base() {
        Some(one) if one.rate > 0.0 => Some(point.rate / one.rate),
        Some(_) => Some(0.0),
        None => (point.tasks == 1).then_some(1.0),
    }
}

impl SparkScale {
    /// `None` if no curve has two task counts.
    pub(crate) fn of(reading: &Reading) -> Option<Self> {
        let (first, last) = range(reading.page.curves.iter())?;
        reading.curves().find(|(_, curve)| curve.measured.last_efficiency().is_some())?;
        let (x0, x1) = (f64::from(first).log2(), f64::from(last).log2());
        let speedups = reading.curves().flat_map(|(_, reading)| {
            reading.measured.points().iter().filter_map(|point| speedup(reading, point))
        });
        // Perfect scaling ends where there are more tasks than CPUs.
        let with_cpus = reading.curves().map(|(_, curve)| curve.highest_with_cpus()).max();
        let with_cpus = f64::from(with_cpus.unwrap_or(last).max(first));
        let (least, most) = speedups
            .map(|speedup| speedup.log2().max(LEAST_SPEEDUP))
            .fold((x0, with_cpus.log2()), |(low, high), speedup| {
                (low.min(speedup), high.max(speedup))
            });
        Some(Self {
            with_cpus: with_cpus.log2(),
            x: Scale::new((x0, x1), (EDGE, WIDTH - EDGE)),
            y: Scale::new((least, most), (HEIGHT - EDGE, EDGE)),
        })
    }
}

/// The curves of one mode of a testcase, a line per run.
pub(crate) fn spark(scale: &SparkScale, name: &str, mode: Mode, curves: &[CurveReading]) -> Markup {
    let description: Vec<String> = curves.iter().map(sentence).collect();
    let title = format!("{name}, {}", mode.as_str());
    let mut drawing = Drawing::new("spark", (WIDTH, HEIGHT), &title, &description.join(" "), "");
    let ends = [scale.x.domain.0, scale.with_cpus];
    let mut ideal = Path::default();
    ideal.line(ends.into_iter().map(|n| (scale.x.at(n), scale.y.at(n))));
    drawing.path("ideal", &ideal);
    let (x, y) = (scale.x.at(scale.with_cpus), scale.y.at(scale.with_cpus));
    let label = format!("{:.0}×", scale.with_cpus.exp2());
    drawing.text("scale", (x - BESIDE, y + 3.0), Anchor::End, &label);
    for reading in curves {
        let at = |point: &Point| {
            let y = speedup(reading, point)?.log2().max(LEAST_SPEEDUP);
            Some((scale.x.at(f64::from(point.tasks).log2()), scale.y.within(y)))
        };
        let run = reading.curve.run;
        let [mut beyond, mut line, mut knee, mut disturbed, mut gaps] =
            [(); 5].map(|()| Path::default());
        for piece in reading.oversubscribed() {
            beyond.line(thinned(scale, reading, piece).into_iter().filter_map(at));
        }
        for piece in reading.unbroken() {
            line.line(thinned(scale, reading, piece).into_iter().filter_map(at));
        }
        let at_knee = reading.knee.and_then(|tasks| reading.measured.at(tasks));
        if let Some((x, y)) = at_knee.and_then(at) {
            knee.move_to(x, y - 6.0).vertical_to(y + 6.0);
        }
        for (x, y) in reading.disturbed().filter_map(at) {
            disturbed.disturbed(x, y);
        }
        let paths = [
            ("shared-cpus", &beyond),
            ("line", &line),
            ("knee-mark", &knee),
            ("disturbed", &disturbed),
        ];
        drawing.group(&run_class(run), &paths);
        for gap in &reading.curve.missing {
            let (x, y) = (scale.x.at(f64::from(gap.tasks).log2()), HEIGHT - EDGE - 2.0);
            gaps.cross(x, y, 2.5);
        }
        drawing.path("gap", &gaps);
    }
    drawing.finish()
}

/// The points of a piece of a line that are visibly apart, with its knee, its peak and its ends.
fn thinned<'p>(scale: &SparkScale, reading: &CurveReading, piece: &'p [Point]) -> Vec<&'p Point> {
    let last = piece.last().map(|point| point.tasks);
    let peak = reading.measured.peak().map(|point| point.tasks);
    let mut drawn = f64::NEG_INFINITY;
    let is_kept = |point: &&Point| {
        let x = scale.x.at(f64::from(point.tasks).log2());
        let is_kept = x - drawn >= APART || [last, peak, reading.knee].contains(&Some(point.tasks));
        if is_kept {
            drawn = x;
        }
        is_kept
    };
    piece.iter().filter(is_kept).collect()
}

fn sentence(reading: &CurveReading) -> String {
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
        reading.measured.place(last.tasks)
    )
}
