//! Options that decide which differences count as changes, and the exit status for changes.

use clap::ValueEnum;
use knee_results::{Compared, ComparedPoint, Results};
use knee_run::record::RunRecord;
use knee_stats::ministat::Confidence;
use knee_stats::{CompareOptions, Verdict};

use super::confidence::ConfidenceArgs;
use super::percentage;
use crate::exit::ExitStatus;

/// The default of --threshold.
const THRESHOLD: f64 = 0.02;

/// The values of --fail-on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum FailOn {
    /// A point is slower than before, or a compared latency is longer
    Slower,
    /// A point is faster than before, or a compared latency is shorter
    Faster,
    /// It is unclear whether a point changed
    Inconclusive,
    /// A point has results before but not after
    Missing,
}

/// Options for comparing runs.
#[derive(clap::Args)]
pub(crate) struct JudgementArgs {
    /// Smallest change that counts as faster or slower [default: 2%]
    #[arg(long, value_name = "P%",
          value_parser = percentage)]
    threshold: Option<f64>,

    /// Exit with status 1 if any point (testcase, mode, task count) has one of these verdicts, or
    /// with status 5 if a point is too disturbed to tell, or a server was not busy
    #[arg(long, value_name = "VERDICT", value_enum, value_delimiter = ',')]
    fail_on: Vec<FailOn>,
}

impl JudgementArgs {
    /// The options of a comparison at `confidence`.
    pub(crate) fn options(&self, confidence: Confidence) -> CompareOptions {
        CompareOptions {
            confidence: confidence.percent() / 100.0,
            threshold: Some(self.threshold.unwrap_or(THRESHOLD)),
            ..CompareOptions::default()
        }
    }

    /// The options for judging `run`. A run that ended when it was decided is judged by the question
    /// that it decided, except for options that the user passed.
    pub(crate) fn options_for(&self, run: &RunRecord, given: &ConfidenceArgs) -> CompareOptions {
        let options = self.options(given.get());
        let Some(asked) = run.request.until_decided else { return options };
        CompareOptions {
            confidence: given.given().map_or(asked.confidence, |_| options.confidence),
            threshold: self.threshold.or(Some(asked.within)),
            looks: run.looks(),
        }
    }

    /// The exit status that --fail-on requires for these results.
    pub(crate) fn judge(&self, compared: &[(&Results, Compared)]) -> ExitStatus {
        let any = |holds: fn(FailOn, &Compared) -> bool| {
            let policies = || self.fail_on.iter();
            compared.iter().any(|(_, compared)| policies().any(|&policy| holds(policy, compared)))
        };
        if any(FailOn::finds) {
            ExitStatus::Policy
        } else if any(FailOn::could_find) {
            ExitStatus::TooNoisy
        } else {
            ExitStatus::Done
        }
    }

    /// The name of the first option of this group that the user passed, if any.
    pub(crate) fn given(&self) -> Option<&'static str> {
        let given =
            [(self.threshold.is_some(), "--threshold"), (!self.fail_on.is_empty(), "--fail-on")];
        given.into_iter().find_map(|(given, name)| given.then_some(name))
    }
}

impl FailOn {
    fn finds(self, compared: &Compared) -> bool {
        let any = |verdict| compared.points.iter().any(|p| p.comparison.verdict == verdict);
        let latency = |verdict| compared.latencies.iter().any(|l| l.comparison.verdict == verdict);
        match self {
            Self::Slower => any(Verdict::Slower) || latency(Verdict::Slower),
            Self::Faster => any(Verdict::Faster) || latency(Verdict::Faster),
            Self::Inconclusive => any(Verdict::Inconclusive),
            // A result of a different variant does not replace the missing result.
            Self::Missing => {
                let gap = compared.gaps.iter().any(|g| g.before.is_none() && g.after.is_some());
                gap || !compared.variants.is_empty()
            }
        }
    }

    /// Whether a point that is too disturbed for a verdict, whose server was not busy, or whose latency is
    /// missing could have this one.
    fn could_find(self, compared: &Compared) -> bool {
        match self {
            Self::Slower | Self::Faster => {
                let is_unknown = |p: &ComparedPoint| p.disturbed || p.lacks_load();
                compared.points.iter().any(is_unknown) || !compared.latency_gaps.is_empty()
            }
            Self::Inconclusive | Self::Missing => false,
        }
    }
}
