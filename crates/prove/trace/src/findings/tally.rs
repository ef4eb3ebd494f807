//! Counts tests by verdict, for each set of operations and for each pair of calls.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{TestLine, Verdict};

/// Test counts by verdict.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Counts {
    /// All tests.
    pub tests: usize,
    /// Conflict-free tests.
    pub free: usize,
    /// Tests that share a datum in every run.
    pub conflict: usize,
    /// Of the tests that share a datum in every run: those whose calls access no common byte of the shared lines
    /// (false sharing).
    pub false_sharing: usize,
    /// Tests that share something in some runs, but no datum in every run.
    pub sometimes: usize,
    /// Tests whose observation was disturbed.
    pub disturbed: usize,
    /// Tests that the guest or the program did not survive.
    pub died: usize,
}

impl Counts {
    fn add(&mut self, verdict: Verdict, is_false_sharing: bool) {
        self.tests += 1;
        self.false_sharing += usize::from(is_false_sharing);
        *match verdict {
            Verdict::ConflictFree => &mut self.free,
            Verdict::Conflict => &mut self.conflict,
            Verdict::Sometimes => &mut self.sometimes,
            Verdict::Disturbed => &mut self.disturbed,
            Verdict::Died => &mut self.died,
        } += 1;
    }

    /// The number of tests that are conflict-free if only shared bytes count, and not shared lines.
    pub fn free_in_bytes(&self) -> usize {
        self.free + self.false_sharing
    }

    /// The number of tests that are not conflict-free, for whatever reason.
    pub fn not_free(&self) -> usize {
        self.tests - self.free
    }
}

/// The number of tests with each verdict, in total, for each set of operations and for each pair of calls,
/// and the number of tests that share each datum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    total: Counts,
    sets: BTreeMap<Vec<String>, Counts>,
    /// The key is the names of two operations, in ascending order.
    pairs: BTreeMap<[String; 2], Counts>,
    data: BTreeMap<String, usize>,
    unexpected: Vec<String>,
}

impl Tally {
    /// The tally of these tests.
    pub fn of<'t>(tests: impl IntoIterator<Item = &'t TestLine>) -> Self {
        let mut tally = Self::default();
        tests.into_iter().for_each(|test| tally.add(test));
        tally
    }

    /// Adds a test.
    pub fn add(&mut self, test: &TestLine) {
        let is_false_sharing = test.is_false_sharing();
        self.total.add(test.verdict, is_false_sharing);
        let operations: Vec<String> =
            test.operations().iter().map(|&name| name.to_owned()).collect();
        for (nr, b) in operations.iter().enumerate() {
            for (earlier, a) in operations[..nr].iter().enumerate() {
                let pair = self.pairs.entry(sorted(a, b)).or_default();
                let calls = [earlier, nr];
                pair.add(test.verdict_of(calls), test.is_false_sharing_of(calls));
            }
        }
        self.sets.entry(operations).or_default().add(test.verdict, is_false_sharing);
        for datum in test.data() {
            *self.data.entry(datum.into_owned()).or_default() += 1;
        }
        if let Some(outcome) = &test.unexpected {
            self.unexpected.push(format!("{}: {outcome}", test.test));
        }
        if let Some(end) = &test.died {
            self.unexpected.push(format!("{}: {end}", test.test));
        }
    }

    /// The counts of all tests.
    pub fn total(&self) -> Counts {
        self.total
    }

    /// The counts for each set of operations. Operations have the same names as in the ids of tests.
    pub fn sets(&self) -> &BTreeMap<Vec<String>, Counts> {
        &self.sets
    }

    /// The counts for a call of one operation and a call of the other, in either order. A conflict counts
    /// only if it is between these two calls. A test with more than two calls counts once for each such pair
    /// of its calls.
    pub fn pair(&self, a: &str, b: &str) -> Option<Counts> {
        self.pairs.get(&sorted(a, b)).copied()
    }

    /// The counts for each pair of calls, as in [`pair`](Self::pair).
    pub fn pairs(&self) -> &BTreeMap<[String; 2], Counts> {
        &self.pairs
    }

    /// The shared data, each with the number of tests that share it, from the most often shared datum to the
    /// least.
    pub fn data(&self) -> Vec<(&str, usize)> {
        let mut data: Vec<(&str, usize)> =
            self.data.iter().map(|(name, tests)| (name.as_str(), *tests)).collect();
        data.sort_by_key(|(_, tests)| std::cmp::Reverse(*tests));
        data
    }

    /// The ids of the tests with results that the model does not allow, each with what its calls
    /// returned or how it ended.
    pub fn unexpected(&self) -> &[String] {
        &self.unexpected
    }
}

fn sorted(a: &str, b: &str) -> [String; 2] {
    let mut pair = [a, b].map(str::to_owned);
    pair.sort();
    pair
}

#[cfg(test)]
mod tests {
    use super::super::Touched;
    use super::super::samples::{conflicting, free, shared, with};
    use super::*;

    #[test]
    fn tests_are_counted_by_verdict_by_operations_and_by_data() {
        let tests = [
            free("close,open/0.0"),
            conflicting("close,open/0.1", &["x", "y", "y"]),
            conflicting("open,open/0.0", &["y"]),
            with("open,open/0.1", Verdict::Died, Vec::new()),
        ];
        let tally = Tally::of(&tests);
        let pair = tally.pair("open", "close").unwrap();
        assert_eq!((pair.tests, pair.free, pair.conflict, pair.not_free()), (2, 1, 1, 1));
        assert_eq!(tally.pair("open", "open").unwrap().died, 1);
        assert_eq!(tally.pair("close", "close"), None);
        assert_eq!(tally.data(), [("y", 2), ("x", 1)]);
        assert_eq!(tally.total().tests, 4);
    }

    #[test]
    fn each_pair_of_three_calls_is_counted_by_what_its_two_calls_share() {
        // Call 0 writes `x`, and calls 1 and 2 read it.
        let mut line = shared("x", 0);
        line.sides.insert(2, line.sides[&1].clone());
        let tests = [
            free("open,open,stat/0.0"),
            with("open,open,stat/0.1", Verdict::Conflict, vec![line]),
            with("open,open,stat/0.2", Verdict::Conflict, vec![shared("y", 1)]),
            with("open,open,stat/0.3", Verdict::Disturbed, Vec::new()),
        ];
        let tally = Tally::of(&tests);
        let counts = |a, b| {
            let pair = tally.pair(a, b).unwrap();
            (pair.tests, pair.free, pair.conflict, pair.disturbed)
        };
        assert_eq!(counts("open", "open"), (4, 1, 2, 1));
        // Calls 0 and 2 share `x`, and calls 1 and 2 only read it.
        assert_eq!(counts("stat", "open"), (8, 5, 1, 2));
        assert_eq!(tally.pair("stat", "stat"), None);
        assert_eq!((tally.total().tests, tally.total().free), (4, 1));
        // Call 2 reads other bytes than call 0 writes.
        let mut line = shared("x", 0);
        line.sides.insert(2, Touched { bytes: [8, 15], ..line.sides[&1].clone() });
        let tally = Tally::of(&[with("open,open,stat/0.0", Verdict::Conflict, vec![line])]);
        let counts = |a, b| tally.pair(a, b).map(|pair| (pair.conflict, pair.false_sharing));
        assert_eq!((counts("open", "open"), counts("stat", "open")), (Some((1, 0)), Some((1, 1))));
        assert_eq!((tally.total().false_sharing, tally.total().free_in_bytes()), (0, 0));
    }
}
