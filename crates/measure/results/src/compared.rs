//! Before and after, point by point, most important first.

use std::collections::{BTreeMap, BTreeSet};

use knee_stats::{CompareOptions, Comparison, Drift, Verdict, compare_all, median};
use serde::Serialize;

use crate::compared_latency::{ComparedLatency, compared_latencies, latency_gaps};
use crate::gap::Gap;
use crate::results::ITERATIONS;
use crate::{Difference, Family, Key, PointCounters, Results, Served, VariantPair, differences};

/// The comparison of two results.
#[derive(Debug, Clone, PartialEq)]
pub struct Compared {
    /// Points that have rounds on both sides, most important first.
    pub points: Vec<ComparedPoint>,
    /// Quantiles of the latencies of points that both sides measured, those that have changed first.
    pub latencies: Vec<ComparedLatency>,
    /// Points that lack the latency of some or all rounds, with the reasons.
    pub latency_gaps: Vec<Gap>,
    /// Points that are missing on one side or both, with the reasons.
    pub gaps: Vec<Gap>,
    /// The points of each family; testcases that knee does not know come last.
    pub families: Vec<FamilySummary>,
    /// Other differences between the two sides.
    pub differences: Vec<Difference>,
    /// How the machine itself changed, by task count. Empty if all points were measured in
    /// interleaved rounds.
    pub machine: BTreeMap<u32, MachineChange>,
    /// The number of points requested on both sides.
    pub in_common: usize,
    /// Testcases with one variant on each side, where the variants differ and are compared.
    pub variants: Vec<VariantPair>,
    /// Whether both sides were measured in interleaved rounds, and compared pair by pair.
    pub in_turns: bool,
}

/// How the CPUs and the memory of a number of tasks changed between two results: medians over the
/// common points of the speed after, divided by the speed before. `None` if a side does not contain
/// the speeds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct MachineChange {
    /// By the reference loop, which never enters the kernel.
    pub cpu: Option<f64>,
    /// By the loop that reads memory. A change that is [within chance](MachineChange::MEMORY_NOISE)
    /// does not count.
    pub memory: Option<f64>,
}

impl MachineChange {
    /// Changes of the speed of memory up to this share are not corrected. It varies between identical runs on a quiet
    /// machine, with the share of the last-level cache that the tasks get.
    pub const MEMORY_NOISE: f64 = 0.15;

    /// The change of memory, if it is more than chance.
    pub fn sure_memory(&self) -> Option<f64> {
        let within = 1.0 - Self::MEMORY_NOISE..=1.0 / (1.0 - Self::MEMORY_NOISE);
        self.memory.filter(|change| !within.contains(change))
    }

    fn drift(&self) -> Drift {
        Drift::covering(self.speeds())
    }

    /// The drift of times, which grow as speeds fall.
    fn drift_of_times(&self) -> Drift {
        Drift::covering(self.speeds().map(|speed| 1.0 / speed))
    }

    fn speeds(&self) -> impl Iterator<Item = f64> {
        self.cpu.into_iter().chain(self.sure_memory())
    }
}

/// One point on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedPoint {
    /// The point.
    pub key: Key,
    /// What its rates count, in the plural.
    pub unit: String,
    /// The family of its testcase.
    pub family: Option<Family>,
    /// Whether its rates are invocations per second, so that times are more meaningful.
    pub timed: bool,
    /// Rounds before and after that count.
    pub rounds: [usize; 2],
    /// Rounds before and after that were measured, including disturbed ones.
    pub measured: [usize; 2],
    /// Whether a side is [disturbed](crate::Point::disturbed), so that nothing is claimed.
    pub disturbed: bool,
    /// Whether a side is [oversubscribed](crate::Point::oversubscribed).
    pub oversubscribed: bool,
    /// How the servers before and after and their loads used their CPUs, if servers were measured.
    pub server: [Option<Served>; 2],
    /// Events of the processors and the kernel before and after, if they were counted.
    pub counters: [Option<PointCounters>; 2],
    /// Why a side has fewer rounds than requested.
    pub gap: Option<String>,
    /// Medians, ratio, interval, p-value and verdict.
    pub comparison: Comparison,
}

