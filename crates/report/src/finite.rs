//! Input made sound. A record is made by others and may hold anything; a point whose numbers
//! are not all finite becomes a gap with a reason, so that no chart draws it and none hides it.

use crate::model::{Case, Change, Curve, Estimate, Fit, Missing, Page, Point};

const REASON: &str = "the record holds a value for it that is not a number";

/// `page` with points sorted by tasks and all its numbers finite.
pub(crate) fn with_marked_gaps(page: &Page) -> Page {
    let mut page = page.clone();
    let runs = page.runs.len();
    page.curves.retain(|curve| curve.run < runs);
    for curve in &mut page.curves {
        clean(curve);
        if page.cases.iter().all(|case| case.name != curve.testcase) {
            page.cases.push(Case::new(&curve.testcase, "unknown", "", "iterations"));
        }
    }
    page
}

fn clean(curve: &mut Curve) {
    let (points, broken): (Vec<_>, Vec<_>) =
        std::mem::take(&mut curve.points).into_iter().partition(is_finite);
    curve.points = points;
    curve
        .missing
        .extend(broken.iter().map(|p| Missing { tasks: p.tasks, reason: REASON.to_owned() }));
    for point in &mut curve.points {
        point.change = point.change.take().filter(change_is_finite);
        point.cpu = point.cpu.filter(|c| [c.user, c.system, c.idle].iter().all(|x| x.is_finite()));
    }
    curve.points.sort_by_key(|point| point.tasks);
    curve.points.dedup_by_key(|point| point.tasks);
    let points = &curve.points;
    curve.missing.retain(|gap| points.binary_search_by_key(&gap.tasks, |p| p.tasks).is_err());
    curve.missing.sort_by_key(|gap| gap.tasks);
    curve.missing.dedup_by_key(|gap| gap.tasks);
    curve.fit = curve.fit.take().filter(fit_is_finite);
}

fn is_finite(point: &Point) -> bool {
    let numbers =
        [point.rate, point.low, point.high, point.confidence, point.min, point.max, point.fairness];
    point.tasks > 0 && numbers.iter().chain(&point.rounds).all(|x| x.is_finite() && *x >= 0.0)
}

fn change_is_finite(change: &Change) -> bool {
    [change.ratio, change.low, change.high, change.p].iter().all(|x| x.is_finite())
}

fn fit_is_finite(fit: &Fit) -> bool {
    let bounded = |e: &Estimate| [e.value, e.low, e.high].iter().all(|x| x.is_finite());
    let peak = fit.peak.as_ref().is_none_or(|peak| peak.value.is_finite());
    [&fit.lambda, &fit.sigma, &fit.kappa].into_iter().all(bounded) && fit.r2.is_finite() && peak
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Mode, Run};

    fn cleaned(points: Vec<Point>, missing: Vec<Missing>) -> Curve {
        let curve = Curve { points, missing, ..Curve::new(0, "a", Mode::Threads) };
        let page = Page { runs: vec![Run::default()], curves: vec![curve], ..Page::default() };
        with_marked_gaps(&page).curves.remove(0)
    }

    #[test]
    fn a_point_that_is_not_a_number_becomes_a_gap_with_a_reason() {
        let curve =
            cleaned(vec![Point::new(2, vec![f64::NAN]), Point::new(1, vec![1.0])], Vec::new());
        assert_eq!(curve.points.len(), 1);
        assert_eq!(curve.missing, [Missing { tasks: 2, reason: REASON.to_owned() }]);
    }

    #[test]
    fn a_point_that_failed_in_a_later_round_is_no_gap() {
        let gap = |tasks| Missing { tasks, reason: "boom".to_owned() };
        let curve = cleaned(vec![Point::new(1, vec![1.0])], vec![gap(4), gap(1)]);
        assert_eq!(curve.missing, [gap(4)]);
    }
}
