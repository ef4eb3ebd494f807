//! The plugin's results for tests that have not been reported yet. The results arrive on their own
//! pipe, before or after the report from the guest or the program.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::record::TestResult;

/// Results, keyed by the numbers of their runs. If each test runs only once, a run has the number of its
/// test.
#[derive(Debug, Default)]
pub(crate) struct Results(BTreeMap<u64, TestResult>);

impl Results {
    /// Adds a result.
    pub(crate) fn add(&mut self, result: TestResult) {
        self.0.insert(result.test, result);
    }

    /// The results that have arrived for run `begin` and later runs.
    pub(crate) fn since(&self, begin: u64) -> impl Iterator<Item = &TestResult> {
        self.0.range(begin..).map(|(_, result)| result)
    }

    /// Removes and returns the results with these numbers, in order; `None` until all have arrived.
    pub(crate) fn take(&mut self, wanted: Range<u64>) -> Option<Vec<TestResult>> {
        // The result with the highest number arrives last, so look for this result first.
        if !wanted.clone().rev().all(|nr| self.0.contains_key(&nr)) {
            return None;
        }
        Some(wanted.filter_map(|nr| self.0.remove(&nr)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(test: u64) -> TestResult {
        let (sides, conflicts, moves) = (Vec::new(), Vec::new(), Vec::new());
        let (taken, fetched, impossible) = (0, 0, false);
        TestResult { test, sides, conflicts, more: 0, stray: 0, taken, fetched, moves, impossible }
    }

    fn numbers<'r>(results: impl IntoIterator<Item = &'r TestResult>) -> Vec<u64> {
        results.into_iter().map(|result| result.test).collect()
    }

    #[test]
    fn a_range_is_taken_only_as_a_whole() {
        let mut results = Results::default();
        [3, 1, 0].into_iter().for_each(|nr| results.add(result(nr)));
        assert!(results.take(1..4).is_none());
        assert_eq!(numbers(results.since(1)), [1, 3]);
        results.add(result(2));
        assert_eq!(results.take(1..4).as_deref().map(numbers), Some(vec![1, 2, 3]));
        assert_eq!(numbers(results.since(0)), [0]);
        assert_eq!(results.take(7..7), Some(vec![]), "a test that was not run has no results");
    }
}