impl ComparedPoint {
    /// Whether the rates before and after are [only lower bounds](Served::is_bound).
    pub fn lower_bounds(&self) -> [bool; 2] {
        self.server.map(|server| server.is_some_and(|server| server.is_bound(&self.key.case)))
    }

    /// Whether nothing is claimed, and a rate is only a lower bound.
    pub fn lacks_load(&self) -> bool {
        self.comparison.verdict == Verdict::Inconclusive && self.lower_bounds().contains(&true)
    }

    /// Withdraws a claim that lower bounds do not support. A rate of at least 200 is higher than one of 100. But
    /// whether it is lower than another, or the same, is unknown.
    fn supported(self) -> Self {
        let [before, after] = self.lower_bounds();
        let is_supported = match self.comparison.verdict {
            Verdict::Faster => !before,
            Verdict::Slower => !after,
            Verdict::Same | Verdict::Inconclusive => !before && !after,
        };
        if is_supported {
            return self;
        }
        let verdict = Verdict::Inconclusive;
        let comparison = Comparison { verdict, rounds_needed: None, ..self.comparison };
        Self { comparison, ..self }
    }
}

/// The summary of the points of a family.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FamilySummary {
    /// The family; `None`: testcases that knee does not know.
    pub family: Option<Family>,
    /// Points by verdict.
    pub verdicts: Verdicts,
    /// Geometric mean of the ratios; `None` if there are none.
    #[serde(rename = "geometric_mean_ratio")]
    pub ratio: Option<f64>,
}

/// Point counts by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Verdicts {
    /// Faster after.
    pub faster: usize,
    /// Slower after.
    pub slower: usize,
    /// The same within the threshold.
    pub same: usize,
    /// Inconclusive.
    pub inconclusive: usize,
}

impl Verdicts {
    /// Counts the verdicts of `points`.
    pub fn of<'c>(points: impl Iterator<Item = &'c ComparedPoint>) -> Self {
        Self::count(points.map(|point| point.comparison.verdict))
    }

    fn count(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let mut counts = Self::default();
        for verdict in verdicts {
            *match verdict {
                Verdict::Faster => &mut counts.faster,
                Verdict::Slower => &mut counts.slower,
                Verdict::Same => &mut counts.same,
                Verdict::Inconclusive => &mut counts.inconclusive,
            } += 1;
        }
        counts
    }
}

