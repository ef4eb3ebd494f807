//! Results derived from the numbers of a page: efficiencies, a verdict per curve, the order.

use std::collections::BTreeMap;

use knee_results::{Axis, CaseId, CaseInfo, CurveVerdict, Family, Mode, Point, Scaling};

use crate::model::{Curve, Page, Run};
use crate::verdict::ChangeVerdict;

/// A page with the results derived from its numbers.
pub(crate) struct Reading<'p> {
    pub(crate) page: &'p Page,
    /// The testcases, the one that scales worst first; those without a curve that counts last.
    pub(crate) cases: Vec<CaseReading<'p>>,
}

/// A testcase with its curves.
pub(crate) struct CaseReading<'p> {
    pub(crate) id: &'p CaseId,
    /// [`CaseReading::id`] as text.
    pub(crate) name: String,
    pub(crate) info: &'p CaseInfo,
    /// By mode, then by run.
    pub(crate) curves: Vec<CurveReading<'p>>,
}

/// A curve with the results derived from it.
pub(crate) struct CurveReading<'p> {
    pub(crate) curve: &'p Curve,
    pub(crate) measured: &'p knee_results::Curve,
    pub(crate) run: &'p Run,
    pub(crate) knee: Option<u32>,
    pub(crate) verdict: CurveVerdict,
    /// Point counts by verdict of the comparison with the first run.
    pub(crate) changes: BTreeMap<ChangeVerdict, usize>,
}

impl<'p> Reading<'p> {
    /// Reads `page`, whose numbers are finite and whose points are sorted.
    pub(crate) fn of(page: &'p Page) -> Self {
        let mut curves: BTreeMap<&CaseId, Vec<CurveReading<'p>>> = BTreeMap::new();
        for curve in &page.curves {
            let reading = CurveReading::of(page, curve);
            curves.entry(&curve.measured.case).or_default().push(reading);
        }
        let mut cases: Vec<CaseReading> = page
            .cases
            .iter()
            .map(|(id, info)| {
                let mut curves = curves.remove(id).unwrap_or_default();
                curves.sort_by_key(|reading| (reading.measured.mode, reading.curve.run));
                CaseReading { id, name: id.to_string(), info, curves }
            })
            .collect();
        cases.sort_by(|a, b| {
            let of = |case: &CaseReading| case.worst_efficiency().unwrap_or(f64::INFINITY);
            of(a).total_cmp(&of(b)).then_with(|| a.name.cmp(&b.name))
        });
        Self { page, cases }
    }

    pub(crate) fn curves(&self) -> impl Iterator<Item = (&CaseReading<'p>, &CurveReading<'p>)> {
        self.cases.iter().flat_map(|case| case.curves.iter().map(move |curve| (case, curve)))
    }

    /// Whether some curve has a property.
    pub(crate) fn has(&self, property: impl Fn(&CurveReading<'p>) -> bool) -> bool {
        self.curves().any(|(_, curve)| property(curve))
    }

    /// Whether the page has sections about runs. A page without any contents has them too.
    pub(crate) fn shows_runs(&self) -> bool {
        let Page { runs, predictions, matrices, shared, cpu_maps, .. } = self.page;
        let others = [predictions.len(), matrices.len(), shared.len(), cpu_maps.len()];
        !runs.is_empty() || others == [0; 4]
    }

    /// Whether there are further runs to compare with the first.
    pub(crate) fn compares(&self) -> bool {
        self.page.runs.len() > 1
    }
}

impl<'p> CaseReading<'p> {
    /// Name of its family.
    pub(crate) fn family(&self) -> &'static str {
        self.info.family.map_or("unknown", Family::as_str)
    }

    /// The lowest efficiency of a curve that counts at its highest task count.
    fn worst_efficiency(&self) -> Option<f64> {
        let counted = self.curves.iter().filter(|reading| reading.verdict.counts());
        counted.filter_map(|reading| reading.measured.last_efficiency()).reduce(f64::min)
    }

    /// The requested modes with their curves.
    pub(crate) fn modes(&self) -> impl Iterator<Item = (Mode, &[CurveReading<'p>])> {
        self.curves
            .chunk_by(|a, b| a.measured.mode == b.measured.mode)
            .map(|c| (c[0].measured.mode, c))
    }

    /// The greatest rate of any mode.
    pub(crate) fn max_rate(&self) -> f64 {
        max_rate(&self.curves)
    }

    /// Whether some curve has points at more than one task count.
    pub(crate) fn is_curve(&self) -> bool {
        self.curves.iter().any(|reading| reading.measured.points().len() > 1)
    }

    /// What grows along its curves.
    pub(crate) fn axis(&self) -> Axis {
        self.curves.first().map_or(Axis::Tasks, |reading| reading.measured.axis)
    }

    /// The lowest and the highest requested task count.
    pub(crate) fn tasks_range(&self) -> Option<(u32, u32)> {
        range(self.curves.iter().map(|reading| reading.curve))
    }
}

/// The greatest rate on a throughput chart of `curves`.
pub(crate) fn max_rate(curves: &[CurveReading]) -> f64 {
    let points = curves.iter().flat_map(|reading| reading.measured.points());
    points.flat_map(|p| p.rounds.iter().copied().chain([p.high, p.rate])).fold(0.0, f64::max)
}

/// The counts of each verdict.
pub(crate) fn tally<V: Ord>(verdicts: impl Iterator<Item = V>) -> BTreeMap<V, usize> {
    let mut counts = BTreeMap::new();
    for verdict in verdicts {
        *counts.entry(verdict).or_default() += 1;
    }
    counts
}

/// The lowest and the highest task count of `curves`, measured or missing.
pub(crate) fn range<'p>(curves: impl Iterator<Item = &'p Curve>) -> Option<(u32, u32)> {
    curves.flat_map(Curve::task_counts).fold(None, |range, n| {
        let (low, high) = range.unwrap_or((n, n));
        Some((low.min(n), high.max(n)))
    })
}

