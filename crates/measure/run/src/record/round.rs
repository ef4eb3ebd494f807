//! The summary of a round, whose size does not depend on the sample count.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use knee_results::{CaseId, CountedWork, CpuShares, Latency, Mark, PointId, Served, ServerUse};
use knee_stats::{Spread, median};

use super::{RunRecord, SampleLine};
use crate::job::{Command, Failure, FailureKind, Phase};
use crate::plan::Case;

/// A round is marked if its CPUs were this much slower than in most rounds.
const SLOW_CPU: f64 = 0.05;
/// A round is marked if memory was this much slower than in most rounds. The speed of memory varies
/// by a quarter on a quiet machine, with the share of the last-level cache that the task gets.
const SLOW_MEMORY: f64 = 0.35;
/// How many rounds apart the two sides of a pair may be.
const FARTHEST: u32 = 2;
/// Fewest speeds that show which are usual.
const FEWEST_SPEEDS: usize = 4;

/// The sums over the measured samples of one round of a point.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct RoundSummary {
    /// Number of samples that count.
    pub samples: u64,
    /// How many of them carry each mark.
    marks: BTreeMap<Mark, u64>,
    /// How many of them are marked.
    marked: u64,
    /// Marks that apply to all of them.
    marks_of_all: BTreeSet<Mark>,
    /// Slowest task of any sample, per second.
    pub min: f64,
    /// Fastest task of any sample, per second.
    pub max: f64,
    /// Steps per second of the reference loop before it.
    pub reference: Option<f64>,
    /// Steps per second of the reference loop after it. An older record repeats the speed before it.
    after: Option<f64>,
    /// Bytes per second that a task read from memory before it.
    pub memory: Option<f64>,
    clean: Work,
    all: Work,
    fairness: f64,
    cpu: CpuShares,
    cpu_samples: u64,
    server: Option<ServerUse>,
    /// Of the unmarked samples.
    clean_latency: Latency,
    /// Of all samples.
    all_latency: Latency,
    latency_failure: Option<Failure>,
    /// Of the unmarked samples.
    clean_counters: CountedWork,
    /// Of all samples.
    all_counters: CountedWork,
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
    /// Adds a line; one of the warm-up does not count.
    pub fn add(&mut self, line: &SampleLine) {
        match line.phase {
            Phase::Warmup => return,
            Phase::Round => {
                self.after = line.reference;
                return self.marks_of_all.extend(&line.marks);
            }
            Phase::Measure => {}
        }
        let Spread { min, max, fairness, .. } = line.spread;
        self.min = if self.samples == 0 { min } else { self.min.min(min) };
        self.max = self.max.max(max);
        self.samples += 1;
        self.reference = line.reference;
        self.memory = line.memory;
        self.server = line.server;
        self.latency_failure.clone_from(&line.latency_failure);
        self.fairness += fairness;
        self.all.add(line);
        let no_latency = Latency::default();
        let latency = line.latency.as_ref().unwrap_or(&no_latency);
        self.all_latency.add(latency);
        let rate = line.spread.total;
        let counters = line.counters.as_ref();
        counters.into_iter().for_each(|counts| self.all_counters.add(counts, rate));
        if line.marks.is_empty() {
            self.clean.add(line);
            self.clean_latency.add(latency);
            counters.into_iter().for_each(|counts| self.clean_counters.add(counts, rate));
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

    /// How many samples are marked, by themselves or with the whole round.
    pub fn marked(&self) -> u64 {
        if self.marks_of_all.is_empty() { self.marked } else { self.samples }
    }

    /// How many samples carry each mark.
    pub fn marks(&self) -> BTreeMap<Mark, u64> {
        let of_all = self.marks_of_all.iter().map(|&mark| (mark, self.samples));
        self.marks.clone().into_iter().chain(of_all).collect()
    }

    /// The rate of the round from its unmarked samples: units divided by time. `None` if most
    /// samples or the whole round are marked. The kernel accounts for a wait when it ends, so an
    /// unmarked sample next to a marked one may have lost its CPU too, and have the lowest rate of
    /// all.
    pub fn clean_rate(&self) -> Option<f64> {
        self.clean.rate().filter(|_| 2 * self.marked() <= self.samples)
    }

    /// The latencies of the samples behind [`Self::clean_rate`], or of all samples if that is `None`.
    pub fn latency(&self) -> &Latency {
        if self.clean_rate().is_some() { &self.clean_latency } else { &self.all_latency }
    }

    /// The events of the samples behind [`Self::clean_rate`], or of all samples if that is `None`.
    pub fn counters(&self) -> &CountedWork {
        if self.clean_rate().is_some() { &self.clean_counters } else { &self.all_counters }
    }

    /// Why the latency of a server could not be measured after its rate, if so.
    pub fn latency_failure(&self) -> Option<&Failure> {
        self.latency_failure.as_ref()
    }

    /// The failure of a server while its latency was measured. Late replies are not a failure: other work on
    /// the machine can delay them, so they cost the round only its latency.
    pub fn failure(&self) -> Option<&Failure> {
        self.latency_failure().filter(|failure| failure.kind != FailureKind::Hung)
    }

    /// The rate of the round from all its samples, disturbed or not.
    pub fn rate(&self) -> Option<f64> {
        self.all.rate()
    }

    /// Steps per second of the reference loop, before and after the round.
    pub fn cpu_speed(&self) -> Option<f64> {
        let before = self.reference?;
        Some(self.after.map_or(before, |after| (before + after) / 2.0))
    }

    /// Seconds of all samples that count.
    pub fn seconds(&self) -> f64 {
        self.all.seconds
    }

    /// Mean of Jain's fairness index over the samples.
    pub fn fairness(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.fairness / self.samples as f64)
    }

    /// How the server of this round and its load used their CPUs, if there is a server. Such a round has
    /// one sample.
    pub fn served(&self) -> Option<Served> {
        let ServerUse { server_cpu, server_busy, load_busy, shared, .. } = self.server?;
        let requests = self.all.done;
        let cpu_per_request = if requests > 0.0 { server_cpu / requests } else { 0.0 };
        Some(Served { server_busy, load_busy, cpu_per_request, shared })
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

/// Whether so few of the `measured` rounds of a point are clean, fewer than half of the `asked` ones or
/// a third of all, that the clean ones may share a disturbance that knee did not notice.
pub fn is_disturbed(clean: usize, measured: usize, asked: u32) -> bool {
    2 * clean < measured.min(asked as usize) || 3 * clean < measured
}

/// The rates of all rounds of a point from all their samples, disturbed or not.
fn all_round_rates<'r>(rounds: impl Iterator<Item = &'r RoundSummary>) -> Vec<f64> {
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
        self.numbered(point).map(|(_, round)| round)
    }

    /// The rounds of `point` with their numbers, first to last.
    pub fn numbered(&self, point: &PointId) -> impl Iterator<Item = (u32, &RoundSummary)> + Clone {
        self.0.get(point).into_iter().flatten().map(|(&nr, round)| (nr, round))
    }

    /// Adds a whole round.
    pub fn insert(&mut self, point: &PointId, nr: u32, round: RoundSummary) {
        self.0.entry(point.clone()).or_default().insert(nr, round);
    }

    /// The rounds that both points have, first to last.
    pub fn pairs(
        &self,
        before: &PointId,
        after: &PointId,
    ) -> impl Iterator<Item = (&RoundSummary, &RoundSummary)> + Clone {
        let rounds = self.0.get(before).into_iter().flatten();
        rounds.filter_map(|(&nr, round)| Some((round, self.get(after, nr)?)))
    }

    /// The rates before and after of clean rounds of both points, in the order of the rounds. A clean round
    /// whose partner is disturbed is paired with one that is at most two rounds away. The choice
    /// does not depend on the rates, so it favours no result.
    pub fn clean_pairs(&self, before: &PointId, after: &PointId) -> Vec<(f64, f64)> {
        let clean = |point: &PointId| -> BTreeMap<u32, f64> {
            let rounds = self.0.get(point).into_iter().flatten();
            rounds.filter_map(|(&nr, round)| Some((nr, round.clean_rate()?))).collect()
        };
        let (mut before, mut after) = (clean(before), clean(after));
        let mut pairs: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
        before.retain(|&nr, &mut rate| {
            let other = after.remove(&nr);
            pairs.extend(other.map(|other| (nr, (rate, other))));
            other.is_none()
        });
        let (mut before, mut after) = (before.into_iter().peekable(), after.into_iter().peekable());
        while let (Some(&(nr, rate)), Some(&(other_nr, other))) = (before.peek(), after.peek()) {
            let is_near = nr.abs_diff(other_nr) <= FARTHEST;
            if is_near {
                pairs.insert(nr, (rate, other));
            }
            if is_near || nr < other_nr {
                before.next();
            }
            if is_near || nr > other_nr {
                after.next();
            }
        }
        pairs.into_values().collect()
    }

    /// Round number `round` of `point`.
    pub fn get(&self, point: &PointId, round: u32) -> Option<&RoundSummary> {
        self.0.get(point)?.get(&round)
    }

    /// Marks the rounds before or after which the machine was slower than in most other rounds of `run` on
    /// the same CPUs, by the reference loops. Does not depend on the rates, so it favours no result. Commands
    /// that are too short to be judged are not marked.
    pub fn mark_slow(&mut self, run: &RunRecord) {
        let cases: HashMap<&CaseId, &Case> =
            run.cases.iter().map(|case| (&case.id, case)).collect();
        let seats = |point: &PointId| {
            (point.tasks, cases.get(&point.case).map_or(1, |case| case.cpus_per_task))
        };
        let mut speeds: BTreeMap<(u32, u64), [Vec<f64>; 3]> = BTreeMap::new();
        for (point, rounds) in &self.0 {
            let [before, after, memory] = speeds.entry(seats(point)).or_default();
            before.extend(rounds.values().filter_map(|round| round.reference));
            after.extend(rounds.values().filter_map(|round| round.after));
            memory.extend(rounds.values().filter_map(|round| round.memory));
        }
        let typical = |speeds: &Vec<f64>| median(speeds).filter(|_| speeds.len() >= FEWEST_SPEEDS);
        for (point, rounds) in &mut self.0 {
            let is_command = cases.get(&point.case).is_some_and(|case| case.is_command());
            let [before, after, memory] = speeds[&seats(point)].each_ref().map(typical);
            let is_below = |speed: Option<f64>, typical: Option<f64>, share: f64| {
                speed.zip(typical).is_some_and(|(speed, typical)| speed < (1.0 - share) * typical)
            };
            for round in rounds.values_mut() {
                let slow = is_below(round.reference, before, SLOW_CPU)
                    || is_below(round.after, after, SLOW_CPU)
                    || is_below(round.memory, memory, SLOW_MEMORY);
                let is_judged = !is_command || round.seconds() > Command::SHORT;
                match slow && is_judged {
                    true => round.marks_of_all.insert(Mark::Slow),
                    false => round.marks_of_all.remove(&Mark::Slow),
                };
            }
        }
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
    use knee_results::Mode;

    use super::*;

    #[test]
    fn late_replies_are_not_a_failure_of_the_server() {
        let has_failed = |kind| {
            let latency_failure = Some(Failure::new(kind, "reason", "remedy"));
            let round = RoundSummary { latency_failure, ..RoundSummary::default() };
            (round.latency_failure().is_some(), round.failure().is_some())
        };
        assert_eq!(has_failed(FailureKind::Hung), (true, false));
        assert_eq!(has_failed(FailureKind::Died), (true, true));
        assert_eq!(has_failed(FailureKind::CannotRun), (true, true));
    }

    #[test]
    fn a_round_on_a_slower_machine_is_marked() {
        let point = |tasks| PointId { case: CaseId::new("a"), mode: Mode::Threads, tasks };
        let run = include_str!("../../../../../fuzz/fixed/run.json");
        let run: RunRecord = serde_json::from_str(run).unwrap();
        let mut rounds = Rounds::default();
        let mut add = |tasks, [reference, after]: [f64; 2], memory| {
            let (reference, after) = (Some(reference), Some(after));
            let round =
                RoundSummary { samples: 3, reference, after, memory, ..RoundSummary::default() };
            let of_point = rounds.0.entry(point(tasks)).or_default();
            of_point.insert(of_point.len() as u32, round);
        };
        for speed in [100.0, 101.0, 94.0, 96.0, 102.0] {
            add(1, [speed; 2], Some(10.0));
            // Two tasks on one core are slower by design.
            add(2, [speed / 2.0; 2], None);
        }
        add(1, [100.0; 2], Some(6.0));
        // The host became slower during the round.
        add(2, [50.0, 46.0], None);
        rounds.mark_slow(&run);
        let slow = |tasks| {
            let is_slow = |round: &RoundSummary| round.marks().contains_key(&Mark::Slow);
            rounds.of(&point(tasks)).map(is_slow).collect::<Vec<bool>>()
        };
        assert_eq!(slow(1), [false, false, true, false, false, true]);
        assert_eq!(slow(2), [false, false, true, false, false, true]);
        assert_eq!(rounds.of(&point(1)).nth(2).unwrap().marked(), 3);
    }

    #[test]
    fn a_command_is_marked_on_a_slower_machine_unless_it_is_short() {
        let run = include_str!("../../../../../fuzz/fixed/run.json");
        let mut run: RunRecord = serde_json::from_str(run).unwrap();
        let command = |line: &str| Case::command(Command::timed(line, "/"));
        run.cases = vec![command("long"), command("short")];
        let mut rounds = Rounds::default();
        let points = run.cases.iter().map(|case| case.id.clone());
        let points = points.map(|case| PointId { case, mode: Mode::Processes, tasks: 1 });
        let points: Vec<PointId> = points.collect();
        for (point, seconds) in points.iter().zip([0.6, 0.4]) {
            for (nr, speed) in (0..).zip([100.0, 101.0, 94.0, 102.0]) {
                let all = Work { done: 1.0, seconds };
                let reference = Some(speed);
                let round = RoundSummary { samples: 1, reference, all, ..RoundSummary::default() };
                rounds.insert(point, nr, round);
            }
        }
        rounds.mark_slow(&run);
        let slow = |point: &PointId| -> Vec<bool> {
            rounds.of(point).map(|round| round.marks().contains_key(&Mark::Slow)).collect()
        };
        assert_eq!(
            [slow(&points[0]), slow(&points[1])],
            [vec![false, false, true, false], vec![false; 4]]
        );
    }

    #[test]
    fn the_cpu_time_of_a_server_is_divided_by_its_requests() {
        let used = ServerUse { server_cpu: 1.0, server_busy: 0.5, ..ServerUse::default() };
        let all = Work { done: 200.0, seconds: 2.0 };
        let round = RoundSummary { samples: 1, all, server: Some(used), ..RoundSummary::default() };
        let served = round.served().unwrap();
        assert_eq!((served.cpu_per_request, served.is_lower_bound()), (0.005, true));
        assert_eq!(RoundSummary::default().served(), None);
    }

    #[test]
    fn a_clean_side_of_a_disturbed_round_is_paired_with_a_near_one() {
        let point = |case: &str| PointId { case: CaseId::new(case), mode: Mode::Threads, tasks: 1 };
        let [before, after] = ["before:a", "after:a"].map(point);
        let mut rounds = Rounds::default();
        let mut add = |point: &PointId, is_clean: [bool; 8]| {
            for (nr, is_clean) in (0..).zip(is_clean) {
                let work = Work { done: f64::from(nr), seconds: 1.0 };
                let clean = if is_clean { work } else { Work::default() };
                let marked = u64::from(!is_clean);
                let round =
                    RoundSummary { samples: 1, marked, all: work, clean, ..Default::default() };
                rounds.insert(point, nr, round);
            }
        };
        add(&before, [true, true, false, false, false, false, true, true]);
        add(&after, [false, true, true, true, false, false, false, true]);
        // Round 0 with 2; 6 is too far from 3.
        assert_eq!(rounds.clean_pairs(&before, &after), [(0.0, 2.0), (1.0, 1.0), (7.0, 7.0)]);
        assert_eq!(rounds.pairs(&before, &after).count(), 8);
    }

    #[test]
    fn disturbed_rounds_outvoted_clean_ones() {
        let round = |rate: f64, marked: bool| {
            let work = Work { done: rate, seconds: 1.0 };
            let clean = if marked { Work::default() } else { work };
            let marked = u64::from(marked);
            RoundSummary { samples: 1, marked, all: work, clean, ..RoundSummary::default() }
        };
        let rounds = [round(9.0, true), round(18.2, false), round(9.3, true), round(9.1, true)];
        assert_eq!(round_rates(rounds.iter()), [18.2]);
        assert_eq!(round_rates(rounds[..1].iter()), [9.0]);
        assert_eq!(all_round_rates(rounds.iter()), [9.0, 18.2, 9.3, 9.1]);
    }
}
