//! Predicted curves with their bands, beside what was measured. Both axes are logarithmic, as those
//! of the overview: perfect scaling is a diagonal, also if a machine with hundreds of CPUs stands
//! beside one with two.

use knee_host::number::si;
use knee_results::prediction::{Point, Prediction};
use maud::Markup;

use super::drawing::{Anchor, Drawing, Path};
use super::run_class;
use super::scale::{Scale, count_ticks, log_ticks, round_ticks, without_zeros};
use crate::reading::CurveReading;

const WIDTH: f64 = 400.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 250.0;
const LEFT: f64 = 50.0;
const RIGHT: f64 = 350.0;
/// Distance between the ends of the axis and the outermost points.
const INSET: f64 = 8.0;
/// Minimum distance between numbers on the horizontal axis.
const TICK_GAP: f64 = 24.0;
/// Room above the greatest and below the least rate, as a factor.
const HEADROOM: f64 = 1.2;
/// Minimum range of ratios on each side of no change.
const LEAST_RANGE: f64 = 0.1;
/// Approximate number of ticks on a linear axis.
const TICKS: u32 = 5;
/// Segments of a fitted curve, enough to look smooth.
const PIECES: u32 = 48;
/// Half the width of the bar at a bound, and the length of the arrow below it.
const BOUND: (f64, f64) = (5.0, 9.0);

/// A prediction, and the measured curves of its testcase and mode.
pub(crate) struct Predicted<'r, 'p> {
    pub(crate) prediction: &'p Prediction,
    pub(crate) measured: &'r [CurveReading<'p>],
    /// Number of runs on the page, whose colours come before those of the kernels.
    pub(crate) runs: usize,
}

impl<'p> Predicted<'_, 'p> {
    /// The class that gives a kernel its colour and marker.
    pub(crate) fn class(&self, kernel: usize) -> String {
        run_class(self.runs + kernel)
    }

    fn points(&self) -> impl Iterator<Item = &'p Point> {
        self.prediction.curves.iter().flat_map(|curve| &curve.points)
    }

    /// The task counts of all curves.
    fn counts(&self) -> Vec<u32> {
        let measured = self.measured.iter().flat_map(|reading| reading.measured.points());
        let measured = measured.map(|point| point.tasks);
        let mut counts: Vec<u32> = self.points().map(|p| p.tasks).chain(measured).collect();
        counts.sort_unstable();
        counts.dedup();
        counts
    }

    /// All positive rates of the drawing. A rate of 0 has no place on a logarithmic axis.
    fn rates(&self) -> impl Iterator<Item = f64> {
        let predicted = self.points().flat_map(|point| match point.band() {
            Some((rate, low, high)) => [rate, low, high],
            None => [point.bound; 3],
        });
        let measured = self.measured.iter().flat_map(|reading| reading.measured.points());
        predicted.chain(measured.map(|point| point.rate)).filter(|rate| *rate > 0.0)
    }

    fn title(&self, what: &str) -> String {
        let Prediction { testcase, mode, machine, .. } = self.prediction;
        format!("{what} of {testcase}, {mode}, on {}", machine.name)
    }
}

/// Throughput against tasks.
pub(crate) fn predicted(all: &Predicted) -> Markup {
    let least = all.rates().fold(f64::INFINITY, f64::min);
    let most = all.rates().fold(0.0, f64::max);
    // Without a positive rate, the axes are empty.
    let domain = if most > 0.0 { (least / HEADROOM, most * HEADROOM) } else { (1.0, 10.0) };
    let y = Scale::logarithmic(domain, (BOTTOM, TOP));
    let mut axes = Axes::new(all, "Predicted throughput", &described(all), y);
    let ticks = log_ticks((domain.0.log10(), domain.1.log10()));
    axes.grid(ticks.into_iter().map(|log| 10f64.powf(log)), |rate| without_zeros(&si(rate)));
    axes.ideal(all);
    for reading in all.measured {
        axes.fit(reading);
    }
    for (kernel, curve) in all.prediction.curves.iter().enumerate() {
        axes.curve(&all.class(kernel), &curve.points);
    }
    for reading in all.measured {
        axes.measured(reading);
    }
    axes.drawing.finish()
}

