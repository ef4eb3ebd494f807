//! Latency by percentile, a line for each task count. The axis is that of HdrHistogram's plots: each
//! further nine has the same length, so that the tail is as long as it is important.

use knee_host::number::time;
use knee_results::{Point, PointLatency};
use maud::Markup;

use super::drawing::{Anchor, Drawing, Path};
use super::scale::{Scale, log_ticks, without_zeros};
use super::{Panel, run_class, sentences};
use crate::reading::CurveReading;

const WIDTH: f64 = 320.0;
const TOP: f64 = 18.0;
const BOTTOM: f64 = 200.0;
const LEFT: f64 = 46.0;
const RIGHT: f64 = 268.0;
/// Lines that a reader can tell apart by the numbers at their ends: of one run, or of each of several.
const MOST_LINES: usize = 6;
const MOST_LINES_OF_EACH: usize = 3;
/// Minimum distance between these numbers, and their width.
const LABEL_GAP: f64 = 12.0;
const LABEL_WIDTH: f64 = 24.0;
/// Tolerance for rounding: a number at this distance does not overlap.
const ROUNDING: f64 = 0.1;
/// Points of a line for each nine.
const PIECES: u32 = 16;
/// The shares of the axis.
const TICKS: [(f64, &str); 5] =
    [(0.5, "50"), (0.9, "90"), (0.99, "99"), (0.999, "99.9"), (0.9999, "99.99")];
/// Shortest axis, in nines, so that it has more than the median.
const FEWEST_NINES: f64 = 2.0;
/// Longest axis.
const MOST_NINES: f64 = 4.7;

/// Whether a curve has latencies.
pub(crate) fn has_latency(reading: &CurveReading) -> bool {
    reading.measured.points().iter().any(|point| point.latency.is_some())
}

pub(crate) fn latency(panel: &Panel) -> Markup {
    let lines =
        || panel.curves.iter().flat_map(|reading| drawn(panel, reading).map(move |l| (reading, l)));
    let most = lines().map(|(_, (_, latency))| latency.times.count()).max().unwrap_or(0);
    let nines = (most.max(1) as f64).log10().clamp(FEWEST_NINES, MOST_NINES);
    let x = Scale::new((0.0, nines), (LEFT, RIGHT));
    let all = || lines().flat_map(|(_, (_, latency))| [nanos(latency, 0.0), nanos(latency, 1.0)]);
    let least = all().fold(f64::INFINITY, f64::min).log10();
    let most = all().fold(1.0, f64::max).log10();
    let y = Scale::new((least.min(most - 0.5), most + 0.05), (BOTTOM, TOP));
    let title = format!("Latency of {}", panel.name());
    let description = sentences(panel, |reading| sentence(panel, reading));
    let size = (WIDTH, BOTTOM + 24.0);
    let mut drawing = Drawing::new("chart latency-chart", size, &title, &description, "");
    axes(&mut drawing, &x, &y);
    let mut labels = Vec::new();
    for (reading, (point, latency)) in lines() {
        let class = run_class(reading.curve.run);
        let mut line = Path::default();
        let end = (latency.times.count() as f64).log10().min(nines);
        let pieces = (end * f64::from(PIECES)).ceil() as u32;
        let places = (0..=pieces).map(|nr| end * f64::from(nr) / f64::from(pieces.max(1)));
        let at =
            |nine: f64| (x.at(nine), y.within(nanos(latency, 1.0 - 10f64.powf(-nine)).log10()));
        line.line(places.map(at));
        let style = if reading.is_sound(point) { "line" } else { "line thin" };
        drawing.group(&class, &[(style, &line)]);
        labels.push((at(end), class, point.tasks.to_string()));
    }
    label(&mut drawing, labels);
    drawing.text("tick", (WIDTH, TOP - 6.0), Anchor::End, panel.case.axis().as_str());
    drawing.finish()
}

/// The points of a curve to draw, the first and the last among them.
fn drawn<'r>(
    panel: &Panel,
    reading: &'r CurveReading<'_>,
) -> impl Iterator<Item = (&'r Point, &'r PointLatency)> {
    let points = reading.measured.points().iter();
    let points: Vec<_> = points.filter_map(|p| Some((p, p.latency.as_ref()?))).collect();
    let most = if panel.curves.len() > 1 { MOST_LINES_OF_EACH } else { MOST_LINES };
    let step = points.len().saturating_sub(1).div_ceil(most - 1).max(1);
    let last = points.len().saturating_sub(1);
    let nrs = (0..points.len()).filter(move |nr| nr % step == 0 || *nr == last);
    nrs.map(|nr| points[nr]).collect::<Vec<_>>().into_iter()
}

/// A quantile in nanoseconds, at least one, because the axis is logarithmic.
fn nanos(latency: &PointLatency, quantile: f64) -> f64 {
    latency.times.quantile(quantile).max(1.0)
}

fn axes(drawing: &mut Drawing, x: &Scale, y: &Scale) {
    let mut grid = Path::default();
    drawing.open_group("value-axis");
    for value in log_ticks(y.domain) {
        grid.move_to(LEFT, y.at(value)).horizontal_to(RIGHT);
        drawing.plain_text((LEFT - 6.0, y.at(value) + 4.0), &round_time(value));
    }
    drawing.close_group();
    drawing.path("grid", &grid);
    let mut axis = Path::default();
    axis.move_to(LEFT, BOTTOM).horizontal_to(RIGHT);
    drawing.open_group("tasks-axis");
    for (share, text) in TICKS {
        let nine = -(1.0 - share).log10();
        if nine <= x.domain.1 {
            axis.move_to(x.at(nine), BOTTOM).vertical_to(BOTTOM + 4.0);
            drawing.plain_text((x.at(nine), BOTTOM + 16.0), text);
        }
    }
    drawing.close_group();
    drawing.path("axis", &axis);
    drawing.text("tick", (WIDTH, BOTTOM + 16.0), Anchor::End, "%");
}

/// `20 µs`, from the logarithm of nanoseconds.
fn round_time(log: f64) -> String {
    without_zeros(&time(10f64.powf(log) / 1e9))
}

/// Writes the task counts at the ends of the lines, moved down where they would overlap.
fn label(drawing: &mut Drawing, mut labels: Vec<((f64, f64), String, String)>) {
    labels.sort_by(|a, b| a.0.1.total_cmp(&b.0.1));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for ((x, y), class, text) in labels {
        let beside = |place: f64| {
            let overlaps = |(x1, y1): &&(f64, f64)| {
                (x1 - x).abs() < LABEL_WIDTH && (y1 - place).abs() < LABEL_GAP - ROUNDING
            };
            taken.iter().find(overlaps).copied()
        };
        let mut place = y;
        while let Some((_, other)) = beside(place) {
            place = other + LABEL_GAP;
        }
        taken.push((x, place));
        drawing.text(&format!("end {class}"), (x + 5.0, place + 4.0), Anchor::Start, &text);
    }
}

fn sentence(panel: &Panel, reading: &CurveReading) -> Option<String> {
    let describe = |(point, latency): (&Point, &PointLatency)| {
        let quantiles = &latency.quantiles;
        format!(
            "with {}, half of the times are at most {} and 99% at most {}; the longest is {}",
            reading.measured.place(point.tasks),
            time(quantiles.p50),
            time(quantiles.p99),
            time(quantiles.max)
        )
    };
    let all: Vec<_> = drawn(panel, reading).collect();
    let ends: Vec<String> = match &all[..] {
        [] => return None,
        [only] => vec![describe(*only)],
        [first, .., last] => vec![describe(*first), describe(*last)],
    };
    Some(ends.join("; ") + ".")
}
