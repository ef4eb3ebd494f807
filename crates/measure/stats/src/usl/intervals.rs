//! Bootstrap resamples of a curve, and percentile intervals from their fits.

use super::least_squares::{Law, Refitter};
use super::model::{COEFFICIENTS, Usl};
use super::options::FitOptions;
use crate::bootstrap::MedianBootstrap;

/// Minimum rounds for a bootstrap of the median; fewer give too narrow an interval.
const FEWEST_ROUNDS: usize = 3;

/// The basis of the intervals of a fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Rounds resampled within each task count.
    Rounds,
    /// Residuals of the fit, as some task counts have fewer than three rounds.
    Residuals,
    /// Three points with few rounds: the law passes through any three points, so the fit has no
    /// intervals.
    Nothing,
}

/// Draws resamples of a measured curve.
pub(super) struct Resampler {
    points: Vec<(f64, Source)>,
    pub(super) basis: Basis,
    /// Residuals, widened to compensate for the degrees of freedom of the fit.
    residuals: Vec<f64>,
    resamples: u32,
    seed: u64,
}

/// The source of the resampled throughput of a point.
enum Source {
    Rounds(Medians),
    /// The throughput of the law, to which a residual is added.
    Fitted(f64),
}

impl Resampler {
    pub(super) fn new(
        points: &[(u32, Vec<f64>)],
        medians: &[(f64, f64)],
        model: &Usl,
        options: &FitOptions,
    ) -> Self {
        let freedom = medians.len() - COEFFICIENTS;
        let basis = if points.iter().all(|(_, rates)| rates.len() >= FEWEST_ROUNDS) {
            Basis::Rounds
        } else if freedom > 0 {
            Basis::Residuals
        } else {
            Basis::Nothing
        };
        let widening = (medians.len() as f64 / freedom as f64).sqrt();
        let residuals: Vec<f64> =
            medians.iter().map(|&(n, x)| (x - model.throughput(n)) * widening).collect();
        let points = points
            .iter()
            .map(|(tasks, rates)| {
                let n = f64::from(*tasks);
                let source = match basis {
                    Basis::Rounds => Source::Rounds(Medians::of(rates)),
                    Basis::Residuals | Basis::Nothing => Source::Fitted(model.throughput(n)),
                };
                (n, source)
            })
            .collect();
        Self { points, basis, residuals, resamples: options.resamples, seed: options.seed }
    }

    /// The coefficients of every resample by `law`, searched from `start` on; empty if there is
    /// nothing to resample. Resamples with κ = 0 in the `known` fits are not fitted again: they
    /// follow Amdahl's law already.
    pub(super) fn refit(&self, law: Law, start: &Usl, known: &[Usl]) -> Vec<Usl> {
        if self.basis == Basis::Nothing {
            return Vec::new();
        }
        let mut random = oorandom::Rand64::new(self.seed.into());
        let mut curve: Vec<(f64, f64)> = self.points.iter().map(|&(n, _)| (n, 0.0)).collect();
        let refitter = Refitter::new(&curve, law, start);
        (0..self.resamples)
            .map(|nr| {
                // Drawn even if it is not fitted, so that the resamples of both laws are the same.
                for (point, (_, source)) in curve.iter_mut().zip(&self.points) {
                    point.1 = self.draw(source, &mut random);
                }
                match known.get(nr as usize) {
                    Some(model) if model.kappa == 0.0 => *model,
                    _ => refitter.fit(&curve),
                }
            })
            .collect()
    }

    fn draw(&self, source: &Source, random: &mut oorandom::Rand64) -> f64 {
        match source {
            Source::Rounds(medians) => medians.draw(random.rand_float()),
            Source::Fitted(throughput) => {
                let pick = random.rand_range(0..self.residuals.len() as u64) as usize;
                (throughput + self.residuals[pick]).max(0.0)
            }
        }
    }
}

/// Draws medians of resampled rounds, mostly without a search, because drawing them is half of the
/// time of a fit.
struct Medians {
    bootstrap: MedianBootstrap,
    /// The median that all numbers of a slice of 0 to 1 draw; NaN if they draw different medians.
    slices: Vec<f64>,
}

impl Medians {
    /// Many more than the 55 medians of ten rounds, so that most slices have a single median.
    const SLICES: usize = 512;

    fn of(rates: &[f64]) -> Self {
        let bootstrap = MedianBootstrap::of(rates).expect("no point is empty");
        let start = |slice: usize| slice as f64 / Self::SLICES as f64;
        let slices = (0..Self::SLICES)
            .map(|slice| {
                let first = bootstrap.draw(start(slice));
                let last = bootstrap.draw(start(slice + 1).next_down());
                if first == last { first } else { f64::NAN }
            })
            .collect();
        Self { bootstrap, slices }
    }

    fn draw(&self, uniform: f64) -> f64 {
        let median = self.slices[(uniform * Self::SLICES as f64) as usize];
        if median.is_nan() { self.bootstrap.draw(uniform) } else { median }
    }
}

/// The interval that leaves a share of (1 − confidence) / 2 of the values outside of each end;
/// `None` without values.
pub fn percentiles(mut values: Vec<f64>, confidence: f64) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let outside = ((1.0 - confidence) / 2.0 * values.len() as f64).round() as usize;
    Some((*values.get(outside)?, *values.get(values.len() - 1 - outside)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_from_a_slice_is_the_one_that_a_search_finds() {
        let medians = Medians::of(&[3.0, 1.0, 4.0, 1.5, 5.0, 9.0, 2.6]);
        assert!(medians.slices.iter().any(|m| m.is_nan()));
        let mut random = oorandom::Rand64::new(1);
        for _ in 0..10_000 {
            let uniform = random.rand_float();
            assert_eq!(medians.draw(uniform), medians.bootstrap.draw(uniform));
        }
    }

    #[test]
    fn percentiles_leave_equally_many_values_on_each_side() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentiles(values.clone(), 0.9), Some((6.0, 95.0)));
        assert_eq!(percentiles(values[..1].to_vec(), 0.9), Some((100.0, 100.0)));
        assert_eq!(percentiles(Vec::new(), 0.9), None);
    }
}
