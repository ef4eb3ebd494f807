//! The rounds at a single task count, which has no curve: one row per run.

use knee_host::number::{Prefix, si};
use maud::Markup;

use super::drawing::{Anchor, Drawing, Path};
use super::scale::{Scale, round_ticks, tick_decimals};
use super::{Panel, run_class, sentences};

const WIDTH: f64 = 320.0;
const LEFT: f64 = 12.0;
const RIGHT: f64 = 308.0;
const ROW: f64 = 34.0;
const TOP: f64 = 8.0;
/// Approximate number of ticks on the axis.
const TICKS: u32 = 4;

pub(crate) fn rounds(panel: &Panel) -> Markup {
    let readings = || panel.curves.iter().filter(|reading| !reading.measured.points().is_empty());
    let points = || panel.curves.iter().flat_map(|reading| reading.measured.points());
    let numbers = || points().flat_map(|p| p.rounds.iter().copied().chain([p.low, p.rate, p.high]));
    let least = numbers().fold(f64::INFINITY, f64::min);
    let most = numbers().fold(0.0, f64::max);
    let room = ((most - least) * 0.1).max(most * 0.005);
    let x = Scale::new((least - room, most + room), (LEFT, RIGHT));
    let bottom = TOP + readings().count() as f64 * ROW;
    let description = sentences(panel, |reading| {
        let point = reading.measured.last()?;
        Some(format!(
            "{} {}/s with {}, interval {} to {}.",
            si(point.rate),
            panel.case.info.unit,
            reading.measured.place(point.tasks),
            si(point.low),
            si(point.high)
        ))
    });
    let title = format!("Rounds of {}", panel.name());
    let mut drawing =
        Drawing::new("chart rounds-chart", (WIDTH, bottom + 24.0), &title, &description, "");
    axis(&mut drawing, &x, bottom, panel.prefix);
    for (row, reading) in readings().enumerate() {
        let y = TOP + (row as f64 + 0.5) * ROW;
        let run = reading.curve.run;
        let [mut dots, mut interval, mut median, mut disturbed] = [(); 4].map(|()| Path::default());
        for point in reading.measured.points() {
            for (i, &round) in point.rounds.iter().enumerate() {
                // Three heights, so that equal rounds do not hide one another.
                dots.dot(x.at(round), y + [5.0, 8.0, 11.0][i % 3]);
            }
            if point.disturbed {
                disturbed.disturbed(x.at(point.rate), y - 2.0);
            } else {
                interval.move_to(x.at(point.low), y - 2.0).horizontal_to(x.at(point.high));
                median.marker(run, x.at(point.rate), y - 2.0);
            }
        }
        let paths = [
            ("interval", &interval),
            ("rounds", &dots),
            ("median", &median),
            ("disturbed", &disturbed),
        ];
        drawing.group(&run_class(run), &paths);
    }
    drawing.finish()
}

fn axis(drawing: &mut Drawing, x: &Scale, bottom: f64, prefix: Prefix) {
    let (low, high) = x.domain;
    let decimals = tick_decimals(prefix.scale(high - low), TICKS);
    let mut grid = Path::default();
    for value in round_ticks(low, high, TICKS) {
        grid.move_to(x.at(value), TOP).vertical_to(bottom);
        let text = format!("{:.decimals$}", prefix.scale(value));
        drawing.text("tick", (x.at(value), bottom + 16.0), Anchor::Middle, &text);
    }
    drawing.path("grid", &grid);
}
