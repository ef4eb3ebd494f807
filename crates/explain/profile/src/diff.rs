//! Differences between two captures, by function, with what chance alone makes of them.
//!
//! **What is compared.** Shares of all samples; or, where both captures know the [work](Work) that
//! was done, cost per iteration: a function may take a larger share only because the others take
//! less, and its cost per iteration does not change then. An iteration costs
//!
//! * CPU time over iterations where the clock ticks in CPU time, or the capture has counted it,
//! * cycles over iterations where it ticks in cycles,
//!
//! and a function has the part of that which it has of the samples.
//!
//! **Sampling error.** A count of independent samples is that of a binomial distribution (shares, of
//! the samples or of CPU time that was counted beside them) or close to a Poisson distribution (cost per
//! iteration where the samples are all that there is, and their number no choice of anyone). The difference of two is tested by z: its distance from none in standard errors, under
//! the assumption that both are of one population, whose rate is that of both counts together
//! (Newcombe, "Interval estimation for the difference between independent proportions", Statistics
//! in Medicine 17, 1998, has the test and the interval). Below five samples on both sides together
//! nothing is claimed.
//!
//! **Many functions.** Of a thousand unchanged functions fifty differ at 5%. So the p-values are
//! adjusted ([`benjamini_hochberg`]): of all the differences that are marked, 5% are expected to be
//! chance. Self and total of all functions are adjusted together.
//!
//! What this leaves out: two captures of one unchanged program differ by more than sampling where
//! the machine, the placement or the input differ. Only repeated captures show that.

use indexmap::IndexMap;
use knee_stats::benjamini_hochberg;
use serde::Serialize;
use statrs::function::erf::erfc;

use crate::capture::{Capture, Kind, Unit, Work};
use crate::view::functions::{Part, Row, Z95, functions};

mod table;

pub use table::table;

/// The share of false ones that is expected among the marked differences.
pub const FALSE_SHARE: f64 = 0.05;

/// Samples of both sides together below which a difference is not claimed: there the normal
/// distribution is no good likeness of the binomial one.
const FEWEST: u64 = 5;

/// What differences are measured in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// Shares of all samples, 0 to 1.
    Share,
    /// Nanoseconds of CPU time per iteration.
    NanosecondsPerIteration,
    /// Cycles per iteration.
    CyclesPerIteration,
}

impl Measure {
    /// The unit in which numbers are printed, with the space before it if it needs one, and the factor to
    /// that unit: shares are printed in per cent.
    pub(crate) fn unit(self) -> (f64, &'static str) {
        match self {
            Measure::Share => (100.0, "%"),
            Measure::NanosecondsPerIteration => (1.0, " ns"),
            Measure::CyclesPerIteration => (1.0, " cycles"),
        }
    }
}

/// Two captures, compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Diff {
    /// What all its numbers are in.
    pub measure: Measure,
    /// An iteration of each: 1 for shares.
    pub whole: (f64, f64),
    /// All functions that were seen in either, the largest difference of their own first, those that
    /// exceed the sampling error before the others.
    pub rows: Vec<Row<Difference>>,
}

/// A difference, after less before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Samples before and after.
    pub samples: (u64, u64),
    /// What they come to, in the measure.
    pub before: f64,
    /// What they come to, in the measure.
    pub after: f64,
    /// What chance alone adds to or takes from the difference in 95 of 100 pairs of captures.
    pub error: f64,
    /// The p-value, adjusted for the number of functions.
    pub p: f64,
    /// Whether it exceeds the sampling error, of all functions together.
    pub is_real: bool,
}

impl Difference {
    /// After less before.
    pub fn change(&self) -> f64 {
        self.after - self.before
    }
}

/// Compares two captures by function.
pub fn diff(before: &Capture, after: &Capture) -> Diff {
    let scale = Scale::of(before, after);
    let mut rows: IndexMap<(String, Kind), Row<Difference>> = IndexMap::new();
    for (is_after, capture) in [(false, before), (true, after)] {
        for function in functions(capture) {
            let (name, kind) = (function.name, function.kind);
            let row = rows.entry((name.clone(), kind)).or_insert_with(|| Row {
                name,
                module: None,
                kind,
                own: Difference::default(),
                total: Difference::default(),
            });
            row.module = function.module.or(row.module.take());
            let set = |difference: &mut Difference, part: Part| match is_after {
                true => difference.samples.1 = part.samples,
                false => difference.samples.0 = part.samples,
            };
            set(&mut row.own, function.own);
            set(&mut row.total, function.total);
        }
    }
    let mut rows: Vec<_> = rows.into_values().collect();
    scale.fill(rows.iter_mut().flat_map(|row| [&mut row.own, &mut row.total]).collect());
    rows.sort_by(|a, b| {
        let rank =
            |row: &Row<Difference>| (row.own.is_real || row.total.is_real, row.own.change().abs());
        let (a_rank, b_rank) = (rank(a), rank(b));
        (b_rank.0.cmp(&a_rank.0))
            .then_with(|| b_rank.1.total_cmp(&a_rank.1))
            .then_with(|| b.total.change().abs().total_cmp(&a.total.change().abs()))
            .then_with(|| (&a.name, a.kind).cmp(&(&b.name, b.kind)))
    });
    Diff { measure: scale.measure, whole: scale.whole, rows }
}

