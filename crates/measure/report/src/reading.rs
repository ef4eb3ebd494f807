//! Results derived from the numbers of a page: efficiencies, a verdict per curve, the order.

use std::collections::BTreeMap;

use knee_results::{CaseId, CaseInfo, Family, Mode, Point, Verdict};
use knee_stats as stats;

use crate::model::{Curve, Page, Run};

/// A page with the results derived from its numbers.
pub(crate) struct Reading<'p> {
    pub(crate) page: &'p Page,
    /// The testcases, the one that scales worst first; those without a curve last.
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
    pub(crate) verdict: Verdict,
    /// Point counts by verdict of the comparison with the first run.
    pub(crate) changes: BTreeMap<stats::Verdict, usize>,
}

/// The texts and the symbol for a verdict.
pub(crate) struct Label {
    /// Its class in the style sheet.
    pub(crate) class: &'static str,
    pub(crate) shape: &'static str,
    pub(crate) words: &'static str,
}

/// A verdict on a curve or on a change.
pub(crate) trait Labelled {
    fn label(self) -> Label;
}

impl Labelled for Verdict {
    fn label(self) -> Label {
        let (shape, words) = match self {
            Self::Retrograde => ("▼", "retrograde"),
            Self::Contended => ("◐", "contended"),
            Self::Scales => ("●", "scales"),
            Self::Unknown => ("○", "no point at 1 task"),
            Self::OnePoint => ("·", "one task count"),
            Self::Missing => ("✕", "not measured"),
        };
        Label { class: self.as_str(), shape, words }
    }
}

impl Labelled for stats::Verdict {
    fn label(self) -> Label {
        let shape = match self {
            Self::Slower => "▽",
            Self::Faster => "△",
            Self::Inconclusive => "?",
            Self::Same => "=",
        };
        Label { class: self.as_str(), shape, words: self.as_str() }
    }
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

    /// Whether the page has sections about runs. A page without any contents has them too.
    pub(crate) fn shows_runs(&self) -> bool {
        !self.page.runs.is_empty() || (self.page.matrices.is_empty() && self.page.shared.is_empty())
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

    /// The lowest efficiency of a curve at its highest task count.
    pub(crate) fn worst_efficiency(&self) -> Option<f64> {
        let last = self.curves.iter().filter_map(|reading| reading.measured.last_efficiency());
        last.reduce(f64::min)
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
            changes: tally(curve.changes.values().map(|change| change.verdict)),
        }
    }

    /// The efficiency of a point, if the curve has a point at one task.
    pub(crate) fn efficiency(&self, point: &Point) -> Option<f64> {
        Some(self.measured.scaling(point)?.efficiency)
    }

    /// The points, split at gaps, so that no line is drawn across a gap.
    pub(crate) fn unbroken(&self) -> impl Iterator<Item = &'p [Point]> {
        let gaps = &self.curve.missing;
        self.measured.points().chunk_by(|point, next| {
            !gaps.iter().any(|gap| (point.tasks..next.tasks).contains(&gap.tasks))
        })
    }
}

#[cfg(test)]
mod tests {
    use knee_results::CaseId;

    use super::*;
    use crate::model::Missing;

    #[test]
    fn a_gap_breaks_the_line() {
        let points = [1, 2, 8].map(|n| Point::new(n, vec![f64::from(n)]).unwrap());
        let measured = knee_results::Curve::new(CaseId::new("a"), Mode::Threads, points.into());
        let mut curve = Curve::new(0, measured);
        curve.missing = vec![Missing { tasks: 4, reason: "boom".to_owned() }];
        let page = Page { runs: vec![Run::default()], curves: vec![curve], ..Page::default() };
        let reading = CurveReading::of(&page, &page.curves[0]);
        let pieces: Vec<usize> = reading.unbroken().map(<[Point]>::len).collect();
        assert_eq!(pieces, [2, 1]);
    }
}
