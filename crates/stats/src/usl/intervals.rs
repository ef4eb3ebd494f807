//! Bootstrap resamples of a curve, and percentiles of what they give.

use super::least_squares::{Law, Refitter};
use super::{Basis, COEFFICIENTS, FitOptions, Usl};
use crate::bootstrap::MedianBootstrap;

/// The bootstrap of a median of fewer rounds is too narrow to be shown.
const FEWEST_ROUNDS: usize = 3;

/// Draws curves that might have been measured in place of the one that was.
pub(super) struct Resampler {
    points: Vec<(f64, Source)>,
    basis: Basis,
    /// Residuals widened by the degrees of freedom that the fit took.
    residuals: Vec<f64>,
    resamples: u32,
    seed: u64,
}

/// Where a point's resampled throughput comes from.
enum Source {
    Rounds(MedianBootstrap),
    /// The law's own throughput, to which a residual is added.
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
                    Basis::Rounds => {
                        Source::Rounds(MedianBootstrap::of(rates).expect("no point is empty"))
                    }
                    Basis::Residuals | Basis::Nothing => Source::Fitted(model.throughput(n)),
                };
                (n, source)
            })
            .collect();
        Self { points, basis, residuals, resamples: options.resamples, seed: options.seed }
    }

    pub(super) fn basis(&self) -> Basis {
        self.basis
    }

    /// The coefficients of every resample after `law`; empty when there is nothing to resample.
    pub(super) fn refit(&self, law: Law, start: &Usl) -> Vec<Usl> {
        if self.basis == Basis::Nothing {
            return Vec::new();
        }
        let mut random = oorandom::Rand64::new(self.seed.into());
        let refitter = Refitter::new(self.points.iter().map(|&(n, _)| n), law, start);
        let mut curve: Vec<(f64, f64)> = self.points.iter().map(|&(n, _)| (n, 0.0)).collect();
        (0..self.resamples)
            .map(|_| {
                for (point, (_, source)) in curve.iter_mut().zip(&self.points) {
                    point.1 = self.draw(source, &mut random);
                }
                refitter.fit(&curve)
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

/// The interval between the percentiles that leave (1 − confidence) / 2 on either side; `None`
/// without values.
pub(super) fn percentiles(mut values: Vec<f64>, confidence: f64) -> Option<(f64, f64)> {
    values.sort_by(f64::total_cmp);
    let outside = ((1.0 - confidence) / 2.0 * values.len() as f64).round() as usize;
    Some((*values.get(outside)?, *values.get(values.len() - 1 - outside)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_leave_as_many_on_either_side() {
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!(percentiles(values.clone(), 0.9), Some((6.0, 95.0)));
        assert_eq!(percentiles(values[..1].to_vec(), 0.9), Some((100.0, 100.0)));
        assert_eq!(percentiles(Vec::new(), 0.9), None);
    }
}
