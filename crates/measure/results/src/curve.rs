//! Throughput against the task count, or against the number of connections: speed-up, efficiency, the knee.

use std::collections::BTreeMap;

use crate::{Axis, CaseId, CurveVerdict, Mode, Point, PointId};

/// Highest efficiency that is plausible. More cache for each task and coarser sharing of locks
/// explain a few percent above 1.
pub const MAX_PLAUSIBLE_EFFICIENCY: f64 = 1.15;

/// One testcase in one mode.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// The testcase.
    pub case: CaseId,
    /// Processes or threads.
    pub mode: Mode,
    /// What grows along the curve.
    pub axis: Axis,
    points: Vec<Point>,
}

/// A [sound](Curve::is_sound) point relative to the point at one task.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Throughput divided by that of one task.
    pub speedup: f64,
    /// Speed-up divided by the task count: 1 is perfect scaling.
    pub efficiency: f64,
    axis: Axis,
}

impl Scaling {
    /// Whether the efficiency is higher than superlinear speed-up explains: more likely, the point at
    /// one task was slowed down by its placement, a low CPU frequency or a warm-up effect. More connections
    /// save a server wake-ups, so over connections any efficiency is plausible.
    pub fn is_implausible(&self) -> bool {
        self.axis == Axis::Tasks && self.efficiency > MAX_PLAUSIBLE_EFFICIENCY
    }
}

/// Where a curve stops scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Knee {
    /// The first task count whose efficiency is below the threshold.
    At(u32),
    /// No efficiency is below it.
    NotReached,
    /// Unknown, because there is no sound point at one task, or because a point that is disturbed or only
    /// a lower bound could be the knee.
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

impl Curve {
    /// Creates a curve from points in any order, each task count at most once.
    pub fn new(case: CaseId, mode: Mode, mut points: Vec<Point>) -> Self {
        points.sort_by_key(|point| point.tasks);
        Self { case, mode, axis: Axis::Tasks, points }
    }

    /// The curves over connections: for each server that `curves` contain with several numbers of
    /// connections, one at each task count.
    pub fn over_connections(curves: &[Self]) -> Vec<Self> {
        let mut sweeps: BTreeMap<(CaseId, Mode, u32), Vec<Point>> = BTreeMap::new();
        for curve in curves {
            let Some((case, connections)) = curve.case.split_connections() else { continue };
            for point in &curve.points {
                let sweep = sweeps.entry((case.clone(), curve.mode, point.tasks)).or_default();
                sweep.push(point.with_connections(connections));
            }
        }
        let sweeps = sweeps.into_iter().filter(|(_, points)| points.len() > 1);
        sweeps
            .map(|((case, mode, tasks), points)| {
                Self::new(case, mode, points).along(Axis::Connections { tasks })
            })
            .collect()
    }

    /// Whether each point of this curve is also on one of `sweeps`, which are curves over connections.
    pub fn is_on(&self, sweeps: &[Self]) -> bool {
        self.case.connections().is_some()
            && self.points.iter().all(|point| self.on_sweep(point, sweeps).is_some())
    }