/// How counts of two captures are compared.
pub(crate) struct Scale {
    pub(crate) measure: Measure,
    /// What all samples of each come to.
    pub(crate) whole: (f64, f64),
    /// Whether that is known beside the samples, which then only divide it up.
    is_whole_known: bool,
    samples: (u64, u64),
}

impl Scale {
    pub(crate) fn of(before: &Capture, after: &Capture) -> Scale {
        let samples = (before.samples(), after.samples());
        let is_whole_known = before.cpu_seconds.is_some() && after.cpu_seconds.is_some();
        let costs = cost_per_iteration(before).zip(cost_per_iteration(after));
        match costs {
            Some(((measure, before), (other, after))) if measure == other => {
                Scale { measure, whole: (before, after), is_whole_known, samples }
            }
            _ => {
                let (measure, whole) = (Measure::Share, (1.0, 1.0));
                Scale { measure, whole, is_whole_known: true, samples }
            }
        }
    }

    /// What a sample of each side comes to.
    fn of_a_sample(&self) -> (f64, f64) {
        let (before, after) = self.samples;
        (self.whole.0 / before.max(1) as f64, self.whole.1 / after.max(1) as f64)
    }

    /// Works out differences of which the samples are known.
    pub(crate) fn fill(&self, mut differences: Vec<&mut Difference>) {
        let (a, b) = self.of_a_sample();
        for difference in &mut differences {
            let samples = difference.samples;
            difference.before = samples.0 as f64 * a;
            difference.after = samples.1 as f64 * b;
            let variance = self.variance(samples);
            difference.error = Z95 * (a * a * variance.0 + b * b * variance.1).sqrt();
            difference.p = self.p(difference);
        }
        let p: Vec<f64> = differences.iter().map(|difference| difference.p).collect();
        for (difference, p) in differences.iter_mut().zip(benjamini_hochberg(&p)) {
            difference.p = p;
            difference.is_real = p <= FALSE_SHARE;
        }
    }

    /// Variance of counts. None seen still vary as if it were one.
    fn variance(&self, samples: (u64, u64)) -> (f64, f64) {
        let of = |count: u64, all: u64| {
            let (count, all) = (count.max(1) as f64, all.max(1) as f64);
            match self.is_whole_known {
                true => count * (1.0 - count / all).max(0.0),
                false => count,
            }
        };
        (of(samples.0, self.samples.0), of(samples.1, self.samples.1))
    }

    /// Two-sided p-value of a difference, under the assumption that there is none.
    fn p(&self, difference: &Difference) -> f64 {
        let (before, after) = difference.samples;
        let (a, b) = self.of_a_sample();
        let both = before.saturating_add(after);
        if both < FEWEST || a == 0.0 || b == 0.0 {
            return 1.0;
        }
        // What one unit of the measure is in samples of each, and how many units all of them are.
        let exposure = (1.0 / a, 1.0 / b);
        let rate = both as f64 / (exposure.0 + exposure.1);
        let left = |whole: f64| match self.is_whole_known {
            true => (1.0 - rate / whole).max(0.0),
            false => 1.0,
        };
        let variance = rate * (a * left(self.whole.0) + b * left(self.whole.1));
        if variance <= 0.0 {
            return if difference.change() == 0.0 { 1.0 } else { 0.0 };
        }
        erfc(difference.change().abs() / variance.sqrt() / std::f64::consts::SQRT_2)
    }
}

/// What an iteration costs, where the capture knows.
fn cost_per_iteration(capture: &Capture) -> Option<(Measure, f64)> {
    let Work { iterations, .. } = capture.work.as_ref()?;
    let (measure, cost) = match (capture.clock.unit, capture.cpu_seconds) {
        (_, Some(seconds)) => (Measure::NanosecondsPerIteration, seconds * 1e9),
        (Unit::Nanoseconds, None) => (Measure::NanosecondsPerIteration, capture.weight() as f64),
        (Unit::Cycles, None) => (Measure::CyclesPerIteration, capture.weight() as f64),
        (Unit::Events, None) => return None,
    };
    (*iterations > 0 && cost > 0.0).then(|| (measure, cost / *iterations as f64))
}

#[cfg(test)]
mod tests;