impl Compared {
    /// Compares all common points of two results, and [two variants](VariantPair) of one testcase.
    /// P-values are corrected over all comparisons. Compares nothing if the rates of the two results
    /// include [different costs](Results::slowing_options).
    pub fn new(before: &Results, after: &Results, options: &CompareOptions) -> Self {
        if before.different_option(after).is_some() {
            return Self::assemble(before, after, Vec::new(), |points: &[()]| {
                vec![None; points.len()]
            });
        }
        let variants = VariantPair::of(before, after);
        let before = &*VariantPair::rename(before, &variants, |pair| &pair.before);
        let after = &*VariantPair::rename(after, &variants, |pair| &pair.after);
        let keys: BTreeSet<&Key> = before.points.keys().chain(after.points.keys()).collect();
        let rounds = |side: &'_ Results, key: &Key| {
            let measured = side.points.get(key).filter(|_| !differ_in_unit(before, after, key));
            measured.map(|m| m.rounds.clone()).unwrap_or_default()
        };
        let machine = machine_changes(before, after);
        let drift = |key: &Key| {
            let change = key.tasks.and_then(|tasks| machine.get(&tasks));
            change.map_or(Drift::NONE, MachineChange::drift)
        };
        let latencies = compared_latencies(before, after, options, |key| {
            let change = key.tasks.and_then(|tasks| machine.get(&tasks));
            change.map_or(Drift::NONE, MachineChange::drift_of_times)
        });
        let points = keys
            .into_iter()
            .map(|key| (key, (rounds(before, key), rounds(after, key), drift(key))));
        let compare = |points: &[_]| compare_all(points, options);
        let compared = Self::assemble(before, after, points.collect(), compare);
        let latency_gaps = latency_gaps(before, after);
        Self { latencies, latency_gaps, machine, variants, ..compared }
    }

    /// Adds the latencies of two results that were measured in interleaved rounds.
    pub fn with_latencies(
        self,
        before: &Results,
        after: &Results,
        options: &CompareOptions,
    ) -> Self {
        Self {
            latencies: compared_latencies(before, after, options, |_| Drift::NONE),
            latency_gaps: latency_gaps(before, after),
            ..self
        }
    }

    /// Compares `points` of two results by `compare`. Disturbed points do not count in the
    /// correction of p-values, and nothing is claimed from them. Of a server that was not busy, only
    /// what a lower bound shows is claimed.
    pub fn assemble<Rounds>(
        before: &Results,
        after: &Results,
        points: Vec<(&Key, Rounds)>,
        compare: impl Fn(&[Rounds]) -> Vec<Option<Comparison>>,
    ) -> Self {
        let sides = [before, after];
        let is_disturbed =
            |key: &Key| sides.iter().any(|s| s.points.get(key).is_some_and(|m| m.disturbed));
        let (disturbed, sound): (Vec<_>, Vec<_>) =
            points.into_iter().partition(|(key, _)| is_disturbed(key));
        let (sound, rounds): (Vec<&Key>, Vec<Rounds>) = sound.into_iter().unzip();
        let disturbed = disturbed.into_iter().map(|(key, rounds)| {
            (key, compare(&[rounds]).pop().flatten().map(Comparison::without_claim))
        });
        let compared = sound.into_iter().zip(compare(&rounds)).chain(disturbed);
        let mut points = Vec::new();
        let mut gaps = Vec::new();
        let mut in_common = 0;
        for (key, comparison) in compared {
            in_common += usize::from(sides.iter().all(|s| s.points.contains_key(key)));
            match comparison {
                Some(comparison) => points.push(point(key, comparison, before, after)),
                None => gaps.push(Gap {
                    key: key.clone(),
                    before: missing(before, key),
                    after: missing(after, key).or_else(|| {
                        differ_in_unit(before, after, key).then(|| {
                            let [one, other] = sides.map(|side| side.unit(&key.case));
                            format!("it counts {other}, and the run before counts {one}")
                        })
                    }),
                }),
            }
        }
        points.sort_by(|a, b| importance(b).total_cmp(&importance(a)).then(a.key.cmp(&b.key)));
        Self {
            families: families(&points),
            points,
            latencies: Vec::new(),
            latency_gaps: Vec::new(),
            gaps,
            differences: differences(before, after),
            machine: BTreeMap::new(),
            in_common,
            variants: Vec::new(),
            in_turns: false,
        }
    }

    /// All points by verdict.
    pub fn verdicts(&self) -> Verdicts {
        Verdicts::of(self.points.iter())
    }

    /// All quantiles of latency by verdict.
    pub fn latency_verdicts(&self) -> Verdicts {
        Verdicts::count(self.latencies.iter().map(|latency| latency.comparison.verdict))
    }
}

/// Only the common points count, so that other points do not affect it. A machine need not change
/// alike for all task counts: other work takes a CPU that one task does not use.
fn machine_changes(before: &Results, after: &Results) -> BTreeMap<u32, MachineChange> {
    let mut ratios: BTreeMap<u32, [Vec<f64>; 2]> = BTreeMap::new();
    for (key, b) in &before.points {
        let (Some(a), Some(tasks)) = (after.points.get(key), key.tasks) else { continue };
        let [cpu, memory] = ratios.entry(tasks).or_default();
        let ratio = |a: Option<f64>, b: Option<f64>| {
            Some(a? / b?).filter(|ratio| ratio.is_finite() && *ratio > 0.0)
        };
        cpu.extend(ratio(a.reference, b.reference));
        memory.extend(ratio(a.memory, b.memory));
    }
    let change =
        |[cpu, memory]: [Vec<f64>; 2]| MachineChange { cpu: median(&cpu), memory: median(&memory) };
    ratios.into_iter().map(|(tasks, ratios)| (tasks, change(ratios))).collect()
}

