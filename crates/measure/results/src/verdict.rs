//! The verdict on a curve.

use strum::{IntoStaticStr, VariantArray};

/// How a curve scales, the worst first. The verdicts after [`Scales`](Self::Scales) say nothing about
/// scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum CurveVerdict {
    /// Throughput at the highest task count is below the peak, beyond both intervals.
    Retrograde,
    /// There is a knee, but throughput does not fall.
    Contended,
    /// There is no knee, but an efficiency is implausible.
    Implausible,
    /// No knee up to the highest task count.
    Scales,
    /// A point is disturbed, so nothing is concluded.
    Disturbed,
    /// There is no sound point at one task to compare with.
    Unknown,
    /// There is only one task count at which each task has a CPU.
    OnePoint,
    /// Nothing was measured.
    Missing,
}

impl CurveVerdict {
    /// All verdicts, the worst first.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// Whether the curve shows how a testcase scales.
    pub fn counts(self) -> bool {
        self <= Self::Scales
    }

    /// The word for it in JSON and in addresses.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}