impl<'p> CurveReading<'p> {
    fn of(page: &'p Page, curve: &'p Curve) -> Self {
        let knee = page.knee_efficiency;
        Self {
            curve,
            measured: &curve.measured,
            run: &page.runs[curve.run],
            knee: curve.measured.knee(knee).tasks(),
            verdict: curve.measured.verdict(knee),
            changes: tally(curve.changes.values().map(ChangeVerdict::of)),
        }
    }

    /// Whether a point shows how throughput grows along the axis.
    pub(crate) fn is_sound(&self, point: &Point) -> bool {
        self.measured.is_sound(point)
    }

    /// The scaling of a point, if it and the point at one task are sound.
    pub(crate) fn scaling(&self, point: &Point) -> Option<Scaling> {
        self.measured.scaling(point)
    }

    /// The efficiency of a point, if it and the point at one task are sound.
    pub(crate) fn efficiency(&self, point: &Point) -> Option<f64> {
        Some(self.scaling(point)?.efficiency)
    }

    /// The sound points, split at gaps and at disturbed points, so that no line is drawn across
    /// them.
    pub(crate) fn unbroken(&self) -> impl Iterator<Item = &'p [Point]> {
        let pieces = self.measured.points().chunk_by(|point, next| {
            self.is_sound(point) && self.is_sound(next) && !self.has_gap(point, next)
        });
        pieces.filter(|piece| self.is_sound(&piece[0]))
    }

    /// The undisturbed points with more tasks than CPUs, split like [`CurveReading::unbroken`]. The
    /// first piece begins with the point before them, if nothing is between.
    pub(crate) fn oversubscribed(&self) -> impl Iterator<Item = &'p [Point]> {
        let pieces = self.measured.points().chunk_by(|point, next| {
            !point.disturbed && !next.disturbed && next.oversubscribed && !self.has_gap(point, next)
        });
        pieces.filter(|piece| {
            piece.last().is_some_and(|point| point.oversubscribed && !point.disturbed)
        })
    }

    /// The lowest task count with more tasks than CPUs.
    pub(crate) fn first_oversubscribed(&self) -> Option<u32> {
        let point = self.measured.points().iter().find(|point| point.oversubscribed);
        point.map(|point| point.tasks)
    }

    /// The highest requested task count at which each task has a CPU; 0 if there is none.
    pub(crate) fn highest_with_cpus(&self) -> u32 {
        let first = self.first_oversubscribed().unwrap_or(u32::MAX);
        self.curve.task_counts().filter(|&n| n < first).max().unwrap_or(0)
    }

    /// The disturbed points.
    pub(crate) fn disturbed(&self) -> impl Iterator<Item = &'p Point> {
        self.measured.points().iter().filter(|point| point.disturbed)
    }

    /// The sound points whose efficiency is implausible.
    pub(crate) fn implausible(&self) -> impl Iterator<Item = (&'p Point, Scaling)> {
        self.measured.implausible()
    }

    fn has_gap(&self, point: &Point, next: &Point) -> bool {
        let gaps = &self.curve.missing;
        gaps.iter().any(|gap| (point.tasks..next.tasks).contains(&gap.tasks))
    }
}

#[cfg(test)]
mod tests {
    use knee_results::CaseId;

    use super::*;
    use crate::model::Missing;

    /// The task counts of the lines through sound points and through points with more tasks than
    /// CPUs.
    fn lines(change: impl Fn(&mut Point), missing: &[u32]) -> [Vec<Vec<u32>>; 2] {
        let points = [1, 2, 4, 8, 16].into_iter().filter(|n| !missing.contains(n)).map(|n| {
            let mut point = Point::new(n, vec![f64::from(n)]).unwrap();
            change(&mut point);
            point
        });
        let measured = knee_results::Curve::new(CaseId::new("a"), Mode::Threads, points.collect());
        let mut curve = Curve::new(0, measured);
        let gap = |&tasks: &u32| Missing { tasks, reason: "boom".to_owned() };
        curve.missing = missing.iter().map(gap).collect();
        let page = Page { runs: vec![Run::default()], curves: vec![curve], ..Page::default() };
        let reading = CurveReading::of(&page, &page.curves[0]);
        let tasks = |piece: &[Point]| piece.iter().map(|point| point.tasks).collect();
        [reading.unbroken().map(tasks).collect(), reading.oversubscribed().map(tasks).collect()]
    }

    #[test]
    fn gaps_and_disturbed_points_break_the_line() {
        assert_eq!(lines(|_| (), &[4]), [vec![vec![1, 2], vec![8, 16]], vec![]]);
        let disturbed = lines(|point| point.disturbed = point.tasks == 2, &[]);
        assert_eq!(disturbed, [vec![vec![1], vec![4, 8, 16]], vec![]]);
    }

    #[test]
    fn points_with_more_tasks_than_cpus_have_a_line_of_their_own() {
        let beyond = |point: &mut Point| point.oversubscribed = point.tasks > 4;
        assert_eq!(lines(beyond, &[]), [vec![vec![1, 2, 4]], vec![vec![4, 8, 16]]]);
        assert_eq!(lines(beyond, &[8]), [vec![vec![1, 2, 4]], vec![vec![16]]]);
        let disturbed = |point: &mut Point| {
            beyond(point);
            point.disturbed = point.tasks == 8;
        };
        assert_eq!(lines(disturbed, &[]), [vec![vec![1, 2, 4]], vec![vec![16]]]);
    }
}
