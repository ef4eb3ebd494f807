//! Throughput against tasks: the rounds as dots, medians with intervals, perfect scaling, and the
//! fit.

use knee_host::number::{percent, si};
use knee_stats::usl::Fit;
use maud::Markup;

use super::drawing::{Anchor, Path};
use super::frame::{BOTTOM, Frame, TOP};
use super::{Panel, cpu, run_class, sentences};
use crate::reading::CurveReading;
use crate::verdict::Labelled as _;

/// With more points than this, markers would overlap; a band replaces them.
pub(super) const MARKED_POINTS: usize = 40;
/// With more rounds than this, dots would show no more than the interval, but would take more
/// bytes.
const DRAWN_ROUNDS: usize = 400;
/// Number of segments of a curved line, enough to look smooth.
const LINE_PIECES: u32 = 32;
/// Distance of rounds from their median, which would hide them, if the next point leaves room.
const BESIDE: f64 = 5.5;
/// End of the axis, relative to the greatest rate.
const HEADROOM: f64 = 1.06;

/// Whether there are few enough rounds to draw each one.
pub(crate) fn draws_rounds(reading: &CurveReading) -> bool {
    let points = reading.measured.points();
    points.len() <= MARKED_POINTS
        && points.iter().map(|point| point.rounds.len()).sum::<usize>() <= DRAWN_ROUNDS
}

pub(crate) fn throughput(panel: &Panel) -> Markup {
    let max = panel.max_rate * HEADROOM;
    let y = (0.0, if max > 0.0 { max } else { 1.0 });
    let description = sentences(panel, |reading| sentence(panel, reading));
    let height = BOTTOM + cpu::height(panel);
    let mut frame = Frame::new(panel, height, y, "Throughput", &description);
    frame.grid_of_rates(panel.prefix, "");
    frame.boundaries(panel);
    for reading in panel.curves {
        frame.drawing.open_group(&run_class(reading.curve.run));
        ideal(&mut frame, reading);
        if let Ok(law) = &reading.curve.fit {
            fit(&mut frame, law, reading);
        }
        knee(&mut frame, reading);
        frame.drawing.close_group();
    }
    for (i, reading) in panel.curves.iter().enumerate() {
        measured(&mut frame, reading, (i, panel.curves.len()));
        for point in reading.disturbed() {
            let y = frame.y.within(point.rate);
            frame.disturbed(panel, (i, point.tasks), y);
        }
    }
    frame.gaps(panel);
    cpu::draw(&mut frame, panel);
    frame.drawing.finish()
}

fn sentence(panel: &Panel, reading: &CurveReading) -> Option<String> {
    let (first, last) = (reading.measured.sound().next()?, reading.measured.last()?);
    let unit = &panel.case.info.unit;
    let at = |n| reading.measured.place(n);
    let mut text = format!("{} {unit}/s with {}", si(first.rate), at(first.tasks));
    if last.tasks != first.tasks {
        text += &format!(", {} with {}", si(last.rate), at(last.tasks));
    }
    if let Some(peak) = reading.measured.peak()
        && peak.tasks != last.tasks
        && peak.tasks != first.tasks
    {
        text += &format!(", most with {}: {}", at(peak.tasks), si(peak.rate));
    }
    if let Some(knee) = reading.knee {
        let below = percent(panel.reading.page.knee_efficiency);
        text += &format!("; the knee, where efficiency falls below {below}, is at {}", at(knee));
    }
    Some(format!("{text}; verdict: {}.", reading.verdict.label().words))
}

/// The line of perfect scaling from the sound point with the fewest tasks. It ends where there are
/// more tasks than CPUs, or at the end of an axis.
fn ideal(frame: &mut Frame, reading: &CurveReading) {
    let Some(first) = reading.measured.sound().next() else { return };
    let per_task = first.rate / f64::from(first.tasks);
    if per_task <= 0.0 {
        return;
    }
    let from = f64::from(first.tasks);
    let to = f64::from(reading.highest_with_cpus()).min(frame.y.domain.1 / per_task);
    let mut path = Path::default();
    // The line is straight only on a linear axis.
    let pieces = if frame.x.is_logarithmic() { LINE_PIECES } else { 1 };
    let counts = (0..=pieces).map(|i| from + (to - from) * f64::from(i) / f64::from(pieces));
    path.line(counts.map(|n| (frame.x.at(n), frame.y.within(n * per_task))));
    frame.drawing.path("ideal", &path);
}