/// The ends of the predicted curves in words, for readers who cannot see them.
fn described(all: &Predicted) -> String {
    let mode = all.prediction.mode;
    let at =
        |point: &Point| format!("{}/s with {}", point.rate_in_words(), mode.tasks(point.tasks));
    let ends = all.prediction.curves.iter().map(|curve| match &curve.points[..] {
        [first, .., last] => format!("{}: {}, {}.", curve.kernel, at(first), at(last)),
        points => format!("{}: {}.", curve.kernel, points.iter().map(at).collect::<String>()),
    });
    ends.collect::<Vec<_>>().join(" ")
}

/// Ratios of further kernels to the first, if any is known.
pub(crate) fn predicted_ratios(all: &Predicted) -> Option<Markup> {
    let ratios = || all.points().filter_map(|point| point.ratio);
    ratios().next()?;
    let least = ratios().map(|ratio| ratio.low).fold(1.0 - LEAST_RANGE, f64::min);
    let most = ratios().map(|ratio| ratio.high).fold(1.0 + LEAST_RANGE, f64::max);
    let room = (most - least) * 0.05;
    let y = Scale::new(((least - room).max(0.0), most + room), (BOTTOM, TOP));
    let ticks = round_ticks(y.domain.0, y.domain.1, TICKS);
    let sentence = all.prediction.sentence() + ".";
    let mut axes = Axes::new(all, "Predicted ratio", &sentence, y);
    axes.grid(ticks.into_iter(), |ratio| format!("× {}", without_zeros(&format!("{ratio:.2}"))));
    axes.level(1.0);
    for (kernel, curve) in all.prediction.curves.iter().enumerate() {
        let known = |point: &Point| {
            let ratio = point.ratio?;
            Some((point.tasks, ratio.value, ratio.low, ratio.high))
        };
        axes.band(&all.class(kernel), &curve.points, known);
    }
    Some(axes.drawing.finish())
}

struct Axes {
    drawing: Drawing,
    x: Scale,
    y: Scale,
}

impl Axes {
    fn new(all: &Predicted, what: &str, description: &str, y: Scale) -> Self {
        let counts = all.counts();
        let end = |count: Option<&u32>| f64::from(*count.unwrap_or(&1));
        let domain = (end(counts.first()), end(counts.last()));
        let x = Scale::logarithmic(domain, (LEFT + INSET, RIGHT - INSET));
        let size = (WIDTH, BOTTOM + 24.0);
        let drawing = Drawing::new("chart", size, &all.title(what), description, "");
        let mut axes = Self { drawing, x, y };
        let mut axis = Path::default();
        axis.move_to(LEFT, BOTTOM).horizontal_to(RIGHT);
        axes.drawing.open_group("tasks-axis");
        for n in count_ticks(&counts, &axes.x, TICK_GAP) {
            let x = axes.x.at(f64::from(n));
            axis.move_to(x, BOTTOM).vertical_to(BOTTOM + 4.0);
            axes.drawing.plain_text((x, BOTTOM + 16.0), &n.to_string());
        }
        axes.drawing.close_group();
        axes.drawing.path("axis", &axis);
        axes.drawing.text("tick", (WIDTH, BOTTOM + 16.0), Anchor::End, "tasks");
        axes
    }

    fn grid(&mut self, values: impl Iterator<Item = f64>, label: impl Fn(f64) -> String) {
        let mut grid = Path::default();
        self.drawing.open_group("value-axis");
        for value in values {
            let y = self.y.at(value);
            grid.move_to(LEFT, y).horizontal_to(RIGHT);
            self.drawing.plain_text((LEFT - 6.0, y + 4.0), &label(value));
        }
        self.drawing.close_group();
        self.drawing.path("grid", &grid);
    }

    /// A horizontal line at `value`.
    fn level(&mut self, value: f64) {
        let mut path = Path::default();
        path.move_to(LEFT, self.y.within(value)).horizontal_to(RIGHT);
        self.drawing.path("axis", &path);
    }

