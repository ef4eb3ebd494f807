//! The plugin's results for tests that have not been reported yet. The results arrive on their own
//! pipe, before or after the report from the guest or the program.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::error::GuestError;
use crate::record::TestResult;

/// Default maximum of `Results::held`. A guest is at most a few tests ahead of knee, so `held` is usually a
/// few hundred. A line takes up to a kilobyte.
const MAX_HELD: usize = 500_000;
/// Maximum number of lines of one result: a thousand conflicts, a thousand moves, and the accesses of two
/// sides. Twenty accesses count as a line.
const MAX_LINES: usize = 3_700;
/// The number of accesses that take as much memory as a line.
const ACCESSES: usize = 20;

/// Results, keyed by the numbers of their runs. If each test runs only once, a run has the number of its
/// test.
#[derive(Debug)]
pub(crate) struct Results {
    by_run: BTreeMap<u64, TestResult>,
    /// The number of results plus the number of lines in them.
    held: usize,
    max_held: usize,
}

impl Default for Results {
    fn default() -> Results {
        Results { by_run: BTreeMap::new(), held: 0, max_held: MAX_HELD }
    }
}

impl Results {
    /// Room for this many results, even if they have many lines.
    pub(crate) fn with_room_for(results: usize) -> Results {
        let max_held = results.saturating_mul(1 + MAX_LINES).max(MAX_HELD);
        Results { max_held, ..Results::default() }
    }

    /// Adds a result.
    ///
    /// # Errors
    /// There is no room, because the guest or the program produces results that belong to no test.
    pub(crate) fn add(&mut self, result: TestResult) -> Result<(), GuestError> {
        self.remove(result.test);
        let held = self.held + size(&result);
        if held > self.max_held {
            return Err(GuestError::TooMany("results"));
        }
        self.held = held;
        self.by_run.insert(result.test, result);
        Ok(())
    }

    fn remove(&mut self, run: u64) -> Option<TestResult> {
        let result = self.by_run.remove(&run)?;
        self.held -= size(&result);
        Some(result)
    }

    /// The results that have arrived for run `begin` and later runs.
    pub(crate) fn since(&self, begin: u64) -> impl Iterator<Item = &TestResult> {
        self.by_run.range(begin..).map(|(_, result)| result)
    }

    /// Removes and returns the results with these numbers, in order; `None` until all have arrived.
    pub(crate) fn take(&mut self, wanted: Range<u64>) -> Option<Vec<TestResult>> {
        // The result with the highest number arrives last, so look for this result first.
        if !wanted.clone().rev().all(|nr| self.by_run.contains_key(&nr)) {
            return None;
        }
        Some(wanted.filter_map(|nr| self.remove(nr)).collect())
    }
}

fn size(result: &TestResult) -> usize {
    let accesses: usize = result.accesses.iter().map(|side| side.list.len()).sum();
    1 + result.conflicts.len() + result.moves.len() + accesses / ACCESSES
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn result(test: u64) -> TestResult {
        let line = format!(r#"{{"test":{test},"sides":[],"conflicts":[],"more":0,"stray":0}}"#);
        let Ok(Record::Test(result)) = Record::parse(&line) else { panic!("{line}") };
        result
    }

    fn numbers<'r>(results: impl IntoIterator<Item = &'r TestResult>) -> Vec<u64> {
        results.into_iter().map(|result| result.test).collect()
    }

    #[test]
    fn a_range_is_taken_only_as_a_whole() {
        let mut results = Results::default();
        [3, 1, 0].into_iter().for_each(|nr| results.add(result(nr)).unwrap());
        assert!(results.take(1..4).is_none());
        assert_eq!(numbers(results.since(1)), [1, 3]);
        results.add(result(2)).unwrap();
        assert_eq!(results.take(1..4).as_deref().map(numbers), Some(vec![1, 2, 3]));
        assert_eq!(numbers(results.since(0)), [0]);
        assert_eq!(results.take(7..7), Some(vec![]), "a test that was not run has no results");
    }

    #[test]
    fn results_that_no_test_takes_are_limited() {
        let mut results = Results { max_held: 3, ..Results::default() };
        // A result may be replaced, and taken, any number of times.
        for _ in 0..10 {
            [0, 1, 2, 2].into_iter().for_each(|nr| drop(results.add(result(nr))));
            assert_eq!(results.take(0..3).map(|taken| taken.len()), Some(3));
        }
        let added = (0..10).take_while(|&nr| results.add(result(nr)).is_ok()).count();
        assert_eq!(added, 3);
        assert_eq!(Results::with_room_for(1000).max_held, 1000 * (1 + MAX_LINES));
    }
}
