//! Throughput against the number of tasks: speed-up, efficiency, the knee.

/// One point of a curve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CurvePoint {
    /// Number of tasks, at least 1.
    pub tasks: u32,
    /// Throughput of all tasks together.
    pub rate: f64,
    /// Throughput over that of one task.
    pub speedup: f64,
    /// Speed-up over the number of tasks: 1 is perfect scaling.
    pub efficiency: f64,
}

/// The points of one testcase in one mode, by number of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    points: Vec<CurvePoint>,
}

impl Curve {
    /// From (tasks, throughput) pairs in any order.
    ///
    /// Efficiency is relative to the fewest tasks there are: with no measurement at one task, a
    /// task's share of the smallest one stands in for it.
    pub fn new(pairs: &[(u32, f64)]) -> Self {
        let mut pairs = pairs.to_vec();
        pairs.sort_by_key(|&(tasks, _)| tasks);
        let one = pairs.first().map_or(0.0, |&(tasks, rate)| rate / f64::from(tasks));
        let points = pairs
            .into_iter()
            .map(|(tasks, rate)| {
                let speedup = if one > 0.0 { rate / one } else { 0.0 };
                CurvePoint { tasks, rate, speedup, efficiency: speedup / f64::from(tasks) }
            })
            .collect();
        Self { points }
    }

    /// The points, fewest tasks first.
    pub fn points(&self) -> &[CurvePoint] {
        &self.points
    }

    /// The knee: the first number of tasks whose efficiency is below `threshold` (0.8 is 80%).
    pub fn knee(&self, threshold: f64) -> Option<u32> {
        self.points.iter().find(|p| p.efficiency < threshold).map(|p| p.tasks)
    }

    /// The point of greatest throughput; the one with fewest tasks among equals.
    pub fn peak(&self) -> Option<CurvePoint> {
        self.points.iter().copied().reduce(|best, p| if p.rate > best.rate { p } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_perfect_curve_has_no_knee() {
        let curve = Curve::new(&[(1, 10.0), (2, 20.0), (8, 80.0)]);
        assert_eq!(curve.knee(0.8), None);
        assert_eq!(curve.peak().unwrap().tasks, 8);
        assert_eq!(curve.points()[2].speedup, 8.0);
    }

    #[test]
    fn the_knee_is_the_first_inefficient_point_and_the_peak_may_lie_before_it() {
        let curve = Curve::new(&[(4, 90.0), (1, 100.0), (2, 150.0)]);
        assert_eq!(curve.knee(0.8), Some(2));
        assert_eq!(curve.peak().unwrap().tasks, 2);
    }

    #[test]
    fn without_a_single_task_the_smallest_point_is_the_base() {
        let curve = Curve::new(&[(2, 20.0), (4, 30.0)]);
        assert_eq!(curve.points()[0].efficiency, 1.0);
        assert_eq!(curve.knee(0.8), Some(4));
    }

    #[test]
    fn a_dead_testcase_has_efficiency_zero() {
        assert_eq!(Curve::new(&[(1, 0.0), (2, 0.0)]).points()[1].efficiency, 0.0);
    }
}
