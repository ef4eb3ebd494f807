//! The `--confidence` option.

use knee_stats::ministat::Confidence;

/// The confidence of all intervals and verdicts of a command.
#[derive(clap::Args)]
pub(crate) struct ConfidenceArgs {
    /// Confidence level of intervals and verdicts: 80, 90, 95, 98, 99 or 99.5
    #[arg(short, long, value_name = "P%", default_value = "95", allow_negative_numbers = true)]
    confidence: Confidence,
}

impl ConfidenceArgs {
    pub(crate) fn get(&self) -> Confidence {
        self.confidence
    }
}
