//! Sums of counters, and their differences.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use super::counter::Counter;

/// The sums of all open counters at one moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Totals {
    /// When they were read, in seconds by CLOCK_MONOTONIC_RAW.
    pub at: f64,
    /// `None` if an event cannot be read.
    pub(super) totals: Vec<(Counter, Option<Total>)>,
}

/// The sum of one event.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Total {
    value: u64,
    /// Nanoseconds for which the process ran and wanted the event counted.
    enabled: u64,
    /// Nanoseconds of these for which the event had a counter of the processor.
    running: u64,
}

/// How often an event happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Counted {
    /// The number, or an estimate if `share` is less than 1.
    pub value: f64,
    /// The share of the CPU time in which the event was counted, 0 to 1. It is less than 1 if the processor has too few
    /// counters for all events.
    pub share: f64,
}

impl Total {
    /// The present sum; `None` if it cannot be read.
    pub(super) fn read(event: &OwnedFd) -> Option<Self> {
        let mut bytes = [0; 24];
        if rustix::io::read(event, &mut bytes).ok()? != bytes.len() {
            return None;
        }
        let (words, _) = bytes.as_chunks::<8>();
        let [value, enabled, running] = [0, 1, 2].map(|nr| u64::from_ne_bytes(words[nr]));
        Some(Self { value, enabled, running })
    }

    fn add(self, other: Self) -> Self {
        Self {
            value: self.value + other.value,
            enabled: self.enabled + other.enabled,
            running: self.running + other.running,
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            value: self.value.saturating_sub(before.value),
            enabled: self.enabled.saturating_sub(before.enabled),
            running: self.running.saturating_sub(before.running),
        }
    }

    /// `None` if the processes ran and the event had no counter at all.
    fn counted(self) -> Option<Counted> {
        let Self { value, enabled, running } = self;
        match (enabled, running) {
            (0, _) => Some(Counted { value: value as f64, share: 1.0 }),
            (_, 0) => None,
            _ => {
                let share = (running as f64 / enabled as f64).min(1.0);
                Some(Counted { value: value as f64 / share, share })
            }
        }
    }
}

impl Totals {
    /// What happened between the moment `before` and this one, over all processes. Leaves out counters that were not
    /// counted.
    pub fn since(&self, before: &Self) -> BTreeMap<Counter, Counted> {
        let mut sums: BTreeMap<Counter, Option<Total>> = BTreeMap::new();
        for (&(counter, now), &(_, before)) in self.totals.iter().zip(&before.totals) {
            let difference = now.zip(before).map(|(now, before)| now.since(before));
            let sum = sums.entry(counter).or_insert(Some(Total::default()));
            *sum = sum.zip(difference).map(|(sum, difference)| sum.add(difference));
        }
        let counted = |(counter, sum): (Counter, Option<Total>)| Some((counter, sum?.counted()?));
        sums.into_iter().filter_map(counted).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn totals(values: &[(Counter, [u64; 3])]) -> Totals {
        let total = |[value, enabled, running]: [u64; 3]| Total { value, enabled, running };
        let totals = values.iter().map(|&(counter, total_of)| (counter, Some(total(total_of))));
        Totals { at: 0.0, totals: totals.collect() }
    }

    #[test]
    fn differences_are_summed_over_processes_and_scaled_to_the_time_that_was_not_counted() {
        use Counter::{Cycles, Instructions, LlcMisses, PageFaults};
        let before = [
            (PageFaults, [10, 100, 100]),
            (Cycles, [1000, 100, 100]),
            (PageFaults, [1, 50, 50]),
            (Cycles, [0, 0, 0]),
            (Instructions, [7, 5, 5]),
            (LlcMisses, [3, 10, 10]),
        ];
        let after = [
            (PageFaults, [14, 200, 200]),
            (Cycles, [3000, 300, 200]),
            (PageFaults, [3, 60, 60]),
            (Cycles, [1000, 200, 100]),
            // It did not run.
            (Instructions, [7, 5, 5]),
            // It had no counter.
            (LlcMisses, [3, 20, 10]),
        ];
        let counted = totals(&after).since(&totals(&before));
        assert_eq!(counted[&PageFaults], Counted { value: 6.0, share: 1.0 });
        assert_eq!(counted[&Cycles], Counted { value: 6000.0, share: 0.5 });
        assert_eq!(counted[&Instructions], Counted { value: 0.0, share: 1.0 });
        assert!(!counted.contains_key(&LlcMisses));
    }
}
