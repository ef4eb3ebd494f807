//! Options of a fit.

/// Options of a fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitOptions {
    /// Confidence of the intervals.
    pub confidence: f64,
    /// Number of bootstrap resamples.
    pub resamples: u32,
    /// Seed of the resamples: the same rounds and seed give the same fit.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { confidence: 0.95, resamples: 2000, seed: 1 }
    }
}
