//! What the numbers say: efficiencies, a verdict per curve, the order of the page.

use std::collections::BTreeMap;

use crate::model::{Case, ChangeVerdict, Curve, Mode, Page, Point, Run};

/// A page with all that follows from its numbers.
pub(crate) struct Reading<'p> {
    pub(crate) page: &'p Page,
    /// Those that scale worst first; those without a curve last.
    pub(crate) cases: Vec<CaseReading<'p>>,
}

/// A testcase with its curves.
pub(crate) struct CaseReading<'p> {
    pub(crate) case: &'p Case,
    /// By mode, then by run.
    pub(crate) curves: Vec<CurveReading<'p>>,
}

/// A curve with what follows from it.
pub(crate) struct CurveReading<'p> {
    pub(crate) curve: &'p Curve,
    pub(crate) run: &'p Run,
    /// Speed-up and efficiency of each point.
    pub(crate) scaled: knee_stats::Curve,
    pub(crate) verdict: Scaling,
    /// How many points each verdict has against the first run.
    pub(crate) changes: BTreeMap<ChangeVerdict, usize>,
}

/// How a curve scales, the worst first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scaling {
    /// Throughput at the most tasks is below that of the peak, beyond both intervals.
    Retrograde,
    /// Throughput still grows, at less than the efficiency of the knee.
    Contended,
    /// No knee up to the most tasks.
    Scales,
    /// A single number of tasks says nothing about scaling.
    OnePoint,
    /// Nothing was measured.
    Missing,
}

impl Scaling {
    pub(crate) const ALL: [Self; 5] =
        [Self::Retrograde, Self::Contended, Self::Scales, Self::OnePoint, Self::Missing];

    /// For attributes and the fragment of the address.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Self::Retrograde => "retrograde",
            Self::Contended => "contended",
            Self::Scales => "scales",
            Self::OnePoint => "one-point",
            Self::Missing => "missing",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Retrograde => "retrograde",
            Self::Contended => "contended",
            Self::Scales => "scales",
            Self::OnePoint => "one task count",
            Self::Missing => "not measured",
        }
    }

    pub(crate) fn shape(self) -> &'static str {
        match self {
            Self::Retrograde => "▼",
            Self::Contended => "◐",
            Self::Scales => "●",
            Self::OnePoint => "·",
            Self::Missing => "✕",
        }
    }

    fn of(curve: &Curve) -> Self {
        let peak = curve.points.iter().reduce(|best, p| if p.rate > best.rate { p } else { best });
        match (curve.points.as_slice(), peak) {
            ([], _) | (_, None) => Self::Missing,
            ([_], _) => Self::OnePoint,
            ([.., last], Some(peak)) if last.high < peak.low => Self::Retrograde,
            _ if curve.knee.is_some() => Self::Contended,
            _ => Self::Scales,
        }
    }
}

impl ChangeVerdict {
    pub(crate) const ALL: [Self; 4] = [Self::Slower, Self::Faster, Self::Inconclusive, Self::Same];

    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Slower => "slower",
            Self::Faster => "faster",
            Self::Inconclusive => "inconclusive",
            Self::Same => "same",
        }
    }

    pub(crate) fn shape(self) -> &'static str {
        match self {
            Self::Slower => "▽",
            Self::Faster => "△",
            Self::Inconclusive => "?",
            Self::Same => "=",
        }
    }
}

impl<'p> Reading<'p> {
    /// Reads `page`, whose numbers are finite and whose points are sorted.
    pub(crate) fn of(page: &'p Page) -> Self {
        let mut curves: BTreeMap<&str, Vec<CurveReading<'p>>> = BTreeMap::new();
        for curve in &page.curves {
            curves.entry(&curve.testcase).or_default().push(CurveReading::of(page, curve));
        }
        let mut cases: Vec<CaseReading> = page
            .cases
            .iter()
            .map(|case| {
                let mut curves = curves.remove(case.name.as_str()).unwrap_or_default();
                curves.sort_by_key(|reading| (reading.curve.mode, reading.curve.run));
                CaseReading { case, curves }
            })
            .collect();
        cases.sort_by(|a, b| {
            let of = |case: &CaseReading| case.worst_efficiency().unwrap_or(f64::INFINITY);
            of(a).total_cmp(&of(b)).then_with(|| a.case.name.cmp(&b.case.name))
        });
        Self { page, cases }
    }

    pub(crate) fn curves(&self) -> impl Iterator<Item = (&CaseReading<'p>, &CurveReading<'p>)> {
        self.cases.iter().flat_map(|case| case.curves.iter().map(move |curve| (case, curve)))
    }

    /// Whether the page says something of runs: also that there are none, if it says nothing else.
    pub(crate) fn shows_runs(&self) -> bool {
        !self.page.runs.is_empty() || (self.page.matrices.is_empty() && self.page.shared.is_empty())
    }

    /// Whether there are runs to compare with the first.
    pub(crate) fn compares(&self) -> bool {
        self.page.runs.len() > 1
    }
}

impl<'p> CaseReading<'p> {
    /// The least efficiency that a curve has at its most tasks.
    pub(crate) fn worst_efficiency(&self) -> Option<f64> {
        self.curves.iter().filter_map(CurveReading::last_efficiency).reduce(f64::min)
    }

