//! What limits a curve: the Universal Scalability Law, fitted to the rounds of its points.
//!
//! N. J. Gunther, "Guerrilla Capacity Planning", Springer 2007, chapters 4 to 6, with λ in place
//! of a measured X(1) as in B. Schwartz, "Practical Scalability Analysis with the Universal
//! Scalability Law", 2015. [`fit`] takes rounds and returns coefficients with intervals and the
//! quality of the fit.
//!
//! # Intervals
//!
//! They are bootstrap percentile intervals. With three or more rounds at every task count, the
//! rounds of each are resampled, and the law is fitted to the medians of each resample (to a
//! tolerance far below the error of a finite number of resamples). The intervals show the
//! coefficients that other rounds on the same machine would give if the law holds. Whether it holds
//! is shown by R² and the residuals. With fewer rounds, the residuals of the fit are resampled
//! instead (Efron and Tibshirani, "An Introduction to the Bootstrap", 1993, chapter 9).
//!
//! # Amdahl's law
//!
//! If the interval of κ includes 0, the data do not show that throughput ever falls. The law is
//! then fitted again with κ = 0: there is no peak, and the limit is a speed-up of 1/σ.
//!
//! ```
//! use knee_stats::usl::{FitOptions, fit};
//!
//! // A mutex: half the work is serial.
//! let rounds: Vec<(u32, Vec<f64>)> = [1, 2, 4, 8, 12, 16]
//!     .map(|n: u32| (n, [0.99, 1.0, 1.01].map(|r| r * f64::from(200 * n / (1 + n))).to_vec()))
//!     .into();
//! let fit = fit(&rounds, &FitOptions::default()).unwrap();
//! assert!(fit.is_amdahl && (fit.model.sigma - 0.5).abs() < 0.02);
//! assert_eq!(fit.model.knee(0.8), Some(2));
//! assert!(fit.is_prediction);
//! ```

mod intervals;
mod least_squares;
mod many;
mod model;
mod options;

pub use intervals::{Basis, percentiles};
pub use many::fit_all;
pub use model::Usl;
pub use options::FitOptions;

use serde::Serialize;

use crate::median;
use intervals::Resampler;
use least_squares::Law;
use model::COEFFICIENTS;

/// Three coefficients require three different task counts.
pub const FEWEST_TO_FIT: usize = COEFFICIENTS;
/// Gunther advises at least six points before a fit is used to predict.
pub const FEWEST_TO_PREDICT: usize = 6;
/// κ counts as 0 if its cost at the most tasks measured is below this share of the time of one
/// task, which no measurement resolves.
const UNRESOLVED: f64 = 1e-6;

/// Why there is no fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// There are fewer than [`FEWEST_TO_FIT`] different task counts.
    #[error("the curve has only {0} of the three task counts that the law requires")]
    TooFewPoints(usize),
    /// Nothing ran at any task count.
    #[error("the throughput is 0 at every task count")]
    NoThroughput,
}

/// A value and its interval, if there is one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The best value.
    pub value: f64,
    /// Lower and upper end.
    pub interval: Option<(f64, f64)>,
}

/// One point compared with the law.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Residual {
    /// Task count.
    pub tasks: u32,
    /// Median throughput of the rounds.
    pub measured: f64,
    /// Throughput by the law.
    pub predicted: f64,
}

/// The law fitted to a curve.
#[derive(Debug, Clone, PartialEq)]
pub struct Fit {
    /// The fitted coefficients; κ is 0 if `is_amdahl`.
    pub model: Usl,
    /// Whether κ cannot be distinguished from 0, so that the model is Amdahl's law.
    pub is_amdahl: bool,
    /// Throughput of one task.
    pub lambda: Estimate,
    /// Contention.
    pub sigma: Estimate,
    /// Coherency. If `is_amdahl`, the value is 0, and the interval is that of the fit before this
    /// decision: the upper end bounds κ.
    pub kappa: Estimate,
    /// Task count of greatest throughput; `None` if throughput does not fall.
    pub peak: Option<Estimate>,
    /// Share of the variance between points that the model explains; can be negative. `None` if all
    /// points are equal.
    pub r_squared: Option<f64>,
    /// Root of the mean squared residual, in units of throughput.
    pub rmse: f64,
    /// All points, fewest tasks first.
    pub residuals: Vec<Residual>,
    /// Whether the fit can predict points that were not measured. This requires at least six
    /// different task counts; a fit to fewer only describes the points.
    pub is_prediction: bool,
    /// The basis of the intervals.
    pub basis: Basis,
}

