//! How to fit, and how often to resample.

/// How to fit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitOptions {
    /// Of the intervals.
    pub confidence: f64,
    /// Bootstrap resamples.
    pub resamples: u32,
    /// Of the resamples: the same rounds and seed give the same fit.
    pub seed: u64,
}

impl Default for FitOptions {
    fn default() -> Self {
        Self { confidence: 0.95, resamples: 2000, seed: 1 }
    }
}