fn point(key: &Key, comparison: Comparison, before: &Results, after: &Results) -> ComparedPoint {
    let sides = [&before.points[key], &after.points[key]];
    let info = before.cases.get(&key.case).or_else(|| after.cases.get(&key.case));
    ComparedPoint {
        key: key.clone(),
        unit: info.map_or(ITERATIONS, |info| &info.unit).to_owned(),
        family: info.and_then(|info| info.family),
        timed: info.is_some_and(|info| info.timed),
        rounds: sides.map(|side| side.rounds.len()),
        measured: sides.map(|side| side.measured),
        disturbed: sides.iter().any(|side| side.disturbed),
        oversubscribed: sides.iter().any(|side| side.oversubscribed),
        server: sides.map(|side| side.server),
        counters: sides.map(|side| side.counters.clone()),
        gap: sides.iter().find_map(|side| side.gap.clone()),
        comparison,
    }
    .supported()
}

/// Whether the rates of a testcase count one thing on one side, and another on the other.
fn differ_in_unit(before: &Results, after: &Results, key: &Key) -> bool {
    let sides = before.cases.get(&key.case).zip(after.cases.get(&key.case));
    sides.is_some_and(|(one, other)| !one.counts_like(other))
}

fn missing(side: &Results, key: &Key) -> Option<String> {
    match side.points.get(key) {
        None => Some("not requested".to_owned()),
        Some(measured) if measured.rounds.is_empty() => {
            Some(measured.gap.clone().unwrap_or_else(|| "no rounds".to_owned()))
        }
        Some(_) => None,
    }
}

/// The sort key: claims before doubts before equality, and the greatest change first within each.
/// The integer part is the class, the fraction is the change.
fn importance(point: &ComparedPoint) -> f64 {
    let class = match point.comparison.verdict {
        Verdict::Faster | Verdict::Slower => 2.0,
        Verdict::Inconclusive => 1.0,
        Verdict::Same => 0.0,
    };
    // Twice as fast is as much of a change as half as fast. From nothing to something is most.
    let change = point.comparison.ratio.map_or(f64::INFINITY, |interval| interval.ratio.ln().abs());
    class + change.atan() / std::f64::consts::FRAC_PI_2 * 0.999
}