/// Fits the law to (tasks, rates of the rounds) in any order. Points without rounds are ignored,
/// and the rounds of equal task counts are combined. Panics on NaN.
pub fn fit(rounds: &[(u32, Vec<f64>)], options: &FitOptions) -> Result<Fit, Unfit> {
    let points = gather(rounds);
    if points.len() < FEWEST_TO_FIT {
        return Err(Unfit::TooFewPoints(points.len()));
    }
    let medians: Vec<(f64, f64)> = points
        .iter()
        .map(|(n, rates)| (f64::from(*n), median(rates).expect("no point is empty")))
        .collect();
    if medians.iter().all(|&(_, x)| x <= 0.0) {
        return Err(Unfit::NoThroughput);
    }
    let most_tasks = medians[medians.len() - 1].0;
    let is_unresolved = |kappa: f64| kappa * most_tasks * (most_tasks - 1.0) < UNRESOLVED;

    let universal = least_squares::fit(&medians, Law::Universal);
    let resampler = Resampler::new(&points, &medians, &universal, options);
    let resampled = resampler.refit(Law::Universal, &universal, &[]);
    let kappa = estimate(universal.kappa, &resampled, options, |m| m.kappa);
    let is_amdahl = is_unresolved(kappa.interval.map_or(kappa.value, |(low, _)| low));
    let (model, resampled) = if is_amdahl {
        let amdahl = least_squares::fit(&medians, Law::Amdahl);
        (amdahl, resampler.refit(Law::Amdahl, &amdahl, &resampled))
    } else {
        (universal, resampled)
    };
    let peak = model
        .peak()
        .map(|peak| estimate(peak, &resampled, options, |m| m.peak().unwrap_or(f64::INFINITY)));
    let residuals: Vec<Residual> = points
        .iter()
        .zip(&medians)
        .map(|((tasks, _), &(n, measured))| Residual {
            tasks: *tasks,
            measured,
            predicted: model.throughput(n),
        })
        .collect();
    let (r_squared, rmse) = goodness(&residuals);
    Ok(Fit {
        model,
        is_amdahl,
        lambda: estimate(model.lambda, &resampled, options, |m| m.lambda),
        sigma: estimate(model.sigma, &resampled, options, |m| m.sigma),
        kappa: Estimate { value: model.kappa, ..kappa },
        peak,
        r_squared,
        rmse,
        residuals,
        is_prediction: points.len() >= FEWEST_TO_PREDICT,
        basis: resampler.basis,
    })
}

fn gather(rounds: &[(u32, Vec<f64>)]) -> Vec<(u32, Vec<f64>)> {
    let mut by_tasks = std::collections::BTreeMap::<u32, Vec<f64>>::new();
    for (tasks, rates) in rounds.iter().filter(|(_, rates)| !rates.is_empty()) {
        by_tasks.entry(*tasks).or_default().extend(rates);
    }
    by_tasks.into_iter().collect()
}

fn estimate(
    value: f64,
    resampled: &[Usl],
    options: &FitOptions,
    of: impl Fn(&Usl) -> f64,
) -> Estimate {
    let values = resampled.iter().map(of).collect();
    Estimate { value, interval: percentiles(values, options.confidence) }
}

fn goodness(residuals: &[Residual]) -> (Option<f64>, f64) {
    let n = residuals.len() as f64;
    let mean = residuals.iter().map(|r| r.measured).sum::<f64>() / n;
    let total: f64 = residuals.iter().map(|r| (r.measured - mean).powi(2)).sum();
    let left: f64 = residuals.iter().map(|r| (r.measured - r.predicted).powi(2)).sum();
    ((total > 0.0).then(|| 1.0 - left / total), (left / n).sqrt())
}

#[cfg(test)]
mod tests;
