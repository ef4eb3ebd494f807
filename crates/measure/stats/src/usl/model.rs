//! The law and the quantities that follow from its three coefficients.

/// Number of coefficients, and of the points that determine them. Only further points test the law.
pub(super) const COEFFICIENTS: usize = 3;

/// A throughput curve by the Universal Scalability Law,
/// X(n) = λn / (1 + σ(n − 1) + κn(n − 1)).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Usl {
    /// Throughput of one task, λ > 0.
    pub lambda: f64,
    /// Contention, 0 ≤ σ ≤ 1: the serial share of the work, which one task at a time can do.
    pub sigma: f64,
    /// Coherency, κ ≥ 0: the cost of communication between each pair of tasks, as a share of the
    /// work of one task.
    pub kappa: f64,
}

impl Usl {
    /// Throughput at `tasks`, which may be fractional.
    pub fn throughput(&self, tasks: f64) -> f64 {
        self.lambda * tasks * self.efficiency(tasks)
    }

    /// Throughput divided by that of perfect scaling.
    pub fn efficiency(&self, tasks: f64) -> f64 {
        1.0 / (1.0 + self.sigma * (tasks - 1.0) + self.kappa * tasks * (tasks - 1.0))
    }

    /// The task count of greatest throughput, n* = √((1 − σ) / κ), at least 1. `None` if κ is 0:
    /// throughput never falls.
    pub fn peak(&self) -> Option<f64> {
        (self.kappa > 0.0).then(|| ((1.0 - self.sigma) / self.kappa).sqrt().max(1.0))
    }

    /// The maximum speed-up with contention alone, 1/σ: Amdahl's limit. `None` if σ is 0.
    pub fn speedup_limit(&self) -> Option<f64> {
        (self.sigma > 0.0).then(|| 1.0 / self.sigma)
    }

    /// The knee: the first whole task count whose efficiency is below `threshold` (0 to 1,
    /// exclusive). `None` if there is none up to `u32::MAX`.
    pub fn knee(&self, threshold: f64) -> Option<u32> {
        // κk² + (σ + κ)k = 1/threshold − 1 for k = n − 1, solved without cancellation.
        let loss = 1.0 / threshold - 1.0;
        let linear = self.sigma + self.kappa;
        let beyond_one = 2.0 * loss / (linear + (linear * linear + 4.0 * self.kappa * loss).sqrt());
        let mut knee = beyond_one.floor() + 2.0;
        // An integer root can be rounded to either side.
        if knee > 2.0 && self.efficiency(knee - 1.0) < threshold {
            knee -= 1.0;
        }
        (knee <= f64::from(u32::MAX)).then_some(knee as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn perfect_scaling_has_no_peak_no_limit_and_no_knee() {
        let perfect = Usl { lambda: 5.0, sigma: 0.0, kappa: 0.0 };
        assert_eq!(perfect.throughput(8.0), 40.0);
        assert_eq!(
            (perfect.peak(), perfect.speedup_limit(), perfect.knee(0.8)),
            (None, None, None)
        );
    }

    #[test]
    fn full_contention_peaks_at_one_task() {
        let serial = Usl { lambda: 5.0, sigma: 1.0, kappa: 0.01 };
        assert_eq!(serial.peak(), Some(1.0));
        assert_eq!(serial.speedup_limit(), Some(1.0));
        assert_eq!(serial.knee(0.8), Some(2));
    }

    proptest! {
        #[test]
        fn the_knee_is_the_first_inefficient_task_count(
            sigma in 0.0..1.0, kappa in 0.0..0.1, threshold in 0.05..0.95
        ) {
            let model = Usl { lambda: 1.0, sigma, kappa };
            let first = (1..100_000u32).find(|&n| model.efficiency(f64::from(n)) < threshold);
            prop_assume!(first.is_some());
            prop_assert_eq!(model.knee(threshold), first);
        }

        #[test]
        fn the_peak_is_above_its_neighbours(sigma in 0.0..0.9, kappa in 1e-6..0.05) {
            let model = Usl { lambda: 1.0, sigma, kappa };
            let peak = model.peak().unwrap();
            for other in [peak * 0.99, peak * 1.01] {
                prop_assert!(model.throughput(peak) >= model.throughput(other.max(1.0)));
            }
        }
    }
}
