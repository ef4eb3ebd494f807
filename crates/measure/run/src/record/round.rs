//! The summary of a round, whose size does not depend on the sample count.

use std::collections::BTreeMap;

use knee_results::{CpuShares, Mark, PointId};
use knee_stats::Spread;

use super::SampleLine;
use crate::job::Phase;

/// The sums over the measured samples of one round of a point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundSummary {
    /// Number of samples that count.
    pub samples: u64,
    /// How many of them are marked.
    pub marked: u64,
    /// How many of them carry each mark.
    pub marks: BTreeMap<Mark, u64>,
    /// Slowest task of any sample, per second.
    pub min: f64,
    /// Fastest task of any sample, per second.
    pub max: f64,
    /// Steps per second of the reference loop before it.
    pub reference: Option<f64>,
    clean: Work,
    all: Work,
    fairness: f64,
    cpu: CpuShares,
    cpu_samples: u64,
}

/// Units done, and the time they took.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Work {
    done: f64,
    seconds: f64,
}

impl Work {
    fn add(&mut self, line: &SampleLine) {
        self.done += line.spread.total * line.seconds;
        self.seconds += line.seconds;
    }

    fn rate(&self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.done / self.seconds)
    }
}

impl RoundSummary {
    /// Adds a sample; one of the warm-up does not count.
    pub fn add(&mut self, line: &SampleLine) {
        if line.phase != Phase::Measure {
            return;
        }
        let Spread { min, max, fairness, .. } = line.spread;
        self.min = if self.samples == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(max);
        self.samples += 1;
        self.reference = line.reference;
        self.fairness += fairness;
        self.all.add(line);
        if line.marks.is_empty() {
            self.clean.add(line);
        } else {
            self.marked += 1;
        }
        for mark in &line.marks {
            *self.marks.entry(*mark).or_insert(0) += 1;
        }
        if let Some(cpu) = line.cpu {
            self.cpu = self.cpu + cpu;
            self.cpu_samples += 1;
        }
    }

    /// The rate of the round from its unmarked samples: units divided by time. `None` if most
    /// samples are marked. The kernel accounts for a wait when it ends, so an unmarked sample next
    /// to a marked one may have lost its CPU too, and have the lowest rate of all.
    pub fn clean_rate(&self) -> Option<f64> {
        self.clean.rate().filter(|_| 2 * self.marked <= self.samples)
    }

    /// The rate of the round from all its samples, disturbed or not.
    pub fn rate(&self) -> Option<f64> {
        self.all.rate()
    }

    /// Seconds of all samples that count.
    pub fn seconds(&self) -> f64 {
        self.all.seconds
    }

    /// Mean of Jain's fairness index over the samples.
    pub fn fairness(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.fairness / self.samples as f64)
    }

    /// How the CPUs of the point spent their time, averaged over the samples.
    pub fn cpu(&self) -> Option<CpuShares> {
        (self.cpu_samples > 0).then(|| self.cpu / self.cpu_samples as f64)
    }
}

/// The rates of the rounds of a point. Disturbed rounds count only if no round is clean: they share
/// the disturbance, and must not outvote the clean ones.
pub fn round_rates<'r>(rounds: impl Iterator<Item = &'r RoundSummary> + Clone) -> Vec<f64> {
    let clean: Vec<f64> = rounds.clone().filter_map(RoundSummary::clean_rate).collect();
    if clean.is_empty() { all_round_rates(rounds) } else { clean }
}

/// Whether fewer than half of the `asked` rounds of a point are clean. The others may then share a
/// disturbance that knee did not notice.
pub fn is_disturbed<'r>(
    rounds: impl Iterator<Item = &'r RoundSummary> + Clone,
    asked: u32,
) -> bool {
    let clean = rounds.clone().filter_map(RoundSummary::clean_rate).count();
    2 * clean < rounds.count().min(asked as usize)
}

/// The rates of all rounds of a point from all their samples, disturbed or not.
pub fn all_round_rates<'r>(rounds: impl Iterator<Item = &'r RoundSummary>) -> Vec<f64> {
    rounds.filter_map(RoundSummary::rate).collect()
}

/// The rounds of each point, by number.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rounds(BTreeMap<PointId, BTreeMap<u32, RoundSummary>>);

impl Rounds {
    /// Adds a sample to its round.
    pub fn add(&mut self, line: &SampleLine) {
        // Clones the point only for its first line.
        let rounds = match self.0.get_mut(&line.point) {
            Some(rounds) => rounds,
            None => self.0.entry(line.point.clone()).or_default(),
        };
        rounds.entry(line.round).or_default().add(line);
    }

    /// The rounds of `point`, first to last.
    pub fn of(&self, point: &PointId) -> impl Iterator<Item = &RoundSummary> + Clone {
        self.0.get(point).into_iter().flat_map(BTreeMap::values)
    }

    /// The rounds that both points have, first to last.
    pub fn pairs(
        &self,
        before: &PointId,
        after: &PointId,
    ) -> impl Iterator<Item = (&RoundSummary, &RoundSummary)> {
        let rounds = self.0.get(before).into_iter().flatten();
        rounds.filter_map(|(&nr, round)| Some((round, self.get(after, nr)?)))
    }

    /// Round number `round` of `point`.
    pub fn get(&self, point: &PointId, round: u32) -> Option<&RoundSummary> {
        self.0.get(point)?.get(&round)
    }

    /// Whether round number `round` of `point` exists.
    pub fn contains(&self, point: &PointId, round: u32) -> bool {
        self.get(point, round).is_some()
    }

    /// Keeps the rounds for which `keep` returns true.
    pub(super) fn retain(&mut self, keep: impl Fn(&PointId, u32, &RoundSummary) -> bool) {
        for (point, rounds) in &mut self.0 {
            rounds.retain(|&nr, round| keep(point, nr, round));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disturbed_rounds_outvoted_clean_ones() {
        let round = |rate: f64, marked: bool| {
            let work = Work { done: rate, seconds: 1.0 };
            let clean = if marked { Work::default() } else { work };
            RoundSummary { samples: 1, all: work, clean, ..RoundSummary::default() }
        };
        let rounds = [round(9.0, true), round(18.2, false), round(9.3, true), round(9.1, true)];
        assert_eq!(round_rates(rounds.iter()), [18.2]);
        assert_eq!(round_rates(rounds[..1].iter()), [9.0]);
        assert_eq!(all_round_rates(rounds.iter()), [9.0, 18.2, 9.3, 9.1]);
    }
}
