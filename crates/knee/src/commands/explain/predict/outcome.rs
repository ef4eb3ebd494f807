//! What was simulated, as the document that knee prints and writes.

use knee_predict::simulate::{CONFIDENCE, Class, Point, Station, Usage};
use knee_results::prediction::{self, Curve, MOST_STATIONS, Next, Ratio, StationKind};
use knee_stats::{median, usl::percentiles};

/// The simulation of a kernel or a program.
pub(super) struct Simulated {
    pub(super) kernel: String,
    /// Time of an iteration of one task, relative to the first kernel or program.
    pub(super) slower: f64,
    /// Whether both times were measured. Otherwise this is the ratio of their instructions.
    pub(super) is_measured: bool,
    pub(super) points: Vec<Point>,
    /// Name of what limits the last point, and this point without it.
    pub(super) next: Option<(String, Point)>,
}

/// The curves of a testcase. Those after the first one have ratios to it.
pub(super) fn curves(all: &[Simulated]) -> Vec<Curve> {
    let curve = |(nr, simulated): (usize, &Simulated)| {
        let before = all.first().filter(|_| nr > 0);
        let points = simulated.points.iter().enumerate().map(|(at, after)| {
            let before = before.and_then(|first| first.points.get(at));
            let ratio = before.and_then(|before| ratio(before, after));
            prediction::Point { ratio, ..point(after) }
        });
        let next = simulated.next.as_ref();
        Curve {
            kernel: simulated.kernel.clone(),
            time_ratio: simulated.slower,
            is_measured: simulated.is_measured,
            points: points.collect(),
            next: next.map(|(without, last)| Next { without: without.clone(), point: point(last) }),
        }
    };
    all.iter().enumerate().map(curve).collect()
}

/// The ratio of two points. Each draw has its own, in which the errors of the machine's figures
/// cancel. `None` if one of the rates is only a bound.
fn ratio(before: &Point, after: &Point) -> Option<Ratio> {
    if [before, after].iter().any(|point| point.class == Class::D) {
        return None;
    }
    let pairs = after.rates.iter().zip(&before.rates);
    let ratios: Vec<f64> = pairs.map(|(after, before)| after / before).collect();
    let (low, high) = percentiles(ratios.clone(), CONFIDENCE)?;
    Some(Ratio { value: median(&ratios)?, low, high })
}

fn point(point: &Point) -> prediction::Point {
    let known = |rate: f64| (point.class != Class::D).then_some(rate);
    prediction::Point {
        tasks: point.tasks,
        class: point.class,
        rate: known(point.rate),
        low: known(point.low),
        high: known(point.high),
        simulated: point.rate,
        free: point.free,
        bound: point.bound,
        analysis: point.analysis,
        limit: point.binding().map(|usage| usage.name.clone()),
        stations: point.usages.iter().take(MOST_STATIONS).map(station).collect(),
        ratio: None,
    }
}

fn station(usage: &Usage) -> prediction::Station {
    prediction::Station {
        name: usage.name.clone(),
        kind: match usage.station {
            Station::Line(_) => StationKind::Line,
            Station::Lock(_) => StationKind::Lock,
            Station::Shootdown => StationKind::Shootdown,
        },
        instances: u32::try_from(usage.instances).unwrap_or(u32::MAX),
        utilisation: usage.utilisation,
        waiting: usage.waiting,
        visits: usage.visits,
        service_ns: usage.service_ns,
        far: usage.far,
        plateau: usage.plateau,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point with the rates of its draws.
    fn drawn(rates: &[f64], class: Class) -> Point {
        Point {
            tasks: 8,
            rate: rates[0],
            low: rates[0],
            high: rates[0],
            rates: rates.to_vec(),
            free: 10e6,
            bound: 5e6,
            class,
            usages: Vec::new(),
            analysis: None,
            middle: rates[0],
        }
    }

    fn simulated(rates: &[f64], class: Class) -> Simulated {
        let (kernel, points) = ("Linux 6.12".to_owned(), vec![drawn(rates, class)]);
        Simulated { kernel, slower: 1.0, is_measured: false, points, next: None }
    }

    #[test]
    fn a_ratio_is_computed_for_each_draw_so_that_common_errors_cancel() {
        let before = simulated(&[1e6, 2e6, 4e6], Class::B);
        let curves = curves(&[before, simulated(&[2e6, 4e6, 8e6], Class::B)]);
        let ratio = Ratio { value: 2.0, low: 2.0, high: 2.0 };
        assert_eq!((curves[0].points[0].ratio, curves[1].points[0].ratio), (None, Some(ratio)));
    }

    #[test]
    fn a_bound_has_neither_a_rate_nor_a_ratio() {
        let known = || simulated(&[1e6, 2e6], Class::B);
        let bound = || simulated(&[1e6, 2e6], Class::D);
        for (before, after) in [(known(), bound()), (bound(), known())] {
            assert_eq!(curves(&[before, after])[1].points[0].ratio, None);
        }
        let point = &curves(&[bound()])[0].points[0];
        assert_eq!((point.rate, point.band(), point.bound), (None, None, 5e6));
    }
}