    /// The modes that were asked for.
    pub(crate) fn modes(&self) -> impl Iterator<Item = (Mode, &[CurveReading<'p>])> {
        self.curves.chunk_by(|a, b| a.curve.mode == b.curve.mode).map(|c| (c[0].curve.mode, c))
    }

    /// The greatest rate of any mode.
    pub(crate) fn max_rate(&self) -> f64 {
        max_rate(&self.curves)
    }

    /// Whether some curve has more than one number of tasks, measured or missing.
    pub(crate) fn is_curve(&self) -> bool {
        self.curves.iter().any(|reading| reading.curve.points.len() > 1)
    }

    /// Fewest and most tasks that were asked for.
    pub(crate) fn tasks_range(&self) -> Option<(u32, u32)> {
        range(self.curves.iter().map(|reading| reading.curve))
    }
}

/// The greatest number that a chart of the throughput of `curves` must show.
pub(crate) fn max_rate(curves: &[CurveReading]) -> f64 {
    let points = curves.iter().flat_map(|reading| &reading.curve.points);
    points.flat_map(|p| p.rounds.iter().copied().chain([p.high, p.rate])).fold(0.0, f64::max)
}

/// Fewest and most tasks of `curves`, measured or missing.
pub(crate) fn range<'p>(curves: impl Iterator<Item = &'p Curve>) -> Option<(u32, u32)> {
    curves
        .flat_map(|curve| {
            let measured = curve.points.iter().map(|point| point.tasks);
            measured.chain(curve.missing.iter().map(|gap| gap.tasks))
        })
        .fold(None, |range, n| {
            let (low, high) = range.unwrap_or((n, n));
            Some((low.min(n), high.max(n)))
        })
}

impl<'p> CurveReading<'p> {
    fn of(page: &'p Page, curve: &'p Curve) -> Self {
        let pairs: Vec<(u32, f64)> = curve.points.iter().map(|p| (p.tasks, p.rate)).collect();
        let mut changes = BTreeMap::new();
        for change in curve.points.iter().filter_map(|point| point.change.as_ref()) {
            *changes.entry(change.verdict).or_insert(0) += 1;
        }
        Self {
            curve,
            run: &page.runs[curve.run],
            scaled: knee_stats::Curve::new(&pairs),
            verdict: Scaling::of(curve),
            changes,
        }
    }

    /// Its points with their efficiencies.
    pub(crate) fn points(&self) -> impl Iterator<Item = (&'p Point, f64)> {
        let efficiencies = self.scaled.points().iter().map(|point| point.efficiency);
        self.curve.points.iter().zip(efficiencies)
    }

    /// Efficiency at the most tasks, if there is more than one number of tasks.
    pub(crate) fn last_efficiency(&self) -> Option<f64> {
        match self.scaled.points() {
            [_, .., last] => Some(last.efficiency),
            _ => None,
        }
    }

    /// The most tasks that were measured.
    pub(crate) fn last(&self) -> Option<&'p Point> {
        self.curve.points.last()
    }

    /// The point of greatest throughput.
    pub(crate) fn peak(&self) -> Option<&'p Point> {
        let peak = self.scaled.peak()?.tasks;
        self.curve.points.iter().find(|point| point.tasks == peak)
    }

    /// Points in order, measured ones between gaps together: a line is never drawn over a gap.
    pub(crate) fn unbroken(&self) -> Vec<Vec<(&'p Point, f64)>> {
        let mut pieces: Vec<Vec<(&'p Point, f64)>> = vec![Vec::new()];
        let mut gaps = self.curve.missing.iter().peekable();
        for (point, efficiency) in self.points() {
            while gaps.next_if(|gap| gap.tasks < point.tasks).is_some() {
                if pieces.last().is_some_and(|piece| !piece.is_empty()) {
                    pieces.push(Vec::new());
                }
            }
            if let Some(piece) = pieces.last_mut() {
                piece.push((point, efficiency));
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Missing;

    fn curve(rates: &[(u32, f64)], knee: Option<u32>) -> Curve {
        let points =
            rates.iter().map(|&(n, x)| Point::new(n, vec![x * 0.99, x, x * 1.01])).collect();
        Curve { points, knee, ..Curve::new(0, "a", Mode::Threads) }
    }

    #[test]
    fn a_curve_that_falls_beyond_its_intervals_loses_throughput() {
        assert_eq!(
            Scaling::of(&curve(&[(1, 10.0), (2, 19.0), (4, 15.0)], Some(4))),
            Scaling::Retrograde
        );
        assert_eq!(
            Scaling::of(&curve(&[(1, 10.0), (2, 19.0), (4, 18.9)], Some(4))),
            Scaling::Contended
        );
        assert_eq!(Scaling::of(&curve(&[(1, 10.0), (2, 19.0), (4, 39.0)], None)), Scaling::Scales);
        assert_eq!(Scaling::of(&curve(&[(4, 39.0)], None)), Scaling::OnePoint);
        assert_eq!(Scaling::of(&curve(&[], None)), Scaling::Missing);
    }

    #[test]
    fn a_gap_breaks_the_line() {
        let mut curve = curve(&[(1, 1.0), (2, 2.0), (8, 8.0)], None);
        curve.missing = vec![Missing { tasks: 4, reason: "boom".to_owned() }];
        let page = Page { runs: vec![Run::default()], curves: vec![curve], ..Page::default() };
        let reading = CurveReading::of(&page, &page.curves[0]);
        let pieces: Vec<usize> = reading.unbroken().iter().map(Vec::len).collect();
        assert_eq!(pieces, [2, 1]);
    }
}