fn fit(frame: &mut Frame, law: &Fit, reading: &CurveReading) {
    let (Some(first), Some(last)) = (reading.measured.sound().next(), reading.measured.last())
    else {
        return;
    };
    let (from, to) = (f64::from(first.tasks), f64::from(last.tasks));
    let top = frame.y.domain.1;
    let mut path = Path::default();
    path.line(
        (0..=LINE_PIECES)
            .map(|i| from + (to - from) * f64::from(i) / f64::from(LINE_PIECES))
            .map(|n| (n, law.model.throughput(n)))
            .filter(|(_, rate)| rate.is_finite() && (0.0..=top).contains(rate))
            .map(|(n, rate)| (frame.x.at(n), frame.y.at(rate))),
    );
    frame.drawing.path(if law.is_prediction { "fit" } else { "fit guess" }, &path);
    let Some(peak) = law.peak.filter(|peak| law.is_prediction && (from..=to).contains(&peak.value))
    else {
        return;
    };
    let label = TOP - 6.0;
    let x = frame.x.at(peak.value);
    let mut interval = Path::default();
    let (low, high) = peak.interval.unwrap_or((peak.value, peak.value));
    interval.move_to(frame.x.within(low), TOP).horizontal_to(frame.x.within(high));
    interval.move_to(x, TOP - 3.0).vertical_to(TOP + 3.0);
    frame.drawing.path("peak", &interval);
    if reading.curve.run == 0 {
        let text = format!("peak {:.0}", peak.value);
        frame.drawing.text("note", (x, label), Anchor::Middle, &text);
    }
}

fn knee(frame: &mut Frame, reading: &CurveReading) {
    let Some(knee) = reading.knee else { return };
    let Some(point) = reading.measured.at(knee) else { return };
    let x = frame.x.at(f64::from(knee));
    let mut path = Path::default();
    path.move_to(x, BOTTOM).vertical_to(frame.y.within(point.rate));
    frame.drawing.path("knee", &path);
    let y = BOTTOM - 5.0 - 13.0 * (reading.curve.run as f64);
    frame.drawing.text("note", (x + 4.0, y), Anchor::Start, &format!("knee {knee}"));
}

fn measured(frame: &mut Frame, reading: &CurveReading, (i, runs): (usize, usize)) {
    let sparse = reading.measured.points().len() <= MARKED_POINTS;
    let runs = if sparse { runs } else { 1 };
    let i = if sparse { i } else { 0 };
    let mut line = Path::default();
    let mut band = Path::default();
    for piece in reading.unbroken() {
        let x = |frame: &Frame, n| frame.x_of_run(n, i, runs);
        line.line(piece.iter().map(|p| (x(frame, p.tasks), frame.y.at(p.rate))));
        if !sparse {
            let above = piece.iter().map(|p| (x(frame, p.tasks), frame.y.within(p.high)));
            let below = piece.iter().rev().map(|p| (x(frame, p.tasks), frame.y.within(p.low)));
            band.line(above.chain(below)).close();
        }
    }
    let mut beyond = Path::default();
    let mut beyond_marks = Path::default();
    for piece in reading.oversubscribed() {
        beyond.line(piece.iter().map(|p| (frame.x_of_run(p.tasks, i, runs), frame.y.at(p.rate))));
        for point in piece.iter().filter(|point| sparse && point.oversubscribed) {
            let at = (frame.x_of_run(point.tasks, i, runs), frame.y.at(point.rate));
            beyond_marks.marker(reading.curve.run, at.0, at.1);
        }
    }
    let mut rounds = Path::default();
    let mut intervals = Path::default();
    for (p, point) in reading.measured.points().iter().enumerate().filter(|_| sparse) {
        let x = frame.x_of_run(point.tasks, i, runs);
        if !point.disturbed {
            intervals.move_to(x, frame.y.within(point.low)).vertical_to(frame.y.within(point.high));
        }
        if draws_rounds(reading) {
            let next = reading.measured.points().get(p + 1);
            let room = next.map_or(BESIDE, |next| frame.x_of_run(next.tasks, i, runs) - x);
            for &round in &point.rounds {
                rounds.dot(x + BESIDE.min(room * 0.4), frame.y.within(round));
            }
        }
    }
    let line_class = if sparse { "line marked" } else { "line" };
    let paths = [
        ("shared-cpus", &beyond),
        ("band", &band),
        ("rounds", &rounds),
        ("interval", &intervals),
        ("median shared-cpus-point", &beyond_marks),
        (line_class, &line),
    ];
    frame.drawing.group(&run_class(reading.curve.run), &paths);
}
