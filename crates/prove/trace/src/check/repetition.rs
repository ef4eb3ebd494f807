//! Decides whether a test runs again.
//!
//! If the calls share a datum in one run but not in another, they do not have to share the datum. So a test
//! ends after a run in which its calls share nothing. It also ends after a run in which its calls share the
//! same data as in the previous valid run, because another run is unlikely to differ.

use knee_plan::MOST_TRACED;

use crate::datum::Datum;
use crate::record::TestResult;

/// Maximum number of runs of a test whose calls share different data in each run.
const MAX_RUNS: u32 = 3;
/// Maximum number of runs of a test whose only sharing is false sharing that depends on the addresses of
/// objects. Objects have different addresses in each run, so the calls of a later run may share nothing.
const MAX_PLACEMENTS: u32 = MOST_TRACED;

/// The runs of the current test.
#[derive(Debug)]
pub(super) struct Repetition {
    max_runs: u32,
    max_placements: u32,
    runs: u32,
    /// What the calls shared in the last valid run.
    before: Option<Shared>,
}

/// The data that the calls share in a run, regardless of the lines' addresses. False sharing that depends on
/// the addresses of objects is left out.
#[derive(Debug, PartialEq, Eq)]
struct Shared(Vec<Option<Datum>>);

impl Shared {
    /// Returns `None` if the run was disturbed or is incomplete.
    fn in_run(run: &TestResult) -> Option<Shared> {
        if run.is_disturbed() || run.is_incomplete() {
            return None;
        }
        let lines = run.conflicts.iter().filter(|conflict| !conflict.by_position);
        let mut data: Vec<_> = lines.map(|conflict| conflict.datum.clone()).collect();
        data.sort();
        Some(Shared(data))
    }

    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Repetition {
    /// Runs a test until its conflicts are known.
    pub(super) fn until_known() -> Repetition {
        Repetition::up_to(MAX_RUNS, MAX_PLACEMENTS)
    }

    /// Runs each test once.
    pub(super) fn once() -> Repetition {
        Repetition::up_to(1, 1)
    }

    fn up_to(max_runs: u32, max_placements: u32) -> Repetition {
        Repetition { max_runs, max_placements, runs: 0, before: None }
    }

    /// Adds a run of the current test, and returns whether the test runs again. If the result is false, the
    /// next call must pass a run of another test.
    pub(super) fn wants_another(&mut self, run: &TestResult) -> bool {
        self.runs += 1;
        let shared = Shared::in_run(run);
        let again = run.is_awaited() && !self.is_known(run, shared.as_ref());
        if again {
            self.before = shared.or(self.before.take());
        } else {
            (self.runs, self.before) = (0, None);
        }
        again
    }

    /// Whether the test needs no further run: another run is unlikely to change its conflicts, or the test
    /// has reached its maximum number of runs.
    fn is_known(&self, run: &TestResult, shared: Option<&Shared>) -> bool {
        let before = self.before.as_ref();
        let (is_known, max) = match shared {
            None => (false, self.max_runs),
            Some(shared) => {
                let by_position_only = shared.is_empty() && !run.is_conflict_free();
                if by_position_only && before.is_none_or(Shared::is_empty) {
                    (false, self.max_placements)
                } else {
                    (shared.is_empty() || before == Some(shared), self.max_runs)
                }
            }
        };
        is_known || self.runs >= max
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{Conflict, Side};

    /// A run with conflicts on these data; `?` is false sharing that depends on the address of an object.
    fn run(data: &[&str]) -> TestResult {
        let conflict = |name: &&str| Conflict {
            line: 0,
            overlap: true,
            sides: Vec::new(),
            datum: Some(Datum::shared(vec![(*name).to_owned()])),
            by_position: *name == "?",
            object: None,
        };
        let conflicts = data.iter().map(conflict).collect();
        TestResult {
            test: 0,
            sides: Vec::new(),
            conflicts,
            more: 0,
            stray: 0,
            taken: 0,
            fetched: 0,
            moves: Vec::new(),
            accesses: Vec::new(),
            impossible: false,
        }
    }

    /// A run in which a task was switched out.
    fn disturbed() -> TestResult {
        let side = Side {
            side: 0,
            cpu: 0,
            opened: 1,
            closed: 1,
            instructions: 0,
            accesses: 0,
            read: 0,
            written: 0,
            interrupts: 0,
            switches: 1,
            unresolved: 0,
            overflowed: false,
        };
        TestResult { sides: vec![side], ..run(&[]) }
    }

    /// Returns how many of `runs` a test makes before it ends.
    fn made(runs: &[TestResult]) -> usize {
        let mut repetition = Repetition::until_known();
        let last = runs.iter().position(|run| !repetition.wants_another(run));
        last.expect("a last run") + 1
    }

    #[test]
    fn a_test_runs_until_it_shares_nothing_or_the_same_data_twice() {
        assert_eq!(made(&[run(&[])]), 1);
        assert_eq!(made(&[run(&["a"]), run(&["a"])]), 2);
        assert_eq!(made(&[run(&["a"]), run(&[])]), 2);
        assert_eq!(made(&[run(&["a", "b"]), run(&["b", "a"])]), 2);
        assert_eq!(made(&[run(&["a"]), run(&["b"]), run(&["c"])]), 3);
    }

    #[test]
    fn a_disturbed_run_counts_towards_the_limit_but_shows_nothing() {
        assert_eq!(made(&[run(&["a"]), disturbed(), run(&["a"])]), 3);
        assert_eq!(made(&[disturbed(), disturbed(), disturbed()]), 3);
        assert_eq!(made(&[disturbed(), run(&[])]), 2);
    }

    #[test]
    fn a_test_that_shares_only_by_position_gets_more_runs() {
        assert_eq!(made(&[const { "?" }; 9].map(|name| run(&[name]))), 6);
        assert_eq!(made(&[run(&["?"]), run(&[])]), 2);
        assert_eq!(made(&[run(&["a"]), run(&["?"])]), 2, "the runs have no shared datum in common");
        assert_eq!(made(&[run(&["?"]), run(&["a", "?"]), run(&["b"])]), 3);
    }

    #[test]
    fn a_traced_test_runs_once_and_the_next_test_begins_anew() {
        assert!(!Repetition::once().wants_another(&run(&["a"])));
        let mut repetition = Repetition::until_known();
        for _ in 0..2 {
            assert!(repetition.wants_another(&run(&["a"])));
            assert!(!repetition.wants_another(&run(&["a"])));
        }
    }
}
