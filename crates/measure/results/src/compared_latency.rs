//! Quantiles of latency before and after.

use knee_stats::{CompareOptions, Comparison, Drift, Quantiles, Verdict, compare_dependent};

use serde::Serialize;

use crate::gap::Gap;
use crate::{Key, Measured, PointLatency, Results};

/// A quantile that fewer times of a round exceed is too uncertain to be compared.
const FEWEST_ABOVE: f64 = 10.0;
/// Latency grows with the rate of requests. If the rates of both sides differ by more than this share, a
/// difference may come from that alone.
const OTHER_RATE: f64 = 0.05;

/// Why nothing is claimed about a latency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Doubt {
    /// A side is [disturbed](crate::Point::disturbed).
    Disturbed,
    /// On a side, rounds [lack their latency](crate::Point::latency_gap). The others were perhaps the quicker
    /// ones.
    Incomplete,
    /// On a side, the load generator caused [much of the latency itself](PointLatency::is_late).
    Late,
    /// The sides were measured at different rates of requests.
    OtherRate,
}

/// A quantile that can be compared.
struct Quantile {
    name: &'static str,
    share: f64,
    of: fn(&Quantiles) -> f64,
}

/// The longest time of a round grows with the number of times, so it is not compared.
static QUANTILES: [Quantile; 4] = [
    Quantile { name: "p50", share: 0.5, of: |quantiles| quantiles.p50 },
    Quantile { name: "p90", share: 0.9, of: |quantiles| quantiles.p90 },
    Quantile { name: "p99", share: 0.99, of: |quantiles| quantiles.p99 },
    Quantile { name: "p99.9", share: 0.999, of: |quantiles| quantiles.p99_9 },
];

/// A quantile of a point, with its values in the rounds before and after, and the drift of times.
type Compared<'k> = (&'k Key, &'static Quantile, (Vec<f64>, Vec<f64>, Drift));

/// A quantile of the latency of a point on both sides.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedLatency {
    /// The point.
    pub key: Key,
    /// Name of the quantile, such as `p99`.
    pub quantile: &'static str,
    /// Rounds before and after that count.
    pub rounds: [usize; 2],
    /// Why nothing is claimed, if so.
    pub doubt: Option<Doubt>,
    /// Medians over the rounds in seconds, ratio of the times, interval, p-value and verdict. `Faster`
    /// means that the time after is shorter.
    pub comparison: Comparison,
}

/// The quantiles of the latencies that both sides measured in the same way, by point. The value of a
/// quantile in each round counts as one observation, as the rate does. The intervals are therefore those
/// of rates: bootstrap intervals of the ratio of medians over rounds. Quantiles of the same rounds depend
/// on each other, so p-values are corrected by the union bound over all quantiles of all points.
/// `drift` is the drift of the times of a point.
pub(crate) fn compared_latencies(
    before: &Results,
    after: &Results,
    options: &CompareOptions,
    drift: impl Fn(&Key) -> Drift,
) -> Vec<ComparedLatency> {
    if !is_comparable(before, after) {
        return Vec::new();
    }
    let mut sound = Vec::new();
    let mut doubtful = Vec::new();
    for (key, before) in &before.points {
        let Some(after) = after.points.get(key) else { continue };
        let doubt = doubt(before, after);
        for quantile in &QUANTILES {
            let side = |side| values(side, quantile);
            let Some((before_values, after_values)) = side(before).zip(side(after)) else {
                continue;
            };
            let point = (key, quantile, (before_values, after_values, drift(key)));
            match doubt {
                Some(doubt) => doubtful.push((point, doubt)),
                None => sound.push(point),
            }
        }
    }
    let compare = |points: &[Compared<'_>]| {
        let values: Vec<_> = points.iter().map(|(_, _, values)| values.clone()).collect();
        compare_dependent(&values, options)
    };
    let claims = sound.iter().zip(compare(&sound)).map(|(point, comparison)| {
        let of_times = |comparison: Comparison| Comparison {
            verdict: verdict_on_times(comparison.verdict),
            ..comparison
        };
        (point, comparison.map(of_times), None)
    });
    let doubts = doubtful.iter().map(|(point, doubt)| {
        let comparison = compare(std::slice::from_ref(point)).pop().flatten();
        (point, comparison.map(Comparison::without_claim), Some(*doubt))
    });
    let all = claims.chain(doubts).filter_map(|((key, quantile, values), comparison, doubt)| {
        Some(ComparedLatency {
            key: (*key).clone(),
            quantile: quantile.name,
            rounds: [values.0.len(), values.1.len()],
            doubt,
            comparison: comparison?,
        })
    });
    let mut all: Vec<ComparedLatency> = all.collect();
    all.sort_by(|a, b| {
        let has_changed = |one: &ComparedLatency| one.comparison.verdict.is_change();
        has_changed(b).cmp(&has_changed(a)).then_with(|| a.key.cmp(&b.key))
    });
    all
}

