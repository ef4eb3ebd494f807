//! Knees that could be noise, and knees that noise could hide.

use std::fmt;

use knee_host::number::{percent_beside, spread, tasks};
use knee_results::{Curve, PointId};
use knee_run::noise::NoiseFloors;

use crate::present::enumeration::{NAMED, and_more};

/// A point whose efficiency differs from the threshold by no more than noise.
#[derive(Debug, Clone)]
pub(crate) struct Doubt {
    point: PointId,
    efficiency: f64,
    threshold: f64,
    floor: f64,
    /// Whether the floor is that of this point, not the typical floor of others.
    own_floor: bool,
}

/// Doubts of one kind, the greatest first.
#[derive(Debug, Clone)]
pub(crate) struct Doubts(Vec<Doubt>);

impl fmt::Display for Doubts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, doubt) in self.0.iter().take(NAMED).enumerate() {
            let Doubt { point, efficiency, threshold, floor, own_floor } = doubt;
            write!(
                f,
                "{}{} {} ({} at {}, noise floor {}{})",
                if i > 0 { ", " } else { "" },
                point.case,
                point.mode,
                percent_beside(*efficiency, *threshold),
                tasks(point.tasks),
                if *own_floor { "" } else { "typically " },
                spread(*floor)
            )?;
        }
        let more = and_more(self.0.len().saturating_sub(NAMED));
        write!(f, "{more}; use more rounds to find out")?;
        if !self.0.iter().all(|doubt| doubt.own_floor) {
            f.write_str(
                ". A typical floor comes from other testcases; measure these testcases with --aa",
            )?;
        }
        Ok(())
    }
}

/// The doubtful knees, and the points that could be a knee.
pub(super) fn doubts(
    curves: &[Curve],
    threshold: f64,
    floors: &NoiseFloors,
) -> (Option<Doubts>, Option<Doubts>) {
    let mut doubts: Vec<Doubt> =
        curves.iter().filter_map(|curve| doubt(curve, threshold, floors)).collect();
    let depth = |d: &Doubt| (d.efficiency / threshold - 1.0).abs() / d.floor;
    doubts.sort_by(|a, b| depth(a).total_cmp(&depth(b)));
    let (below, above): (Vec<_>, Vec<_>) =
        doubts.into_iter().partition(|doubt| doubt.efficiency < threshold);
    let some = |doubts: Vec<Doubt>| (!doubts.is_empty()).then_some(Doubts(doubts));
    (some(below), some(above))
}

/// The first point of a curve, up to its knee, that noise could move across the threshold.
fn doubt(curve: &Curve, threshold: f64, floors: &NoiseFloors) -> Option<Doubt> {
    let knee = curve.knee(threshold).tasks();
    // One task is efficient by definition.
    let points = curve.points().iter().skip(1);
    points
        .take_while(|point| knee.is_none_or(|knee| point.tasks <= knee))
        .filter_map(|point| {
            let id = curve.id(point.tasks);
            Some(Doubt {
                efficiency: curve.scaling(point)?.efficiency,
                threshold,
                floor: floors.of(&id),
                own_floor: floors.measured(&id).is_some(),
                point: id,
            })
        })
        .find(|doubt| (doubt.efficiency / threshold - 1.0).abs() < doubt.floor)
}
