//! Checks the numbers of a page. A point with an infinite, negative or NaN value becomes a gap with
//! a reason, so that charts mark it instead of drawing or hiding it. A fit with such a value is
//! replaced by a reason.

use knee_results::Point;
use knee_stats::usl::{Estimate, Fit};

use crate::model::{Curve, Missing, Page};

const REASON: &str = "the record of this point contains an invalid value";

/// `page` with information about all its testcases, finite rates, and gaps in order.
pub(crate) fn with_marked_gaps(page: &Page) -> Page {
    let mut page = page.clone();
    for curve in &mut page.curves {
        clean(curve);
        page.cases.entry(curve.measured.case.clone()).or_default();
    }
    page
}

fn clean(curve: &mut Curve) {
    let measured = &curve.measured;
    let (points, broken): (Vec<_>, Vec<_>) =
        measured.clone().into_points().into_iter().partition(is_finite);
    curve
        .missing
        .extend(broken.iter().map(|p| Missing { tasks: p.tasks, reason: REASON.to_owned() }));
    curve.missing.sort_by_key(|gap| gap.tasks);
    let (case, mode) = (measured.case.clone(), measured.mode);
    curve.measured = knee_results::Curve::new(case, mode, points).along(measured.axis);
    if curve.fit.as_ref().is_ok_and(|fit| !fit_is_finite(fit)) {
        curve.fit = Err("a coefficient is not a number".to_owned());
    }
}

fn is_finite(point: &Point) -> bool {
    let numbers = [point.rate, point.low, point.high, point.confidence];
    point.tasks > 0 && numbers.iter().chain(&point.rounds).all(|x| x.is_finite() && *x >= 0.0)
}

/// The ends of an interval may be infinite, because an estimate can be unbounded, but not NaN.
fn fit_is_finite(fit: &Fit) -> bool {
    let sound = |e: &Estimate| {
        e.value.is_finite() && e.interval.is_none_or(|(low, high)| !low.is_nan() && !high.is_nan())
    };
    [Some(&fit.lambda), Some(&fit.sigma), Some(&fit.kappa), fit.peak.as_ref()]
        .into_iter()
        .flatten()
        .all(sound)
        && fit.r_squared.is_none_or(f64::is_finite)
}

#[cfg(test)]
mod tests {
    use knee_results::{CaseId, Mode};
    use knee_stats::usl;

    use super::*;
    use crate::model::Run;

    fn curve(points: Vec<Point>) -> Curve {
        Curve::new(0, knee_results::Curve::new(CaseId::new("a"), Mode::Threads, points))
    }

    fn point(tasks: u32) -> Point {
        Point::new(tasks, vec![1.0]).unwrap()
    }

    fn cleaned(curve: Curve) -> Curve {
        let page = Page { runs: vec![Run::default()], curves: vec![curve], ..Page::default() };
        with_marked_gaps(&page).curves.remove(0)
    }

    #[test]
    fn a_point_that_is_not_a_number_becomes_a_gap_with_a_reason() {
        let curve = cleaned(curve(vec![Point { rate: f64::NAN, ..point(2) }, point(1)]));
        assert_eq!(curve.measured.points().len(), 1);
        assert_eq!(curve.missing, [Missing { tasks: 2, reason: REASON.to_owned() }]);
    }

    #[test]
    fn a_fit_that_is_not_a_number_is_reported() {
        let rounds = [(1, vec![1.0]), (2, vec![1.9]), (4, vec![3.0])];
        let mut fit = usl::fit(&rounds, &usl::FitOptions::default()).unwrap();
        let mut curve = Curve { fit: Ok(fit.clone()), ..curve(Vec::new()) };
        clean(&mut curve);
        assert!(curve.fit.is_ok());
        fit.sigma.value = f64::NAN;
        curve.fit = Ok(fit);
        clean(&mut curve);
        assert_eq!(curve.fit, Err("a coefficient is not a number".to_owned()));
    }
}