/// Whether both sides measured latency in the same way.
fn is_comparable(before: &Results, after: &Results) -> bool {
    let how = |side: &Results| side.origin.as_ref().and_then(|origin| origin.request.latency);
    how(before) == how(after)
}

/// The points that lack the latency of rounds, with the reasons.
pub(crate) fn latency_gaps(before: &Results, after: &Results) -> Vec<Gap> {
    if !is_comparable(before, after) {
        return Vec::new();
    }
    let reason = |side: &Measured| {
        let gap = side.latency_gap.as_ref()?;
        Some(match (gap.rounds, gap.of) {
            (rounds, of) if rounds == of => gap.reason.clone(),
            (rounds, of) => format!("in {rounds} of {of} rounds: {}", gap.reason),
        })
    };
    let common = before.points.iter().filter_map(|(key, b)| Some((key, b, after.points.get(key)?)));
    common
        .filter(|(_, before, after)| before.latency_gap.is_some() || after.latency_gap.is_some())
        .map(|(key, before, after)| Gap {
            key: key.clone(),
            before: reason(before),
            after: reason(after),
        })
        .collect()
}

/// Why nothing can be claimed about the latency of a point, if so.
fn doubt(before: &Measured, after: &Measured) -> Option<Doubt> {
    if before.disturbed || after.disturbed {
        return Some(Doubt::Disturbed);
    }
    if before.latency_gap.is_some() || after.latency_gap.is_some() {
        return Some(Doubt::Incomplete);
    }
    let (before, after) = (before.latency.as_ref()?, after.latency.as_ref()?);
    if before.is_late() || after.is_late() {
        return Some(Doubt::Late);
    }
    let (before, after) = (before.rate?, after.rate?);
    ((after / before - 1.0).abs() > OTHER_RATE).then_some(Doubt::OtherRate)
}

/// The quantile in each round of a point; `None` if too few times exceed it, or it is zero, to which
/// there is no ratio.
fn values(measured: &Measured, quantile: &Quantile) -> Option<Vec<f64>> {
    let PointLatency { times, rounds, .. } = measured.latency.as_ref()?;
    let above = times.count() as f64 / rounds.len() as f64 * (1.0 - quantile.share);
    let values: Vec<f64> = rounds.iter().map(quantile.of).collect();
    // Tolerance for rounding: 0.1% of 10,000 is slightly below 10.
    (above > FEWEST_ABOVE - 0.5 && values.iter().all(|&value| value > 0.0)).then_some(values)
}