    /// A point of this curve as a point of one of `sweeps`, which are curves over connections.
    pub fn on_sweep<'s>(&self, point: &Point, sweeps: &'s [Self]) -> Option<(&'s Self, &'s Point)> {
        let (case, connections) = self.case.split_connections()?;
        let of = (&case, self.mode, Axis::Connections { tasks: point.tasks });
        let mut along = sweeps.iter().filter(|sweep| (&sweep.case, sweep.mode, sweep.axis) == of);
        along.find_map(|sweep| Some((sweep, sweep.at(connections)?)))
    }

    /// The same points as a curve along `axis`.
    pub fn along(self, axis: Axis) -> Self {
        Self { axis, ..self }
    }

    /// The points alone, fewest tasks first.
    pub fn into_points(self) -> Vec<Point> {
        self.points
    }

    /// The points, fewest tasks first.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// Task count and rates of the rounds of each sound point, as input for a fit.
    pub fn rounds(&self) -> Vec<(u32, Vec<f64>)> {
        self.sound().map(|point| (point.tasks, point.rounds.clone())).collect()
    }

    /// The point at `tasks`.
    pub fn at(&self, tasks: u32) -> Option<&Point> {
        self.points.iter().find(|point| point.tasks == tasks)
    }

    /// Whether a point of this curve shows how throughput grows along the axis: it is undisturbed, each task
    /// has a CPU, and its rate is not [only a lower bound](Self::is_bound).
    pub fn is_sound(&self, point: &Point) -> bool {
        !point.disturbed && !point.shares_cpus() && !self.is_bound(point)
    }

    /// Whether the rate of a point of this curve is only a lower bound, because a server left its CPUs idle.
    ///
    /// Few connections leave a server idle. A curve over connections shows just this, so such a point counts,
    /// unless the load was full: then its rate is a limit of the load.
    pub fn is_bound(&self, point: &Point) -> bool {
        match self.axis {
            Axis::Tasks => point.is_lower_bound(),
            Axis::Connections { .. } => point.is_limited_by_load(),
        }
    }

    /// The [sound](Curve::is_sound) points, fewest tasks first. Knee, peak, efficiency and verdict depend
    /// on them alone.
    pub fn sound(&self) -> impl DoubleEndedIterator<Item = &Point> {
        self.points.iter().filter(|point| self.is_sound(point))
    }

    /// The sound point with the most tasks.
    pub fn last(&self) -> Option<&Point> {
        self.sound().next_back()
    }

    /// The identity of a point of this curve.
    pub fn id(&self, n: u32) -> PointId {
        let (case, mode) = (self.case.clone(), self.mode);
        match self.axis {
            Axis::Tasks => PointId { case, mode, tasks: n },
            Axis::Connections { tasks } => PointId { case: case.with_connections(n), mode, tasks },
        }
    }

    /// The position of a point in words: `16 threads`, `64 connections`.
    pub fn place(&self, n: u32) -> String {
        match self.axis {
            Axis::Tasks => self.mode.tasks(n),
            Axis::Connections { .. } => self.axis.count(n),
        }
    }

    /// The sound point at one task, which speed-up and efficiency are relative to.
    pub fn base(&self) -> Option<&Point> {
        self.points.first().filter(|point| point.tasks == 1 && self.is_sound(point))
    }

    /// Speed-up and efficiency of a point of this curve. They are 0 if the rate at one task is 0.
    /// `None` if the point or the one at one task is not sound.
    pub fn scaling(&self, point: &Point) -> Option<Scaling> {
        let one = self.base()?.rate;
        if !self.is_sound(point) {
            return None;
        }
        let speedup = if one > 0.0 { point.rate / one } else { 0.0 };
        let efficiency = speedup / f64::from(point.tasks);
        Some(Scaling { speedup, efficiency, axis: self.axis })
    }

    /// The efficiency at the most tasks, if there is more than one sound point.
    pub fn last_efficiency(&self) -> Option<f64> {
        let last = self.last().filter(|last| last.tasks > 1)?;
        Some(self.scaling(last)?.efficiency)
    }

    /// The knee at the `threshold` of efficiency (0.8 is 80%).
    pub fn knee(&self, threshold: f64) -> Knee {
        if self.base().is_none() {
            return Knee::Unknown;
        }
        for point in self.points.iter().filter(|point| !point.shares_cpus()) {
            match self.scaling(point) {
                // It could be the knee.
                None => return Knee::Unknown,
                Some(scaling) if scaling.efficiency < threshold => return Knee::At(point.tasks),
                Some(_) => {}
            }
        }
        Knee::NotReached
    }

    /// The sound point with the highest throughput; among equals, the one with the fewest tasks.
    /// `None` if there is no other sound point to compare it with.
    pub fn peak(&self) -> Option<&Point> {
        let peak =
            self.sound().reduce(|best, point| if point.rate > best.rate { point } else { best });
        peak.filter(|_| self.sound().count() > 1)
    }

    /// The points whose efficiency is implausible.
    pub fn implausible(&self) -> impl Iterator<Item = (&Point, Scaling)> {
        let scalings = self.sound().filter_map(|point| Some((point, self.scaling(point)?)));
        scalings.filter(|(_, scaling)| scaling.is_implausible())
    }

    /// How it scales, with its knee at the `threshold` of efficiency.
    pub fn verdict(&self, threshold: f64) -> CurveVerdict {
        match (self.last(), self.peak()) {
            _ if self.points.is_empty() => CurveVerdict::Missing,
            _ if self.is_disturbed() => CurveVerdict::Disturbed,
            (None, _) => CurveVerdict::Unknown,
            (_, None) => CurveVerdict::OnePoint,
            (Some(last), Some(peak)) if last.high < peak.low => CurveVerdict::Retrograde,
            _ => match self.knee(threshold) {
                Knee::At(_) => CurveVerdict::Contended,
                // A point at one task that is too slow can hide a knee, but not cause one.
                Knee::NotReached if self.implausible().next().is_some() => {
                    CurveVerdict::Implausible
                }
                Knee::NotReached => CurveVerdict::Scales,
                Knee::Unknown => CurveVerdict::Unknown,
            },
        }
    }

    /// Whether a point at which each task has a CPU is disturbed. It could be the knee or the peak, so
    /// the curve counts in no summary.
    pub fn is_disturbed(&self) -> bool {
        self.points.iter().any(|point| point.disturbed && !point.oversubscribed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Served;

    fn curve(rates: &[(u32, f64)]) -> Curve {
        let point = |&(tasks, rate): &(u32, f64)| {
            Point::new(tasks, vec![rate * 0.99, rate, rate * 1.01]).unwrap()
        };
        Curve::new(CaseId::new("a"), Mode::Threads, rates.iter().map(point).collect())
    }

    fn verdict(rates: &[(u32, f64)]) -> CurveVerdict {
        curve(rates).verdict(0.8)
    }

    fn verdict_with(rates: &[(u32, f64)], change: impl Fn(&mut Point)) -> CurveVerdict {
        let mut points = curve(rates).into_points();
        points.iter_mut().for_each(change);
        Curve::new(CaseId::new("a"), Mode::Threads, points).verdict(0.8)
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
        assert_eq!((curve.knee(0.8), curve.verdict(0.8)), (Knee::Unknown, CurveVerdict::Unknown));
        assert_eq!(curve.last_efficiency(), None);
    }

    #[test]
    fn disturbed_and_oversubscribed_points_give_no_knee_peak_or_efficiency() {
        let points = curve(&[(1, 10.0), (2, 19.0), (4, 5.0), (8, 60.0)]).into_points();
        let with = |change: fn(&mut Point)| {
            let mut points = points.clone();
            points[2..].iter_mut().for_each(change);
            Curve::new(CaseId::new("a"), Mode::Threads, points)
        };
        let disturbed = with(|p| p.disturbed = true);
        let oversubscribed = with(|p| p.oversubscribed = true);
        for curve in [&disturbed, &oversubscribed] {
            assert_eq!((curve.peak().unwrap().tasks, curve.last().unwrap().tasks), (2, 2));
            assert_eq!(curve.last_efficiency(), Some(0.95));
            assert_eq!(curve.scaling(&curve.points()[3]), None);
        }
        // A disturbed point could be the knee.
        assert_eq!(
            (disturbed.knee(0.8), disturbed.verdict(0.8)),
            (Knee::Unknown, CurveVerdict::Disturbed)
        );
        assert_eq!(disturbed.knee(0.96), Knee::At(2));
        assert_eq!(
            (oversubscribed.knee(0.8), oversubscribed.verdict(0.8)),
            (Knee::NotReached, CurveVerdict::Scales)
        );
        let mut points = points;
        points[0].disturbed = true;
        let curve = Curve::new(CaseId::new("a"), Mode::Threads, points);
        assert_eq!((curve.knee(0.8), curve.base()), (Knee::Unknown, None));
    }

    #[test]
    fn a_server_that_is_not_busy_or_shares_its_cpus_gives_no_knee_peak_or_efficiency() {
        let served = |server_busy, shared| {
            Some(Served { server_busy, load_busy: 1.0, cpu_per_request: 1e-5, shared })
        };
        let with = |last: Option<Served>| {
            let mut points = curve(&[(1, 10.0), (2, 19.0), (4, 5.0)]).into_points();
            points.iter_mut().for_each(|point| point.server = served(0.97, false));
            points[2].server = last;
            Curve::new(CaseId::new("a"), Mode::Processes, points)
        };
        let (busy, idle, shared) =
            (with(served(0.95, false)), with(served(0.94, false)), with(served(1.0, true)));
        assert_eq!((busy.knee(0.8), busy.rounds().len()), (Knee::At(4), 3));
        // A lower bound could be the knee.
        assert_eq!((idle.knee(0.8), idle.rounds().len()), (Knee::Unknown, 2));
        assert!(idle.points()[2].is_lower_bound() && idle.scaling(&idle.points()[2]).is_none());
        assert_eq!((shared.knee(0.8), shared.rounds().len()), (Knee::NotReached, 2));
    }

    /// A server with these numbers of connections, rates, and busy shares of the server and the load.
    fn sweep(rates: &[(u32, f64, [f64; 2])]) -> Vec<Curve> {
        let curve = |&(connections, rate, [server_busy, load_busy]): &(u32, f64, [f64; 2])| {
            let mut point = Point::new(2, vec![rate * 0.99, rate, rate * 1.01]).unwrap();
            let cpu_per_request = 1e-5;
            point.server = Some(Served { server_busy, load_busy, cpu_per_request, shared: false });
            Curve::new(CaseId::new("s").with_connections(connections), Mode::Processes, vec![point])
        };
        rates.iter().map(curve).collect()
    }

    #[test]
    fn a_sweep_has_a_curve_over_connections_with_a_peak_and_a_knee() {
        let idle = [0.3, 0.4];
        let mut curves = sweep(&[(8, 90.0, [1.0, 0.5]), (1, 10.0, idle), (64, 50.0, idle)]);
        curves.push(curve(&[(1, 1.0), (2, 2.0)]));
        let over = Curve::over_connections(&curves);
        let [over] = &over[..] else { panic!("{over:?}") };
        assert_eq!(
            (over.case.to_string().as_str(), over.axis),
            ("s", Axis::Connections { tasks: 2 })
        );
        assert_eq!(over.points().iter().map(|p| p.tasks).collect::<Vec<_>>(), [1, 8, 64]);
        // Few connections leave a server idle, and so do many that wait for each other.
        assert_eq!((over.knee(0.8), over.peak().unwrap().tasks), (Knee::At(64), 8));
        assert_eq!(over.verdict(0.8), CurveVerdict::Retrograde);
        assert_eq!(over.id(64).to_string(), "s@connections=64 processes ×2");
        assert_eq!(over.place(1), "1 connection");
    }

    #[test]
    fn the_limit_of_a_full_load_is_no_peak_over_connections() {
        let curves =
            sweep(&[(1, 10.0, [0.5, 0.5]), (8, 70.0, [0.99, 0.8]), (64, 71.0, [0.9, 0.99])]);
        let over = &Curve::over_connections(&curves)[0];
        assert_eq!((over.knee(0.8), over.peak().unwrap().tasks), (Knee::Unknown, 8));
    }

    #[test]
    fn one_number_of_connections_is_no_curve() {
        assert!(Curve::over_connections(&sweep(&[(8, 10.0, [1.0, 0.5])])).is_empty());
    }

    #[test]
    fn any_efficiency_is_plausible_over_connections() {
        let busy = [1.0, 0.5];
        let over = &Curve::over_connections(&sweep(&[(1, 10.0, busy), (8, 160.0, busy)]))[0];
        assert_eq!(over.verdict(0.8), CurveVerdict::Scales);
    }

    #[test]
    fn a_disturbed_point_with_more_tasks_than_cpus_does_not_exclude_the_curve() {
        let with = |change: fn(&mut Point)| {
            let mut points = curve(&[(1, 10.0), (2, 19.0), (4, 5.0)]).into_points();
            change(&mut points[2]);
            Curve::new(CaseId::new("a"), Mode::Threads, points)
        };
        assert!(with(|p| p.disturbed = true).is_disturbed());
        assert!(!with(|p| (p.disturbed, p.oversubscribed) = (true, true)).is_disturbed());
    }

    #[test]
    fn an_efficiency_of_more_than_115_percent_is_implausible() {
        let curve = curve(&[(1, 10.0), (2, 22.0), (4, 48.0)]);
        let implausible = |nr: usize| curve.scaling(&curve.points()[nr]).unwrap().is_implausible();
        assert_eq!([0, 1, 2].map(implausible), [false, false, true]);
    }

    #[test]
    fn a_dead_testcase_has_efficiency_zero() {
        let curve = curve(&[(1, 0.0), (2, 0.0)]);
        assert_eq!(curve.scaling(&curve.points()[1]).unwrap().efficiency, 0.0);
    }

    #[test]
    fn a_curve_that_falls_beyond_its_intervals_loses_throughput() {
        assert_eq!(verdict(&[(1, 10.0), (2, 19.0), (4, 15.0)]), CurveVerdict::Retrograde);
        assert_eq!(verdict(&[(2, 19.0), (4, 15.0)]), CurveVerdict::Retrograde);
        assert_eq!(verdict(&[(1, 10.0), (2, 19.0), (4, 18.9)]), CurveVerdict::Contended);
        assert_eq!(verdict(&[(1, 10.0), (2, 19.0), (4, 39.0)]), CurveVerdict::Scales);
        assert_eq!(verdict(&[(4, 39.0)]), CurveVerdict::OnePoint);
        assert_eq!(verdict(&[]), CurveVerdict::Missing);
    }
    #[test]
    fn nothing_is_concluded_from_a_disturbed_curve() {
        let loss = [(1, 10.0), (2, 5.0), (4, 1.0)];
        assert_eq!(verdict(&loss), CurveVerdict::Retrograde);
        let disturbed = verdict_with(&loss, |point| point.disturbed = point.tasks == 2);
        assert_eq!(disturbed, CurveVerdict::Disturbed);
        assert!(!disturbed.counts() && CurveVerdict::Scales.counts());
    }

    #[test]
    fn a_curve_of_more_tasks_than_cpus_is_judged_up_to_the_cpus() {
        let rates = [(1, 10.0), (2, 20.0), (4, 5.0)];
        let on = |cpus| verdict_with(&rates, |point| point.oversubscribed = point.tasks > cpus);
        assert_eq!([on(2), on(1)], [CurveVerdict::Scales, CurveVerdict::OnePoint]);
        assert_eq!(on(0), CurveVerdict::Unknown);
    }

    #[test]
    fn an_implausible_efficiency_does_not_scale_but_excuses_no_loss() {
        assert_eq!(verdict(&[(1, 10.0), (2, 30.0)]), CurveVerdict::Implausible);
        assert_eq!(verdict(&[(1, 10.0), (2, 30.0), (4, 9.0)]), CurveVerdict::Retrograde);
    }

    #[test]
    fn one_sound_point_is_no_peak() {
        let points = |disturbed| {
            let mut points = curve(&[(1, 10.0), (2, 19.0)]).into_points();
            points[1].disturbed = disturbed;
            Curve::new(CaseId::new("a"), Mode::Threads, points)
        };
        assert_eq!(points(false).peak().map(|point| point.tasks), Some(2));
        assert_eq!(points(true).peak(), None);
    }
}
