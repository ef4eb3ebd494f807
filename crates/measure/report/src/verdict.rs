//! Verdicts on curves and on comparisons, in words and symbols.

use knee_host::number::percent;
use knee_results::{CurveVerdict, MAX_PLAUSIBLE_EFFICIENCY};
use knee_stats as stats;

use crate::model::Change;

/// The verdict of a comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ChangeVerdict {
    Compared(stats::Verdict),
    /// A side is disturbed, so nothing is concluded.
    Disturbed,
}

/// The texts and the symbol for a verdict.
pub(crate) struct Label {
    /// Its class in the style sheet.
    pub(crate) class: &'static str,
    pub(crate) shape: &'static str,
    pub(crate) words: &'static str,
}

/// A verdict on a curve or on a change.
pub(crate) trait Labelled: Copy {
    fn label(self) -> Label;
}

/// What the verdict on a curve means, with the knee at the efficiency `knee`.
pub(crate) fn meaning(verdict: CurveVerdict, knee: f64) -> String {
    let knee = percent(knee);
    match verdict {
        CurveVerdict::Retrograde => {
            "throughput at the highest task count is below the peak, and the intervals do not \
             overlap"
                .to_owned()
        }
        CurveVerdict::Contended => {
            format!("efficiency falls below {knee}, but throughput does not fall")
        }
        CurveVerdict::Implausible => implausible(),
        CurveVerdict::Scales => {
            format!("efficiency is at least {knee} up to the highest task count")
        }
        CurveVerdict::Disturbed => {
            "other work disturbed a point, so nothing is concluded from the curve".to_owned()
        }
        CurveVerdict::Unknown => "there is no usable point at 1 task to compare with".to_owned(),
        CurveVerdict::OnePoint => {
            "there is only one task count at which each task has a CPU".to_owned()
        }
        CurveVerdict::Missing => "there is no result".to_owned(),
    }
}

/// Why an efficiency is implausible.
pub(crate) fn implausible() -> String {
    format!(
        "an efficiency is above {}; more likely, the placement, a low CPU frequency or a warm-up \
         effect slowed down the point at 1 task",
        percent(MAX_PLAUSIBLE_EFFICIENCY)
    )
}

impl Labelled for CurveVerdict {
    fn label(self) -> Label {
        let (shape, words) = match self {
            Self::Retrograde => ("▼", "retrograde"),
            Self::Contended => ("◐", "contended"),
            Self::Implausible => ("?", "implausible"),
            Self::Scales => ("●", "scales"),
            Self::Disturbed => ("⊗", "disturbed"),
            Self::Unknown => ("○", "no efficiency"),
            Self::OnePoint => ("·", "no curve"),
            Self::Missing => ("✕", "not measured"),
        };
        Label { class: self.as_str(), shape, words }
    }
}

impl ChangeVerdict {
    /// All verdicts, the most important first.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        stats::Verdict::ALL.into_iter().map(Self::Compared).chain([Self::Disturbed])
    }

    pub(crate) fn of(change: &Change) -> Self {
        match change.disturbed {
            true => Self::Disturbed,
            false => Self::Compared(change.comparison.verdict),
        }
    }

    /// The word for it in JSON and in addresses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Compared(verdict) => verdict.as_str(),
            Self::Disturbed => "disturbed",
        }
    }
}

impl Labelled for ChangeVerdict {
    fn label(self) -> Label {
        let (shape, words) = match self {
            Self::Compared(stats::Verdict::Slower) => ("▽", self.as_str()),
            Self::Compared(stats::Verdict::Faster) => ("△", self.as_str()),
            Self::Compared(stats::Verdict::Inconclusive) => ("?", self.as_str()),
            Self::Compared(stats::Verdict::Same) => ("=", self.as_str()),
            Self::Disturbed => ("⊗", "too disturbed"),
        };
        Label { class: self.as_str(), shape, words }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_a_symbol_of_its_own() {
        let shapes: std::collections::BTreeSet<&str> =
            CurveVerdict::ALL.iter().map(|verdict| verdict.label().shape).collect();
        assert_eq!(shapes.len(), CurveVerdict::ALL.len());
    }
}
