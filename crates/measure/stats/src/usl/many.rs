//! Fits many curves at once, on as many threads as there are CPUs.

use rayon::prelude::*;

use super::{Fit, FitOptions, Unfit, fit};

/// The [`fit`] of each of `curves`, in order. The random sequence of each curve depends only on the
/// seed, so the fits are the same for any number of CPUs. Panics on NaN.
pub fn fit_all<C>(curves: &[C], options: &FitOptions) -> Vec<Result<Fit, Unfit>>
where
    C: AsRef<[(u32, Vec<f64>)]> + Sync,
{
    curves.par_iter().map(|curve| fit(curve.as_ref(), options)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usl::Usl;

    #[test]
    fn each_curve_has_the_same_fit_as_alone() {
        let curves: Vec<Vec<(u32, Vec<f64>)>> = (0..20)
            .map(|i| {
                let model = Usl { lambda: 100.0, sigma: 0.01 * f64::from(i), kappa: 0.002 };
                // The first curves have too few points.
                (1..=i)
                    .map(|n| {
                        (n, [0.98, 1.0, 1.03].map(|r| r * model.throughput(f64::from(n))).to_vec())
                    })
                    .collect()
            })
            .collect();
        let options = FitOptions { resamples: 100, ..FitOptions::default() };
        let alone: Vec<_> = curves.iter().map(|curve| fit(curve, &options)).collect();
        assert_eq!(fit_all(&curves, &options), alone);
        assert!(alone[2].is_err() && alone[19].is_ok());
        assert_eq!(fit_all::<Vec<(u32, Vec<f64>)>>(&[], &options), []);
    }
}
