//! What the page concludes from a curve or from a comparison, in words and symbols.

use knee_host::number::percent;
use knee_results::{Curve, MAX_PLAUSIBLE_EFFICIENCY, Verdict};
use knee_stats as stats;

use crate::model::Change;

/// How a curve scales, the worst first. Later verdicts than [`CurveVerdict::Scales`] do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum CurveVerdict {
    Retrograde,
    Contended,
    /// No knee, but some efficiency is implausible.
    Implausible,
    Scales,
    /// A point is disturbed, so nothing is concluded.
    Disturbed,
    Unknown,
    OnePoint,
    Missing,
}

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

impl CurveVerdict {
    /// The verdict on `curve` with its knee at the efficiency `knee`.
    pub(crate) fn of(curve: &Curve, knee: f64) -> Self {
        let is_implausible = || {
            let mut scalings = curve.sound().filter_map(|point| curve.scaling(point));
            scalings.any(|scaling| scaling.is_implausible())
        };
        match curve.verdict(knee) {
            _ if curve.is_disturbed() => Self::Disturbed,
            Verdict::Retrograde => Self::Retrograde,
            Verdict::Contended => Self::Contended,
            Verdict::Scales if is_implausible() => Self::Implausible,
            Verdict::Scales => Self::Scales,
            Verdict::Unknown => Self::Unknown,
            Verdict::OnePoint => Self::OnePoint,
            Verdict::Missing => Self::Missing,
        }
    }

    /// Whether the curve shows how a testcase scales.
    pub(crate) fn counts(self) -> bool {
        self <= Self::Scales
    }

    /// The word for it in JSON and in addresses.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Retrograde => Verdict::Retrograde.as_str(),
            Self::Contended => Verdict::Contended.as_str(),
            Self::Implausible => "implausible",
            Self::Scales => Verdict::Scales.as_str(),
            Self::Disturbed => "disturbed",
            Self::Unknown => Verdict::Unknown.as_str(),
            Self::OnePoint => Verdict::OnePoint.as_str(),
            Self::Missing => Verdict::Missing.as_str(),
        }
    }

    /// An explanation, with the knee at the efficiency `knee`.
    pub(crate) fn meaning(self, knee: f64) -> String {
        let knee = percent(knee);
        match self {
            Self::Retrograde => {
                "throughput at the highest task count is below the peak, and the intervals do not \
                 overlap"
                    .to_owned()
            }
            Self::Contended => {
                format!("efficiency falls below {knee}, but throughput does not fall")
            }
            Self::Implausible => implausible(),
            Self::Scales => {
                format!("efficiency is at least {knee} up to the highest task count")
            }
            Self::Disturbed => {
                "other work disturbed a point, so nothing is concluded from the curve".to_owned()
            }
            Self::Unknown => "there is no usable point at 1 task to compare with".to_owned(),
            Self::OnePoint => {
                "there is only one task count at which each task has a CPU".to_owned()
            }
            Self::Missing => "there is no result".to_owned(),
        }
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
    use knee_results::{CaseId, Mode, Point};

    use super::*;

    const ALL: [CurveVerdict; 8] = [
        CurveVerdict::Retrograde,
        CurveVerdict::Contended,
        CurveVerdict::Implausible,
        CurveVerdict::Scales,
        CurveVerdict::Disturbed,
        CurveVerdict::Unknown,
        CurveVerdict::OnePoint,
        CurveVerdict::Missing,
    ];

    fn curve(rates: &[(u32, f64)], change: impl Fn(&mut Point)) -> Curve {
        let points = rates.iter().map(|&(tasks, rate)| {
            let mut point = Point::new(tasks, vec![rate]).unwrap();
            change(&mut point);
            point
        });
        Curve::new(CaseId::new("a"), Mode::Threads, points.collect())
    }

    fn verdict(rates: &[(u32, f64)], change: impl Fn(&mut Point)) -> CurveVerdict {
        CurveVerdict::of(&curve(rates, change), 0.8)
    }

    #[test]
    fn nothing_is_concluded_from_a_disturbed_curve() {
        let loss = [(1, 10.0), (2, 5.0), (4, 1.0)];
        assert_eq!(verdict(&loss, |_| ()), CurveVerdict::Retrograde);
        assert_eq!(verdict(&loss, |p| p.disturbed = p.tasks == 2), CurveVerdict::Disturbed);
        assert!(!CurveVerdict::Disturbed.counts() && CurveVerdict::Scales.counts());
    }

    #[test]
    fn a_curve_of_more_tasks_than_cpus_is_judged_up_to_the_cpus() {
        let rates = [(1, 10.0), (2, 20.0), (4, 5.0)];
        assert_eq!(verdict(&rates, |p| p.oversubscribed = p.tasks > 2), CurveVerdict::Scales);
        assert_eq!(verdict(&rates, |p| p.oversubscribed = p.tasks > 1), CurveVerdict::OnePoint);
    }

    #[test]
    fn an_implausible_efficiency_does_not_scale_but_excuses_no_loss() {
        assert_eq!(verdict(&[(1, 10.0), (2, 30.0)], |_| ()), CurveVerdict::Implausible);
        assert_eq!(verdict(&[(1, 10.0), (2, 30.0), (4, 9.0)], |_| ()), CurveVerdict::Retrograde);
    }

    #[test]
    fn every_verdict_has_a_symbol_of_its_own() {
        let shapes: std::collections::BTreeSet<&str> =
            ALL.iter().map(|verdict| verdict.label().shape).collect();
        assert_eq!(shapes.len(), ALL.len());
    }
}
