//! Knees that could be noise, and knees that noise could hide.

use knee_host::number::{percent_beside, spread, tasks};
use knee_results::{Curve, PointId};
use knee_run::noise::NoiseFloors;

use crate::present::enumeration::{NAMED, and_more};

/// A point whose efficiency differs from the threshold by less than the noise floor.
struct Doubt {
    point: PointId,
    efficiency: f64,
    floor: f64,
    /// Whether the floor was measured for this point. Otherwise, it is the typical floor of others.
    is_own_floor: bool,
}

/// Warnings about knees that could be noise, and about points that could be a knee.
pub(super) fn warnings(curves: &[Curve], threshold: f64, floors: &NoiseFloors) -> Vec<String> {
    let mut doubts: Vec<Doubt> =
        curves.iter().filter_map(|curve| doubt(curve, threshold, floors)).collect();
    let depth = |d: &Doubt| (d.efficiency / threshold - 1.0).abs() / d.floor;
    doubts.sort_by(|a, b| depth(a).total_cmp(&depth(b)));
    let (below, above): (Vec<_>, Vec<_>) =
        doubts.into_iter().partition(|doubt| doubt.efficiency < threshold);
    [("possibly noise, not a knee", below), ("possibly a knee, hidden by noise", above)]
        .into_iter()
        .filter(|(_, doubts)| !doubts.is_empty())
        .map(|(what, doubts)| format!("{what}: {}", listed(&doubts, threshold)))
        .collect()
}

/// The doubtful points, most doubtful first, and what to do.
fn listed(doubts: &[Doubt], threshold: f64) -> String {
    let named = doubts.iter().take(NAMED).map(|doubt| {
        let PointId { case, mode, tasks: n } = &doubt.point;
        let efficiency = percent_beside(doubt.efficiency, threshold);
        let typically = if doubt.is_own_floor { "" } else { "typically " };
        let floor = spread(doubt.floor);
        format!("{case} {mode} ({efficiency} at {}, noise floor {typically}{floor})", tasks(*n))
    });
    let named: Vec<String> = named.collect();
    let advice = match doubts.iter().all(|doubt| doubt.is_own_floor) {
        true => "",
        false => {
            ". A typical noise floor comes from other testcases; to measure the floor of these \
             testcases: knee run --aa"
        }
    };
    format!(
        "{}{}; use more rounds to find out{advice}",
        named.join(", "),
        and_more(doubts.len().saturating_sub(NAMED))
    )
}

/// The first point of a curve, up to its knee, that noise could move across the threshold.
fn doubt(curve: &Curve, threshold: f64, floors: &NoiseFloors) -> Option<Doubt> {
    let knee = curve.knee(threshold).tasks();
    // The efficiency of one task is 100% by definition.
    let points = curve.points().iter().skip(1);
    points
        .take_while(|point| knee.is_none_or(|knee| point.tasks <= knee))
        .filter_map(|point| {
            let id = curve.id(point.tasks);
            Some(Doubt {
                efficiency: curve.scaling(point)?.efficiency,
                floor: floors.of(&id),
                is_own_floor: floors.measured(&id).is_some(),
                point: id,
            })
        })
        .find(|doubt| (doubt.efficiency / threshold - 1.0).abs() < doubt.floor)
}
