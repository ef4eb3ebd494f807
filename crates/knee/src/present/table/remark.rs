//! Remarks beside the numbers of a curve.

use knee_host::number::si;
use knee_results::{Curve, Mode, Point, Scaling};

use crate::present::view::View;
use crate::present::warnings::LEAST_CONFIDENCE;

/// Compares threads with processes at the same task count. `None` if the difference could be noise.
pub(super) fn against_processes(
    curves: &[Curve],
    curve: &Curve,
    last: &Point,
    view: &View<'_>,
) -> Option<String> {
    if curve.mode != Mode::Threads {
        return None;
    }
    let processes = curves.iter().find(|c| c.case == curve.case && c.mode == Mode::Processes)?;
    let processes = processes.at(last.tasks).filter(|point| point.is_sound())?;
    let ratio = last.rate / processes.rate;
    let floor = view.floors.map_or(0.0, |floors| floors.of(&curve.id(last.tasks)));
    // Intervals of a few rounds are too short to show a difference by not overlapping.
    let known = [last, processes].iter().all(|point| point.confidence > LEAST_CONFIDENCE);
    let apart = last.high < processes.low || processes.high < last.low;
    let differs = ratio.is_finite() && known && apart && (ratio - 1.0).abs() > floor;
    differs.then(|| format!("{ratio:.2}× of processes"))
}

/// `?` if the efficiency is implausible.
pub(super) fn doubtful(scaling: Option<Scaling>) -> &'static str {
    if scaling.is_some_and(|scaling| scaling.is_implausible()) { "?" } else { "" }
}

/// `!` if some samples are marked, `!!` if a point is disturbed.
pub(super) fn disturbed(points: &[Point]) -> &'static str {
    match (points.iter().any(|p| p.marked > 0), points.iter().any(|p| p.disturbed)) {
        (_, true) => "!!",
        (true, false) => "!",
        (false, false) => "",
    }
}

/// The rate of a point; `≥` marks a lower bound.
pub(super) fn rate(point: &Point) -> String {
    let bound = if point.is_lower_bound() { "≥" } else { "" };
    format!("{bound}{}", si(point.rate))
}
