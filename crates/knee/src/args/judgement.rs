//! What counts as a change, and what exit status follows from one.

use clap::ValueEnum;
use knee_results::{Compared, Results};
use knee_stats::ministat::Confidence;
use knee_stats::{CompareOptions, Verdict};

use super::percentage;
use crate::exit::ExitStatus;

/// The smallest change that matters, unless --threshold says otherwise.
const THRESHOLD: f64 = 0.02;

/// What --fail-on can name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A point is slower than before
    Slower,
    /// A point is faster than before
    Faster,
    /// A point has neither changed nor been shown to be the same
    Inconclusive,
    /// A point that has results before has none after
    Missing,
}

/// Options of comparisons of runs.
#[derive(clap::Args)]
pub(crate) struct JudgementArgs {
    /// The smallest change that matters [default: 2%]
    #[arg(long, value_name = "P%", allow_negative_numbers = true,
          value_parser = percentage)]
    threshold: Option<f64>,

    /// End with status 1 if any point is this; missing: there is no result after
    #[arg(long, value_name = "VERDICT", value_enum, value_delimiter = ',')]
    fail_on: Vec<FailOn>,
}

impl JudgementArgs {
    /// How to compare, at this confidence.
    pub(crate) fn options(&self, confidence: Confidence) -> CompareOptions {
        CompareOptions {
            confidence: confidence.percent() / 100.0,
            threshold: Some(self.threshold.unwrap_or(THRESHOLD)),
            ..CompareOptions::default()
        }
    }

    /// What the findings mean for whoever called.
    pub(crate) fn judge(&self, compared: &[(&Results, Compared)]) -> ExitStatus {
        let found = |policy: FailOn| compared.iter().any(|(_, compared)| policy.finds(compared));
        match self.fail_on.iter().any(|&policy| found(policy)) {
            true => ExitStatus::Policy,
            false => ExitStatus::Done,
        }
    }

    /// One that was given.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given =
            [(self.threshold.is_some(), "--threshold"), (!self.fail_on.is_empty(), "--fail-on")];
        given.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}

impl FailOn {
    fn finds(self, compared: &Compared) -> bool {
        let any =
            |is: fn(Verdict) -> bool| compared.points.iter().any(|p| is(p.comparison.verdict));
        match self {
            Self::Slower => any(|verdict| verdict == Verdict::Slower),
            Self::Faster => any(|verdict| verdict == Verdict::Faster),
            Self::Inconclusive => any(|verdict| matches!(verdict, Verdict::Inconclusive { .. })),
            // What has another name after is no result of what was before.
            Self::Missing => {
                let gap = compared.gaps.iter().any(|g| g.before.is_none() && g.after.is_some());
                gap || !compared.variants.is_empty()
            }
        }
    }
}
