//! Statistics of measured rates: pure functions of numbers, without input or output.
//!
//! The pipeline of knee is testcase → sample → round → point → curve. This crate holds the steps
//! that are arithmetic; curves are in `knee-results`:
//!
//! * [`Spread`]: the rates of all tasks in one sample → minimum, maximum, mean, deviation,
//!   fairness.
//! * [`median_interval`]: the rates of the rounds of one point → a median and an interval for it
//!   that assumes no distribution.
//! * [`Histogram`]: single times → a distribution whose parts add up, and its [`Quantiles`].
//! * [`noise_floor`]: rounds of one unchanged point → the difference that chance alone shows.
//! * [`ministat`]: data sets of plain numbers → summaries, Student's t-test, a text plot.
//! * [`compare_all`]: the rounds of all points of two runs → ratios with intervals, p-values
//!   corrected for the number of points, verdicts. It uses the tests of Mann and Whitney and of
//!   Welch, [`ratio_of_medians`] and [`benjamini_hochberg`].
//! * [`compare_dependent`]: the same for values that depend on each other, such as quantiles.
//! * [`compare_pairs`]: the same for rounds that were measured interleaved, with Wilcoxon's
//!   signed-rank test.
//! * [`Looks`]: rounds that are judged repeatedly while they are measured → when to look, and which
//!   share of the error probability each look gets.
//! * [`change_points`]: one point over many runs → when it changed and by how much.
//! * [`usl`]: the rounds of one curve → what limits it, by the Universal Scalability Law.
//!
//! ```
//! use knee_stats::median_interval;
//!
//! let rounds = [100.0, 101.0, 99.0, 102.0, 70.0, 100.5];
//! let throughput = median_interval(&rounds, 0.95).unwrap();
//! assert_eq!(throughput.median, 100.25);
//! ```
#![deny(unsafe_code)]

mod binomial;
mod bootstrap;
mod change_points;
mod comparison;
mod grouped;
mod histogram;
mod looks;
mod mann_whitney;
mod median;
pub mod ministat;
mod multiple;
mod noise;
mod signed_rank;
mod spread;
pub mod usl;
mod welch;

pub use bootstrap::{RatioInterval, ratio_of_medians};
pub use change_points::{ChangeOptions, ChangePoint, change_points};
pub use comparison::{
    CompareOptions, Comparison, Drift, Test, Verdict, compare, compare_all, compare_dependent,
    compare_pairs, pairs_to_claim,
};
pub use grouped::ungrouped;
pub use histogram::{Histogram, HistogramError, Quantiles};
pub use looks::Looks;
pub use median::{MedianInterval, median, median_interval};
pub use multiple::{benjamini_hochberg, union_bound};
pub use noise::{NoiseFloor, noise_floor};
pub use spread::Spread;