    fn at(&self, tasks: u32, value: f64) -> (f64, f64) {
        (self.x.at(f64::from(tasks)), self.y.within(value))
    }

    /// Perfect scaling from the first predicted point, up to the end of an axis.
    fn ideal(&mut self, all: &Predicted) {
        let Some(first) = all.points().next().filter(|point| point.simulated > 0.0) else { return };
        let (from, per_task) = (f64::from(first.tasks), first.simulated / f64::from(first.tasks));
        let to = self.x.domain.1.min(self.y.domain.1 / per_task).max(from);
        let mut path = Path::default();
        path.line([from, to].map(|n| (self.x.at(n), self.y.within(n * per_task))).into_iter());
        self.drawing.path("ideal", &path);
    }

    /// A predicted curve, and an arrow below each bound.
    fn curve(&mut self, class: &str, points: &[Point]) {
        let known = |point: &Point| {
            let (rate, low, high) = point.band()?;
            Some((point.tasks, rate, low, high))
        };
        self.band(class, points, known);
        let mut bounds = Path::default();
        let (half, length) = BOUND;
        for point in points.iter().filter(|point| point.band().is_none()) {
            let (x, y) = self.at(point.tasks, point.bound);
            bounds.move_to(x - half, y).horizontal_to(x + half);
            bounds.move_to(x, y).vertical_to(y + length);
            bounds.move_to(x - 3.0, y + length - 3.0).line_to(x, y + length);
            bounds.line_to(x + 3.0, y + length - 3.0);
        }
        self.drawing.group(class, &[("bound", &bounds)]);
    }

    /// A line with its band, interrupted where `known` has no values.
    fn band(
        &mut self,
        class: &str,
        points: &[Point],
        known: impl Fn(&Point) -> Option<(u32, f64, f64, f64)>,
    ) {
        let (mut line, mut band) = (Path::default(), Path::default());
        for piece in points.chunk_by(|a, b| known(a).is_some() && known(b).is_some()) {
            let all: Vec<_> = piece.iter().filter_map(&known).collect();
            if all.is_empty() {
                continue;
            }
            line.line(all.iter().map(|&(tasks, value, ..)| self.at(tasks, value)));
            let above = all.iter().map(|&(tasks, .., high)| self.at(tasks, high));
            let below = all.iter().rev().map(|&(tasks, _, low, _)| self.at(tasks, low));
            band.line(above.chain(below)).close();
        }
        self.drawing.group(class, &[("band", &band), ("line marked", &line)]);
    }

    /// The Universal Scalability Law of a measured curve, also beyond what was measured.
    fn fit(&mut self, reading: &CurveReading) {
        let (Ok(law), Some(first)) = (&reading.curve.fit, reading.measured.sound().next()) else {
            return;
        };
        let (from, to) = (f64::from(first.tasks), self.x.domain.1);
        let (low, high) = self.y.domain;
        let mut path = Path::default();
        path.line(
            (0..=PIECES)
                .map(|nr| from * (to / from).powf(f64::from(nr) / f64::from(PIECES)))
                .map(|n| (n, law.model.throughput(n)))
                .filter(|(_, rate)| rate.is_finite() && (low..=high).contains(rate))
                .map(|(n, rate)| (self.x.at(n), self.y.at(rate))),
        );
        self.drawing.group(&run_class(reading.curve.run), &[("usl", &path)]);
    }

    fn measured(&mut self, reading: &CurveReading) {
        let (mut line, mut intervals) = (Path::default(), Path::default());
        for piece in reading.unbroken() {
            let positive = || piece.iter().filter(|point| point.rate > 0.0);
            line.line(positive().map(|point| self.at(point.tasks, point.rate)));
            for point in positive() {
                let (x, y) = self.at(point.tasks, point.low);
                intervals.move_to(x, y).vertical_to(self.y.within(point.high));
            }
        }
        let paths = [("interval", &intervals), ("line marked", &line)];
        self.drawing.group(&run_class(reading.curve.run), &paths);
    }
}