fn families(points: &[ComparedPoint]) -> Vec<FamilySummary> {
    let mut members: BTreeMap<(bool, Option<Family>), Vec<&ComparedPoint>> = BTreeMap::new();
    for point in points {
        members.entry((point.family.is_none(), point.family)).or_default().push(point);
    }
    members
        .into_iter()
        .map(|((_, family), points)| {
            let logs: Vec<f64> = points
                .iter()
                .filter(|point| !point.disturbed)
                .filter_map(|point| Some(point.comparison.ratio?.ratio))
                .filter(|ratio| *ratio > 0.0)
                .map(f64::ln)
                .collect();
            let n = logs.len() as f64;
            FamilySummary {
                family,
                verdicts: Verdicts::of(points.into_iter()),
                ratio: (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / n).exp()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn results(points: &[(&str, &[f64])]) -> Results {
        let mut results = Results::new(Path::new("x"));
        for (name, rounds) in points {
            let key = Key { case: name.parse().unwrap(), mode: None, tasks: Some(2) };
            if rounds.is_empty() {
                results.miss(key, "it died".to_owned()).unwrap();
            } else {
                rounds.iter().for_each(|&rate| results.add(key.clone(), rate, 3).unwrap());
            }
        }
        results.describe(|id| match id.testcase.as_str() {
            "mmap1" | "brk1" => Some((Family::Memory, "")),
            "read1" => Some((Family::File, "")),
            _ => None,
        });
        results
    }

    #[test]
    fn a_lower_bound_may_be_called_higher_but_neither_lower_nor_the_same() {
        let verdict_of = |case: &str, load_busy, before: (&[f64], f64), after: (&[f64], f64)| {
            let side = |(rates, server_busy): (&[f64], f64)| {
                let mut side = results(&[(case, rates)]);
                for point in side.points.values_mut() {
                    let (cpu_per_request, shared) = (1e-5, case == "shared");
                    point.server = Some(Served { server_busy, load_busy, cpu_per_request, shared });
                }
                side
            };
            let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
            let compared = Compared::new(&side(before), &side(after), &options);
            let [point] = &compared.points[..] else { panic!("{compared:?}") };
            (point.comparison.verdict, point.lacks_load())
        };
        let verdict = |before, after| verdict_of("nginx", 0.5, before, after);
        let (busy, idle) = (1.0, 0.5);
        let unknown = (Verdict::Inconclusive, true);
        assert_eq!(verdict((HALF, busy), (STEADY, busy)), (Verdict::Faster, false));
        assert_eq!(verdict((HALF, busy), (STEADY, idle)), (Verdict::Faster, false));
        assert_eq!(verdict((HALF, idle), (STEADY, busy)), unknown);
        assert_eq!(verdict((STEADY, busy), (HALF, busy)), (Verdict::Slower, false));
        assert_eq!(verdict((STEADY, idle), (HALF, busy)), (Verdict::Slower, false));
        assert_eq!(verdict((STEADY, busy), (HALF, idle)), unknown);
        assert_eq!(verdict((STEADY, busy), (STEADY, busy)), (Verdict::Same, false));
        assert_eq!(verdict((STEADY, idle), (STEADY, busy)), unknown);
        assert_eq!(verdict((STEADY, busy), (STEADY, idle)), unknown);
        let swept =
            |load_busy| verdict_of("nginx@connections=1", load_busy, (STEADY, busy), (HALF, idle));
        assert_eq!(swept(0.5), (Verdict::Slower, false));
        assert_eq!(swept(0.99), unknown);
        let shared = verdict_of("shared", 0.99, (STEADY, idle), (HALF, idle));
        assert_eq!(shared, (Verdict::Slower, false));
    }

    const STEADY: &[f64] = &[100.0, 100.1, 99.9, 100.2, 99.8, 100.0];
    const HALF: &[f64] = &[50.0, 50.1, 49.9, 50.2, 49.8, 50.0];
    const WILD: &[f64] = &[60.0, 140.0, 100.0, 30.0, 200.0, 90.0];

    fn compared() -> Compared {
        let before = results(&[
            ("mmap1", STEADY),
            ("read1", STEADY),
            ("unheard-of", STEADY),
            ("open1", STEADY),
            ("brk1", STEADY),
        ]);
        let after = results(&[
            ("mmap1", HALF),
            ("read1", STEADY),
            ("unheard-of", WILD),
            ("open1", &[]),
            ("pipe1", STEADY),
        ]);
        let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
        Compared::new(&before, &after, &options)
    }

    #[test]
    fn claims_come_first_and_nothing_is_dropped() {
        let compared = compared();
        let names: Vec<&str> =
            compared.points.iter().map(|p| p.key.case.testcase.as_str()).collect();
        assert_eq!(names, ["mmap1", "unheard-of", "read1"]);
        assert_eq!(
            compared.verdicts(),
            Verdicts { faster: 0, slower: 1, same: 1, inconclusive: 1 }
        );
        let gaps: Vec<_> = compared
            .gaps
            .iter()
            .map(|gap| {
                (gap.key.case.testcase.as_str(), gap.before.as_deref(), gap.after.as_deref())
            })
            .collect();
        assert_eq!(
            gaps,
            [
                ("brk1", None, Some("not requested")),
                ("open1", None, Some("it died")),
                ("pipe1", Some("not requested"), None)
            ]
        );
    }

    #[test]
    fn families_are_summed_and_strangers_come_last() {
        let compared = compared();
        let families: Vec<Option<Family>> = compared.families.iter().map(|f| f.family).collect();
        assert_eq!(families, [Some(Family::Memory), Some(Family::File), None]);
        assert!((compared.families[0].ratio.unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn the_change_of_the_machine_is_computed_from_the_common_points_of_each_task_count() {
        let mut before = results(&[("mmap1", STEADY), ("read1", STEADY), ("open1", STEADY)]);
        let mut after = results(&[("mmap1", HALF), ("read1", HALF), ("brk1", STEADY)]);
        for (side, speeds) in [(&mut before, [100.0, 7.0, 100.0]), (&mut after, [7.0, 75.0, 75.0])]
        {
            // In the order of the names: mmap1, open1, read1; brk1, mmap1, read1.
            for (measured, speed) in side.points.values_mut().zip(speeds) {
                (measured.reference, measured.memory) = (Some(speed), Some(2.0 * speed));
            }
            // One task does not use all of these CPUs.
            let (key, measured) = side.points.last_key_value().unwrap();
            let (key, mut alone) = (Key { tasks: Some(1), ..key.clone() }, measured.clone());
            (alone.reference, alone.memory) = (Some(60.0), None);
            side.points.insert(key, alone);
        }
        let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
        let compared = Compared::new(&before, &after, &options);
        let change = |cpu, memory| MachineChange { cpu, memory };
        assert_eq!(
            compared.machine.into_iter().collect::<Vec<_>>(),
            [(1, change(Some(1.0), None)), (2, change(Some(0.75), Some(0.75)))]
        );
        after.points.values_mut().for_each(|measured| measured.reference = None);
        let compared = Compared::new(&before, &after, &options);
        assert_eq!(compared.machine[&2], change(None, Some(0.75)));
    }

    #[test]
    fn what_a_change_of_the_speed_of_memory_explains_is_not_claimed() {
        let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
        let verdict = |memory: f64| {
            let mut sides = [results(&[("mmap1", STEADY)]), results(&[("mmap1", HALF)])];
            for (side, memory) in sides.iter_mut().zip([100.0, memory]) {
                side.points.values_mut().for_each(|measured| measured.memory = Some(memory));
            }
            Compared::new(&sides[0], &sides[1], &options).points[0].comparison.verdict
        };
        assert_eq!([100.0, 90.0, 80.0].map(verdict), [Verdict::Slower; 3]);
        assert_eq!([50.0, 40.0].map(verdict), [Verdict::Inconclusive; 2]);
        // Memory became faster, and the testcase slower all the same.
        assert_eq!(verdict(150.0), Verdict::Slower);
    }

    #[test]
    fn a_point_disturbed_on_either_side_or_on_both_is_inconclusive() {
        let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
        let verdict = |disturbed: [bool; 2]| {
            let mut sides = [results(&[("mmap1", STEADY)]), results(&[("mmap1", HALF)])];
            for (side, disturbed) in sides.iter_mut().zip(disturbed) {
                side.points.values_mut().for_each(|measured| measured.disturbed = disturbed);
            }
            let compared = Compared::new(&sides[0], &sides[1], &options);
            let point = &compared.points[0];
            (point.comparison.verdict, point.comparison.rounds_needed, point.disturbed)
        };
        assert_eq!(verdict([false, false]), (Verdict::Slower, None, false));
        for disturbed in [[true, false], [false, true], [true, true]] {
            assert_eq!(verdict(disturbed), (Verdict::Inconclusive, None, true));
        }
    }

    #[test]
    fn disturbed_points_do_not_count_in_the_correction_of_p_values() {
        let points = [("mmap1", STEADY), ("read1", STEADY), ("open1", STEADY)];
        let before = results(&points);
        let mut after = results(&[("mmap1", HALF), ("read1", HALF), ("open1", STEADY)]);
        let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
        let p_of_mmap1 = |after: &Results| {
            let compared = Compared::new(&before, after, &options);
            let mmap1 = compared.points.iter().find(|p| p.key.case.testcase == "mmap1");
            let comparison = mmap1.unwrap().comparison;
            comparison.adjusted_p / comparison.p
        };
        assert!((p_of_mmap1(&after) - 1.5).abs() < 1e-9, "two of three points differ");
        for (key, measured) in &mut after.points {
            measured.disturbed = key.case.testcase == "read1";
        }
        assert!((p_of_mmap1(&after) - 2.0).abs() < 1e-9, "one of two points differs");
    }
}
