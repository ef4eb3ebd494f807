//! Predictions: tables, sentences and JSON.

mod json;
mod text;

use knee_predict::Machine;
use knee_predict::simulate::{Class, Point};
use knee_results::Mode;
use knee_stats::{median, usl::percentiles};

pub(crate) use self::json::json;
pub(crate) use self::text::text;

/// Share of the draws inside a band.
const CONFIDENCE: f64 = 0.9;

/// The predictions of a testcase on a machine.
pub(crate) struct Prediction<'a> {
    pub(crate) testcase: &'a str,
    pub(crate) mode: Mode,
    pub(crate) machine: &'a Machine,
    pub(crate) alone: Alone,
    /// One for each kernel. All have the same task counts.
    pub(crate) curves: Vec<Curve>,
}

/// The rate of one task, in iterations per second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Alone {
    pub(crate) rate: f64,
    /// Whether it was measured on this machine. Otherwise, the user gave it.
    pub(crate) is_measured: bool,
}

/// The prediction for a kernel.
pub(crate) struct Curve {
    pub(crate) kernel: String,
    /// Instructions of an iteration, relative to those of the first kernel.
    pub(crate) slower: f64,
    pub(crate) points: Vec<Point>,
    /// What comes next when the last point is no longer limited as it is.
    pub(crate) next: Option<Next>,
}

/// A point without the line or lock that limits it.
pub(crate) struct Next {
    pub(crate) without: String,
    pub(crate) point: Point,
}

/// The rate of a kernel, relative to that of the first kernel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ratio {
    pub(crate) value: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Whether one of the rates is only a bound.
    pub(crate) is_unknown: bool,
}

impl Ratio {
    /// The ratio of two points. Each draw has its own, in which the errors of the machine's figures cancel.
    fn of(before: &Point, after: &Point) -> Option<Self> {
        let pairs = after.rates.iter().zip(&before.rates);
        let ratios: Vec<f64> = pairs.map(|(after, before)| after / before).collect();
        let (low, high) = percentiles(ratios.clone(), CONFIDENCE)?;
        let is_unknown = [before, after].iter().any(|point| point.class == Class::D);
        Some(Self { value: median(&ratios)?, low, high, is_unknown })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A point with the rates of its draws.
    fn point(rates: &[f64], class: Class) -> Point {
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

    #[test]
    fn a_ratio_is_computed_for_each_draw_so_that_common_errors_cancel() {
        let before = point(&[1e6, 2e6, 4e6], Class::B);
        let after = point(&[2e6, 4e6, 8e6], Class::B);
        let ratio = Ratio::of(&before, &after).unwrap();
        assert_eq!((ratio.value, ratio.low, ratio.high, ratio.is_unknown), (2.0, 2.0, 2.0, false));
    }

    #[test]
    fn the_ratio_to_a_bound_is_unknown() {
        let (known, bound) = (point(&[1e6, 2e6], Class::B), point(&[1e6, 2e6], Class::D));
        assert!(Ratio::of(&known, &bound).unwrap().is_unknown);
        assert!(Ratio::of(&bound, &known).unwrap().is_unknown);
    }

    #[test]
    fn json_of_a_bound_has_no_rate() {
        let machine = Machine::built_in("genoa-2x96").expect("it is built in");
        let curve = |class| Curve {
            kernel: "Linux 6.12".to_owned(),
            slower: 1.0,
            points: vec![point(&[1e6, 2e6], class)],
            next: None,
        };
        let prediction = Prediction {
            testcase: "open1",
            mode: Mode::Threads,
            machine: &machine,
            alone: Alone { rate: 1e6, is_measured: false },
            curves: vec![curve(Class::B), curve(Class::D)],
        };
        let document = json(&[prediction], "", &[]);
        let point = |curve: usize| &document["predictions"][0]["curves"][curve]["points"][0];
        assert_eq!((&point(0)["rate"], &point(0)["class"]), (&1e6.into(), &"B".into()));
        assert!(point(1)["rate"].is_null() && point(1)["ratio"].is_null());
        assert_eq!(point(1)["bound"], 5e6);
    }
}
