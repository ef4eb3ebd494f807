//! Remarks beside the numbers of a curve.

use knee_host::number::si;
use knee_results::{Curve, Knee, Mode, Point, Scaling};

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
    let processes = processes.at(last.tasks).filter(|point| processes.is_sound(point))?;
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

/// The rate of a point. `≥` marks a lower bound, and parentheses that of a server that shares its CPUs with the load.
pub(super) fn rate(point: &Point) -> String {
    let rate = si(point.rate);
    match (point.is_shared_with_load(), point.is_lower_bound()) {
        (true, _) => format!("({rate})"),
        (false, true) => format!("≥{rate}"),
        (false, false) => rate,
    }
}

/// `knee at 2 tasks, peak at 3 tasks`, or why they are unknown.
pub(super) fn knee_and_peak(curve: &Curve, threshold: f64) -> String {
    let count = |n| curve.axis.count(n);
    let knee = match curve.knee(threshold) {
        Knee::Unknown if curve.base().is_none() => {
            format!("unknown without a usable result at {}", count(1))
        }
        Knee::Unknown if curve.points().iter().any(|point| curve.is_bound(point)) => {
            "unknown, because a point that is only a lower bound could be the knee".to_owned()
        }
        Knee::Unknown => "unknown, because a disturbed point could be the knee".to_owned(),
        Knee::At(n) => format!("at {}", count(n)),
        Knee::NotReached => "not reached".to_owned(),
    };
    let peak =
        curve.peak().map_or("unknown".to_owned(), |peak| format!("at {}", count(peak.tasks)));
    format!("knee {knee}, peak {peak}")
}
