//! Differences between two captures by function, with their sampling errors.
//!
//! **What is compared.** Cost per iteration, if both captures contain the same kind of [work](Work);
//! otherwise shares of all samples. A function's share may grow only because other functions take less,
//! while its cost per iteration stays the same. An iteration costs
//!
//! * CPU time over iterations if the clock ticks in CPU time or the capture contains the CPU time,
//! * cycles over iterations if the clock ticks in cycles.
//!
//! A function's part of the cost is its part of the samples.
//!
//! **Sampling error.** A count of independent samples has a binomial distribution if it is a share, either
//! of the samples or of a separately measured CPU time. It is close to a Poisson distribution if the cost per
//! iteration comes from the samples alone. A z-test compares two counts: the difference in standard errors,
//! under the assumption that both come from one population with the pooled rate. (Newcombe, "Interval
//! estimation for the difference between independent proportions", Statistics in Medicine 17, 1998, has the
//! test and the interval.) With fewer than five samples on both sides together, no difference is claimed.
//!
//! **Many functions.** Of a thousand unchanged functions, fifty differ at 5%. The p-values are therefore
//! adjusted ([`benjamini_hochberg`]), so that 5% of the marked differences are expected to be chance. Self
//! and total of all functions are adjusted together.
//!
//! **Other work.** From captures that other work disturbed, no difference is claimed, as in a comparison of
//! runs.
//!
//! **Limit.** Two captures of an unchanged program differ by more than the sampling error if the machine,
//! the placement or the input differs. Only repeated captures show that.

use indexmap::IndexMap;
use knee_stats::benjamini_hochberg;
use serde::Serialize;
use statrs::function::erf::erfc;

use crate::capture::{Capture, Kind, Unit, Work, unit};
use crate::view::functions::{Part, Row, Z95, functions};

mod table;

pub use table::table;

/// Expected share of false differences among the marked ones.
pub const FALSE_SHARE: f64 = 0.05;

/// Minimum of samples on both sides together to claim a difference. Below it, the normal distribution is
/// a poor approximation of the binomial one.
const FEWEST: u64 = 5;

/// The unit of costs and differences.
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
    /// The unit of all its numbers.
    pub measure: Measure,
    /// What the work consists of, in the plural, such as `iterations`; costs are those of one.
    pub unit: String,
    /// Cost of an iteration in each capture; 1 for shares.
    pub whole: (f64, f64),
    /// Which captures other work disturbed, in words, if any. No difference is real then.
    pub disturbed: Option<&'static str>,
    /// All functions in either capture: those beyond the sampling error first, then by the difference of their
    /// self cost, the largest first.
    pub rows: Vec<Row<Difference>>,
}

/// A difference, after less before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Difference {
    /// Samples before and after.
    pub samples: (u64, u64),
    /// Cost before, in the measure.
    pub before: f64,
    /// Cost after, in the measure.
    pub after: f64,
    /// Half the width of the 95% interval of the difference.
    pub error: f64,
    /// The p-value, adjusted for the number of functions.
    pub p: f64,
    /// Whether it exceeds the sampling error, with all functions considered.
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
    let unit = unit(after.work.as_ref()).to_owned();
    let Scale { measure, whole, disturbed, .. } = scale;
    Diff { measure, unit, whole, disturbed, rows }
}

/// How counts of two captures are compared.
pub(crate) struct Scale {
    pub(crate) measure: Measure,
    /// Cost of all samples of each capture.
    pub(crate) whole: (f64, f64),
    /// Whether that cost is measured separately, so that the samples only divide it.
    is_whole_known: bool,
    samples: (u64, u64),
    /// Which captures other work disturbed, in words, if any.
    pub(crate) disturbed: Option<&'static str>,
}

impl Scale {
    pub(crate) fn of(before: &Capture, after: &Capture) -> Scale {
        let samples = (before.samples(), after.samples());
        let is_whole_known = before.cpu_seconds.is_some() && after.cpu_seconds.is_some();
        let disturbed = match (before.is_disturbed(), after.is_disturbed()) {
            (true, true) => Some("both captures"),
            (true, false) => Some("the first capture"),
            (false, true) => Some("the second capture"),
            (false, false) => None,
        };
        let have_same_unit = unit(before.work.as_ref()) == unit(after.work.as_ref());
        let costs =
            cost_per_iteration(before).zip(cost_per_iteration(after)).filter(|_| have_same_unit);
        match costs {
            Some(((measure, before), (other, after))) if measure == other => {
                Scale { measure, whole: (before, after), is_whole_known, samples, disturbed }
            }
            _ => {
                let (measure, whole) = (Measure::Share, (1.0, 1.0));
                Scale { measure, whole, is_whole_known: true, samples, disturbed }
            }
        }
    }

    /// Cost of a sample of each capture.
    fn of_a_sample(&self) -> (f64, f64) {
        let (before, after) = self.samples;
        (self.whole.0 / before.max(1) as f64, self.whole.1 / after.max(1) as f64)
    }

    /// Computes differences from their samples.
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
            difference.is_real = p <= FALSE_SHARE && self.disturbed.is_none();
        }
    }

    /// Variance of counts. A count of zero has the variance of one sample.
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
        // Samples per unit of the measure.
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

/// Cost of an iteration, if the capture contains it.
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
