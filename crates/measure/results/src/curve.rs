//! Throughput against the task count: speed-up, efficiency, the knee.

use strum::{IntoStaticStr, VariantArray};

use crate::{CaseId, Mode, Point, PointId};

/// One testcase in one mode.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The testcase.
    pub case: CaseId,
    /// Processes or threads.
    pub mode: Mode,
    points: Vec<Point>,
}

/// A point relative to the point at one task; not available without that point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Throughput divided by that of one task.
    pub speedup: f64,
    /// Speed-up divided by the task count: 1 is perfect scaling.
    pub efficiency: f64,
}

/// Where a curve stops scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knee {
    /// The first task count whose efficiency is below the threshold.
    At(u32),
    /// No efficiency is below it.
    NotReached,
    /// Unknown, because there is no point at one task.
    Unknown,
}

impl Knee {
    /// The task count, if there is a knee.
    pub fn tasks(self) -> Option<u32> {
        match self {
            Self::At(tasks) => Some(tasks),
            Self::NotReached | Self::Unknown => None,
        }
    }
}

/// How a curve scales, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Verdict {
    /// Throughput at the highest task count is below the peak, beyond both intervals.
    Retrograde,
    /// There is a knee, but throughput does not fall.
    Contended,
    /// No knee up to the highest task count.
    Scales,
    /// There is no point at one task to compare with.
    Unknown,
    /// There is only one task count.
    OnePoint,
    /// Nothing was measured.
    Missing,
}

impl Verdict {
    /// All verdicts, the worst first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The word for it in JSON and in addresses.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

impl Curve {
    /// Creates a curve from points in any order, each task count at most once.
    pub fn new(case: CaseId, mode: Mode, mut points: Vec<Point>) -> Self {
        points.sort_by_key(|point| point.tasks);
        Self { case, mode, points }
    }

    /// The points alone, fewest tasks first.
    pub fn into_points(self) -> Vec<Point> {
        self.points
    }

    /// The points, fewest tasks first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Task count and rates of the rounds of each point, as input for a fit.
    pub fn rounds(&self) -> Vec<(u32, Vec<f64>)> {
        self.points.iter().map(|point| (point.tasks, point.rounds.clone())).collect()
    }

    /// The point at `tasks`.
    pub fn at(&self, tasks: u32) -> Option<&Point> {
        self.points.iter().find(|point| point.tasks == tasks)
    }

    /// The point with the most tasks.
    pub fn last(&self) -> Option<&Point> {
        self.points.last()
    }

    /// The identity of a point of this curve.
    pub fn id(&self, tasks: u32) -> PointId {
        PointId { case: self.case.clone(), mode: self.mode, tasks }
    }

    /// The point at one task, which speed-up and efficiency are relative to.
    pub fn base(&self) -> Option<&Point> {
        self.points.first().filter(|point| point.tasks == 1)
    }

    /// Speed-up and efficiency of a point of this curve. They are 0 if the rate at one task is 0.
    pub fn scaling(&self, point: &Point) -> Option<Scaling> {
        let one = self.base()?.rate;
        let speedup = if one > 0.0 { point.rate / one } else { 0.0 };
        Some(Scaling { speedup, efficiency: speedup / f64::from(point.tasks) })
    }

    /// The efficiency at the most tasks, if there is more than one task count.
    pub fn last_efficiency(&self) -> Option<f64> {
        match self.points() {
            [_, .., last] => Some(self.scaling(last)?.efficiency),
            _ => None,
        }
    }

    /// The knee at the `threshold` of efficiency (0.8 is 80%).
    pub fn knee(&self, threshold: f64) -> Knee {
        if self.base().is_none() {
            return Knee::Unknown;
        }
        let is_below = |point: &&Point| {
            self.scaling(point).is_some_and(|scaling| scaling.efficiency < threshold)
        };
        self.points.iter().find(is_below).map_or(Knee::NotReached, |point| Knee::At(point.tasks))
    }

    /// The point with the highest throughput; among equals, the one with the fewest tasks.
    pub fn peak(&self) -> Option<&Point> {
        self.points.iter().reduce(|best, point| if point.rate > best.rate { point } else { best })
    }

    /// How it scales, with its knee at the `threshold` of efficiency.
    pub fn verdict(&self, threshold: f64) -> Verdict {
        match (self.points(), self.peak()) {
            ([], _) | (_, None) => Verdict::Missing,
            ([_], _) => Verdict::OnePoint,
            ([.., last], Some(peak)) if last.high < peak.low => Verdict::Retrograde,
            _ => match self.knee(threshold) {
                Knee::At(_) => Verdict::Contended,
                Knee::NotReached => Verdict::Scales,
                Knee::Unknown => Verdict::Unknown,
            },
        }
    }

    /// Whether every sample of one of its points is marked.
    pub fn is_disturbed(&self) -> bool {
        self.points.iter().any(Point::is_disturbed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(rates: &[(u32, f64)]) -> Curve {
        let point = |&(tasks, rate): &(u32, f64)| {
            Point::new(tasks, vec![rate * 0.99, rate, rate * 1.01]).unwrap()
        };
        Curve::new(CaseId::new("a"), Mode::Threads, rates.iter().map(point).collect())
    }

    #[test]
    fn a_perfect_curve_has_no_knee() {
        let curve = curve(&[(1, 10.0), (2, 20.0), (8, 80.0)]);
        assert_eq!(curve.knee(0.8), Knee::NotReached);
        assert_eq!(curve.peak().unwrap().tasks, 8);
        assert_eq!(curve.scaling(&curve.points()[2]).unwrap().speedup, 8.0);
    }

    #[test]
    fn the_knee_is_the_first_inefficient_point_and_the_peak_may_lie_before_it() {
        let curve = curve(&[(4, 90.0), (1, 100.0), (2, 150.0)]);
        assert_eq!(curve.knee(0.8), Knee::At(2));
        assert_eq!(curve.peak().unwrap().tasks, 2);
    }

    #[test]
    fn without_a_point_at_one_task_there_is_no_efficiency_knee_or_verdict() {
        let curve = curve(&[(2, 20.0), (4, 30.0)]);
        assert!(curve.points().iter().all(|point| curve.scaling(point).is_none()));
        assert_eq!((curve.knee(0.8), curve.verdict(0.8)), (Knee::Unknown, Verdict::Unknown));
        assert_eq!(curve.last_efficiency(), None);
    }

    #[test]
    fn a_dead_testcase_has_efficiency_zero() {
        let curve = curve(&[(1, 0.0), (2, 0.0)]);
        assert_eq!(curve.scaling(&curve.points()[1]).unwrap().efficiency, 0.0);
    }

    #[test]
    fn a_curve_that_falls_beyond_its_intervals_loses_throughput() {
        let verdict = |rates: &[(u32, f64)]| curve(rates).verdict(0.8);
        assert_eq!(verdict(&[(1, 10.0), (2, 19.0), (4, 15.0)]), Verdict::Retrograde);
        assert_eq!(verdict(&[(2, 19.0), (4, 15.0)]), Verdict::Retrograde);
        assert_eq!(verdict(&[(1, 10.0), (2, 19.0), (4, 18.9)]), Verdict::Contended);
        assert_eq!(verdict(&[(1, 10.0), (2, 19.0), (4, 39.0)]), Verdict::Scales);
        assert_eq!(verdict(&[(4, 39.0)]), Verdict::OnePoint);
        assert_eq!(verdict(&[]), Verdict::Missing);
    }
}
