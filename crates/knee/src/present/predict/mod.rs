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
