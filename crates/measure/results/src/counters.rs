//! Events of the processors and the kernel beside the rates of a point.

use std::collections::BTreeMap;

use knee_host::counters::{Counted, Counter};
use knee_stats::median;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A counter that had to share the processor's counters with others for more than this part of the time has an
/// estimated value.
const ROUNDING: f64 = 1e-3;

/// Events of an interval.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counts {
    /// Length in seconds of the interval in which they were counted.
    pub seconds: f64,
    /// The number of each event, of all tasks or of all processes of a command or server. `task-clock` is
    /// nanoseconds of CPU time.
    pub values: BTreeMap<Counter, f64>,
    /// The counters that the processor counted only part of the time, because it has too few counters for all.
    /// Their values are scaled up. The numbers are the counted shares of the CPU time, 0 to 1.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shares: BTreeMap<Counter, f64>,
}

impl Counts {
    /// The events `counted` in `seconds`.
    pub fn new(seconds: f64, counted: BTreeMap<Counter, Counted>) -> Self {
        let shares = counted.iter().map(|(&counter, counted)| (counter, counted.share));
        Self {
            seconds,
            shares: shares.filter(|(_, share)| *share < 1.0 - ROUNDING).collect(),
            values: counted
                .into_iter()
                .map(|(counter, counted)| (counter, counted.value))
                .collect(),
        }
    }
}

/// Events of the samples of a round, and the operations in the same time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct CountedWork {
    counts: Counts,
    operations: f64,
}

impl CountedWork {
    /// Adds the events of a sample with this rate.
    pub fn add(&mut self, counts: &Counts, rate: f64) {
        self.operations += rate * counts.seconds;
        self.counts.seconds += counts.seconds;
        for (&counter, value) in &counts.values {
            *self.counts.values.entry(counter).or_default() += value;
        }
        keep_least(&mut self.counts.shares, &counts.shares);
    }

    /// The number of this event per operation; `None` if it was not counted or there were no operations.
    fn per_operation(&self, counter: Counter) -> Option<f64> {
        let value = *self.counts.values.get(&counter)?;
        (self.operations > 0.0).then(|| value / self.operations)
    }

    fn per_second(&self, counter: Counter) -> Option<f64> {
        let value = *self.counts.values.get(&counter)?;
        (self.counts.seconds > 0.0).then(|| value / self.counts.seconds)
    }

    /// Instructions per cycle.
    fn ipc(&self) -> Option<f64> {
        let [instructions, cycles] = [Counter::Instructions, Counter::Cycles]
            .map(|counter| self.counts.values.get(&counter));
        let (instructions, cycles) = (instructions?, cycles?);
        (*cycles > 0.0).then(|| instructions / cycles)
    }
}

/// Makes each of the `shares` the least of what it is and of its share among `others`.
fn keep_least(shares: &mut BTreeMap<Counter, f64>, others: &BTreeMap<Counter, f64>) {
    for (&counter, &share) in others {
        let least = shares.entry(counter).or_insert(share);
        *least = least.min(share);
    }
}

/// The events of a point: medians over the rounds.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PointCounters {
    /// The number of each event for each operation, in the unit of the testcase. `task-clock` is nanoseconds of
    /// CPU time.
    pub per_operation: BTreeMap<Counter, f64>,
    /// The number of each event per second, over all tasks.
    pub per_second: BTreeMap<Counter, f64>,
    /// Instructions per cycle, if both were counted.
    pub ipc: Option<f64>,
    /// The counters whose values are estimates, with the smallest share of the CPU time in which they were
    /// counted.
    pub shares: BTreeMap<Counter, f64>,
}

impl PointCounters {
    /// The events of a point from those of its rounds; `None` if nothing was counted.
    pub fn of<'r>(rounds: impl IntoIterator<Item = &'r CountedWork>) -> Option<Self> {
        let rounds: Vec<&CountedWork> = rounds.into_iter().collect();
        let typical = |of: &dyn Fn(&CountedWork) -> Option<f64>| {
            median(&rounds.iter().filter_map(|round| of(round)).collect::<Vec<f64>>())
        };
        let each = |of: fn(&CountedWork, Counter) -> Option<f64>| {
            let all = Counter::ALL.iter();
            all.filter_map(|&counter| Some((counter, typical(&|round| of(round, counter))?)))
                .collect::<BTreeMap<Counter, f64>>()
        };
        let mut shares = BTreeMap::new();
        rounds.iter().for_each(|round| keep_least(&mut shares, &round.counts.shares));
        let per_second = each(CountedWork::per_second);
        let per_operation = each(CountedWork::per_operation);
        let ipc = typical(&CountedWork::ipc);
        (!per_second.is_empty()).then_some(Self { per_operation, per_second, ipc, shares })
    }

    /// Whether the value of this counter is an estimate, because it was counted only part of the time.
    pub fn is_estimate(&self, counter: Counter) -> bool {
        self.shares.contains_key(&counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(seconds: f64, values: &[(Counter, f64, f64)]) -> Counts {
        let counted =
            values.iter().map(|&(counter, value, share)| (counter, Counted { value, share }));
        Counts::new(seconds, counted.collect())
    }

    fn round(samples: &[(f64, Counts)]) -> CountedWork {
        let mut round = CountedWork::default();
        samples.iter().for_each(|(rate, counts)| round.add(counts, *rate));
        round
    }

    #[test]
    fn events_are_divided_by_the_operations_of_the_same_time() {
        use Counter::{Cycles, Instructions, PageFaults};
        let samples = [
            (100.0, counts(1.0, &[(PageFaults, 100.0, 1.0), (Cycles, 2e5, 1.0)])),
            (300.0, counts(2.0, &[(PageFaults, 600.0, 1.0), (Cycles, 12e5, 0.5)])),
        ];
        let point = PointCounters::of(&[round(&samples)]).unwrap();
        assert_eq!(point.per_operation[&PageFaults], 1.0);
        assert_eq!(point.per_second[&PageFaults], 700.0 / 3.0);
        assert_eq!(point.per_operation[&Cycles], 2000.0);
        assert!(point.is_estimate(Cycles) && !point.is_estimate(PageFaults));
        assert_eq!((point.shares[&Cycles], point.ipc), (0.5, None));
        let both = counts(1.0, &[(Cycles, 4.0, 1.0), (Instructions, 6.0, 1.0)]);
        assert_eq!(PointCounters::of(&[round(&[(1.0, both)])]).unwrap().ipc, Some(1.5));
    }

    #[test]
    fn the_median_over_the_rounds_is_shown_and_idle_rounds_have_no_operations() {
        let of =
            |rate, faults| round(&[(rate, counts(1.0, &[(Counter::PageFaults, faults, 1.0)]))]);
        let rounds = [of(10.0, 10.0), of(10.0, 20.0), of(10.0, 90.0), of(0.0, 5.0)];
        let point = PointCounters::of(&rounds).unwrap();
        assert_eq!(point.per_operation[&Counter::PageFaults], 2.0);
        assert_eq!(point.per_second[&Counter::PageFaults], 15.0);
        assert_eq!(PointCounters::of([&CountedWork::default()]), None);
        let json = serde_json::to_value(&point).unwrap();
        assert_eq!(json["per_operation"]["page-faults"], 2.0);
    }
}