/// The verdict for times, from that for rates: a longer time is slower.
fn verdict_on_times(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Faster => Verdict::Slower,
        Verdict::Slower => Verdict::Faster,
        Verdict::Inconclusive | Verdict::Same => verdict,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::{CaseId, Latency, LatencyGap, Mode};

    /// A point whose rounds have these median times, with `count` times each.
    fn results(points: &[(&str, &[u64], bool)], count: u64) -> Results {
        let mut results = Results::new(Path::new("x"));
        for &(name, rounds, disturbed) in points {
            let round = |&nanos: &u64| {
                let mut latency = Latency::default();
                latency.times.record(nanos, count);
                latency
            };
            let rounds: Vec<Latency> = rounds.iter().map(round).collect();
            let rounds: Vec<&Latency> = rounds.iter().collect();
            let latency = PointLatency::of(&rounds);
            let case = CaseId::new(name);
            let key = Key { case, mode: Some(Mode::Processes), tasks: Some(1) };
            let rounds = vec![1.0; rounds.len()];
            results
                .points
                .insert(key, Measured { rounds, disturbed, latency, ..Measured::default() });
        }
        results
    }

    const LOW: &[u64] = &[100, 101, 102, 103, 104, 105];
    const HIGH: &[u64] = &[150, 151, 152, 153, 154, 155];

    fn compared(before: &Results, after: &Results) -> Vec<(String, &'static str, Verdict)> {
        let options = CompareOptions { threshold: Some(0.02), ..CompareOptions::default() };
        let compared = compared_latencies(before, after, &options, |_| Drift::NONE);
        compared
            .into_iter()
            .map(|one| (one.key.case.to_string(), one.quantile, one.comparison.verdict))
            .collect()
    }

    #[test]
    fn longer_times_are_slower() {
        let (low, high) = (results(&[("a", LOW, false)], 100), results(&[("a", HIGH, false)], 100));
        let slower = ["p50", "p90"].map(|name| ("a".to_owned(), name, Verdict::Slower));
        assert_eq!(compared(&low, &high), slower);
        let faster = ["p50", "p90"].map(|name| ("a".to_owned(), name, Verdict::Faster));
        assert_eq!(compared(&high, &low), faster);
    }

    #[test]
    fn a_quantile_that_few_times_exceed_is_not_compared() {
        let names = |count| {
            let low = results(&[("a", LOW, false)], count);
            compared(&low, &low).into_iter().map(|(_, name, _)| name).collect::<Vec<_>>()
        };
        assert_eq!(names(10), Vec::<&str>::new());
        assert_eq!(names(1000), ["p50", "p90", "p99"]);
        assert_eq!(names(10_000), ["p50", "p90", "p99", "p99.9"]);
    }

    #[test]
    fn nothing_is_claimed_from_a_disturbed_side_and_it_does_not_weaken_the_others() {
        let before = results(&[("a", LOW, true), ("b", LOW, false)], 20);
        let after = results(&[("a", HIGH, false), ("b", HIGH, false)], 20);
        let verdicts = [("b", Verdict::Slower), ("a", Verdict::Inconclusive)];
        let verdicts = verdicts.map(|(case, verdict)| (case.to_owned(), "p50", verdict));
        assert_eq!(compared(&before, &after), verdicts);
        let options = CompareOptions::default();
        let compared = compared_latencies(&before, &after, &options, |_| Drift::NONE);
        assert_eq!(compared[0].comparison.adjusted_p, compared[0].comparison.p);
    }

    #[test]
    fn nothing_is_claimed_from_late_requests_or_other_rates() {
        let at_a_rate = |rounds, change: fn(&mut PointLatency)| {
            let mut results = results(&[("a", rounds, false)], 20);
            for point in results.points.values_mut() {
                let latency = point.latency.as_mut().unwrap();
                latency.rate = Some(100.0);
                change(latency);
            }
            results
        };
        let doubt = |change| {
            let (before, after) = (at_a_rate(LOW, |_| ()), at_a_rate(HIGH, change));
            let options = CompareOptions::default();
            let compared = compared_latencies(&before, &after, &options, |_| Drift::NONE);
            (compared[0].doubt, compared[0].comparison.verdict)
        };
        assert_eq!(doubt(|_| ()), (None, Verdict::Slower));
        assert_eq!(doubt(|after| after.rate = Some(104.0)), (None, Verdict::Slower));
        let other_rate = (Some(Doubt::OtherRate), Verdict::Inconclusive);
        assert_eq!(doubt(|after| after.rate = Some(106.0)), other_rate);
        assert_eq!(doubt(|after| after.rate = Some(94.0)), other_rate);
        let late = (Some(Doubt::Late), Verdict::Inconclusive);
        assert_eq!(doubt(|after| after.lateness = Some(after.quantiles)), late);
    }

    #[test]
    fn nothing_is_claimed_about_a_point_that_lacks_the_latency_of_a_round() {
        let before = results(&[("a", LOW, false), ("b", LOW, false)], 20);
        let mut after = results(&[("a", HIGH, false), ("b", HIGH, false)], 20);
        let gap = |rounds| {
            let (reason, remedy) = ("it was late".to_owned(), "wait".to_owned());
            Some(LatencyGap { rounds, of: 6, reason, remedy })
        };
        let mut points = after.points.values_mut();
        points.next().unwrap().latency_gap = gap(1);
        let all = points.next().unwrap();
        (all.latency, all.latency_gap) = (None, gap(6));
        let options = CompareOptions::default();
        let compared = compared_latencies(&before, &after, &options, |_| Drift::NONE);
        let [partly] = &compared[..] else { panic!("{compared:?}") };
        assert_eq!(
            (partly.doubt, partly.comparison.verdict),
            (Some(Doubt::Incomplete), Verdict::Inconclusive)
        );
        let gaps = latency_gaps(&before, &after);
        let reasons = ["in 1 of 6 rounds: it was late", "it was late"].map(|r| Some(r.to_owned()));
        assert_eq!(gaps.iter().map(|gap| gap.after.clone()).collect::<Vec<_>>(), reasons);
        assert!(gaps.iter().all(|gap| gap.before.is_none()));
    }

    #[test]
    fn p_values_are_corrected_for_all_quantiles_of_all_points() {
        let points = |times| [("a", times, false), ("b", times, false)];
        let (before, after) = (results(&points(LOW), 100), results(&points(HIGH), 100));
        let options = CompareOptions::default();
        for one in compared_latencies(&before, &after, &options, |_| Drift::NONE) {
            let p = one.comparison.p;
            assert_eq!(one.comparison.adjusted_p, 4.0 * p);
        }
    }
}
