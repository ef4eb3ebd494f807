//! The `--confidence` option.

use knee_stats::ministat::Confidence;

/// The confidence of all intervals and verdicts of a command.
#[derive(clap::Args)]
pub(crate) struct ConfidenceArgs {
    /// Confidence level of intervals and verdicts: 80, 90, 95, 98, 99 or 99.5 [default: 95]
    #[arg(short, long, value_name = "P%")]
    confidence: Option<Confidence>,
}

impl ConfidenceArgs {
    pub(crate) fn get(&self) -> Confidence {
        self.confidence.unwrap_or_default()
    }

    /// The confidence that the user passed, if any.
    pub(crate) fn given(&self) -> Option<Confidence> {
        self.confidence
    }
}
