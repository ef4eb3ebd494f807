//! The differences between two checks.
//!
//! Tests are compared by id, and only if both checks contain them. A test is worse if it was
//! conflict-free and now conflicts in every run, and better in the opposite case. A test whose verdict
//! is `sometimes`, `disturbed` or `died` in either check is neither better nor worse; if it was
//! conflict-free before, it is listed separately.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;

use super::{SCHEMA, TestLine, Verdict};

/// The differences between two checks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Diff {
    /// Version of this document: 1.
    pub schema: u32,
    /// The number of tests that both checks contain.
    pub compared: usize,
    /// The number of tests that only the first check contains.
    pub only_before: usize,
    /// The number of tests that only the second check contains.
    pub only_after: usize,
    /// The number of compared tests that are conflict-free in the first check.
    pub free_before: usize,
    /// The number of compared tests that are conflict-free in the second check.
    pub free_after: usize,
    /// The number of compared tests that conflict in the first check, but share no byte (false sharing).
    pub false_sharing_before: usize,
    /// The number of compared tests that conflict in the second check, but share no byte.
    pub false_sharing_after: usize,
    /// For each set of operations, how its tests changed. Sets without a change are left out. The set with
    /// the most tests that are worse comes first.
    pub sets: Vec<PairChange>,
    /// Ids of tests that were conflict-free and now conflict.
    pub worse: Vec<String>,
    /// Ids of tests that conflicted and are now conflict-free.
    pub better: Vec<String>,
    /// Ids of tests that were conflict-free and are now inconclusive, by their new verdict.
    pub unclear: BTreeMap<Verdict, Vec<String>>,
    /// Data that tests share now and that no test shared before. The datum that the most tests share is
    /// first.
    pub new_data: Vec<DatumChange>,
    /// Data that tests shared before and that no test shares now.
    pub gone_data: Vec<DatumChange>,
}

/// How the tests of a set of operations changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PairChange {
    /// The operations.
    pub operations: Vec<String>,
    /// The number of tests that both checks contain.
    pub tests: usize,
    /// The number of these tests that are conflict-free in the first check.
    pub free_before: usize,
    /// The number of these tests that are conflict-free in the second check.
    pub free_after: usize,
    /// The number of tests that were conflict-free and now conflict.
    pub worse: usize,
    /// The number of tests that conflicted and are now conflict-free.
    pub better: usize,
}

/// A datum that only one of two checks shows as shared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DatumChange {
    /// Its name.
    pub datum: String,
    /// The number of tests that share the datum.
    pub tests: usize,
}

impl Diff {
    /// How `after` differs from `before`.
    pub fn of(before: &[TestLine], after: &[TestLine]) -> Self {
        let first: BTreeMap<&str, &TestLine> =
            before.iter().map(|test| (test.test.as_str(), test)).collect();
        let both: Vec<(&TestLine, &TestLine)> =
            after.iter().filter_map(|test| Some((*first.get(test.test.as_str())?, test))).collect();
        let free = |test: &TestLine| test.verdict == Verdict::ConflictFree;
        let mut diff = Self {
            schema: SCHEMA,
            compared: both.len(),
            only_before: before.len() - both.len(),
            only_after: after.len() - both.len(),
            free_before: both.iter().filter(|(one, _)| free(one)).count(),
            free_after: both.iter().filter(|(_, other)| free(other)).count(),
            false_sharing_before: both.iter().filter(|(one, _)| one.is_false_sharing()).count(),
            false_sharing_after: both.iter().filter(|(_, other)| other.is_false_sharing()).count(),
            sets: Vec::new(),
            worse: Vec::new(),
            better: Vec::new(),
            unclear: BTreeMap::new(),
            new_data: Vec::new(),
            gone_data: Vec::new(),
        };
        let mut sets: BTreeMap<Vec<&str>, PairChange> = BTreeMap::new();
        for (one, other) in &both {
            let operations = one.operations();
            let set = sets.entry(operations.clone()).or_insert_with(|| PairChange {
                operations: operations.into_iter().map(str::to_owned).collect(),
                tests: 0,
                free_before: 0,
                free_after: 0,
                worse: 0,
                better: 0,
            });
            set.tests += 1;
            set.free_before += usize::from(free(one));
            set.free_after += usize::from(free(other));
            let id = one.test.clone();
            match (one.verdict, other.verdict) {
                (Verdict::ConflictFree, Verdict::Conflict) => {
                    set.worse += 1;
                    diff.worse.push(id);
                }
                (Verdict::Conflict, Verdict::ConflictFree) => {
                    set.better += 1;
                    diff.better.push(id);
                }
                (Verdict::ConflictFree, now) if now != Verdict::ConflictFree => {
                    diff.unclear.entry(now).or_default().push(id);
                }
                _ => {}
            }
        }
        diff.sets = sets
            .into_values()
            .filter(|set| set.free_before != set.free_after || set.worse + set.better > 0)
            .collect();
        diff.sets.sort_by_key(|set| (std::cmp::Reverse(set.worse), set.better));
        let [had, has] =
            [data(both.iter().map(|pair| pair.0)), data(both.iter().map(|pair| pair.1))];
        diff.new_data = without(&has, &had);
        diff.gone_data = without(&had, &has);
        diff
    }
}

/// Returns `tests`, but with the verdict `sometimes` for each test whose verdict in `again` is different.
/// Tests that are missing from `again` stay as they are.
pub fn confirmed(tests: &[TestLine], again: &[TestLine]) -> Vec<TestLine> {
    let again: BTreeMap<&str, Verdict> =
        again.iter().map(|test| (test.test.as_str(), test.verdict)).collect();
    let confirm = |test: &TestLine| match again.get(test.test.as_str()) {
        Some(verdict) if *verdict != test.verdict => {
            TestLine { verdict: Verdict::Sometimes, ..test.clone() }
        }
        _ => test.clone(),
    };
    tests.iter().map(confirm).collect()
}

/// The data that tests share, each with the number of tests that share it.
fn data<'t>(tests: impl Iterator<Item = &'t TestLine>) -> BTreeMap<String, usize> {
    let mut data = BTreeMap::new();
    for datum in tests.flat_map(TestLine::data) {
        *data.entry(datum.into_owned()).or_default() += 1;
    }
    data
}

fn without(these: &BTreeMap<String, usize>, those: &BTreeMap<String, usize>) -> Vec<DatumChange> {
    let mut new: Vec<DatumChange> = these
        .iter()
        .filter(|(datum, _)| !those.contains_key(*datum))
        .map(|(datum, &tests)| DatumChange { datum: datum.clone(), tests })
        .collect();
    new.sort_by_key(|change| std::cmp::Reverse(change.tests));
    new
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{any_line, conflicting, free, with};
    use super::*;

    #[test]
    fn each_change_is_listed_once_and_inconclusive_verdicts_are_not_changes() {
        let sometimes = |id| with(id, Verdict::Sometimes, Vec::new());
        let before = [
            free("a,b/0"),
            free("a,b/1"),
            conflicting("a,b/2", &["x"]),
            conflicting("a,b/3", &["x"]),
            free("a,c/0"),
            sometimes("a,c/1"),
            free("old,old/0"),
        ];
        let after = [
            free("a,b/0"),
            conflicting("a,b/1", &["y"]),
            free("a,b/2"),
            conflicting("a,b/3", &["y"]),
            sometimes("a,c/0"),
            conflicting("a,c/1", &["y"]),
            free("new,new/0"),
        ];
        let diff = Diff::of(&before, &after);
        assert_eq!((diff.compared, diff.only_before, diff.only_after), (6, 1, 1));
        assert_eq!((diff.worse, diff.better), (vec!["a,b/1".to_owned()], vec!["a,b/2".to_owned()]));
        assert_eq!(diff.unclear, [(Verdict::Sometimes, vec!["a,c/0".to_owned()])].into());
        let change = |datum: &str, tests| vec![DatumChange { datum: datum.to_owned(), tests }];
        assert_eq!((diff.new_data, diff.gone_data), (change("y", 3), change("x", 2)));
        let sets: Vec<_> = diff
            .sets
            .iter()
            .map(|set| (set.operations.join(","), set.free_before, set.free_after, set.worse))
            .collect();
        assert_eq!(sets, [("a,b".to_owned(), 2, 2, 1), ("a,c".to_owned(), 1, 0, 0)]);
    }

    #[test]
    fn an_unconfirmed_verdict_is_inconclusive() {
        let before = ["a,b/0", "a,b/1", "a,b/2"].map(free);
        let after = ["a,b/0", "a,b/1", "a,b/2"].map(|id| conflicting(id, &["x"]));
        let again = [free("a,b/0"), conflicting("a,b/1", &["y"])];
        let diff = Diff::of(&before, &confirmed(&after, &again));
        assert_eq!(diff.worse, ["a,b/1", "a,b/2"]);
        assert_eq!(diff.unclear, [(Verdict::Sometimes, vec!["a,b/0".to_owned()])].into());
    }

    /// Tests with different ids.
    fn any_check() -> impl Strategy<Value = Vec<TestLine>> {
        prop::collection::vec(any_line(), 0..12).prop_map(|mut tests| {
            for (nr, test) in tests.iter_mut().enumerate() {
                test.test = format!("{}/{nr}", test.operations().join(","));
            }
            tests
        })
    }

    proptest! {
        #[test]
        fn a_check_does_not_differ_from_itself(tests in any_check()) {
            let diff = Diff::of(&tests, &tests);
            prop_assert_eq!(diff.compared, tests.len());
            let changes = (diff.sets, diff.worse, diff.better, diff.new_data, diff.gone_data);
            prop_assert_eq!(changes, Default::default());
        }

        #[test]
        fn worse_in_one_direction_is_better_in_the_other(one in any_check(), changed in any_check()) {
            // The same ids with other verdicts.
            let other: Vec<TestLine> = one
                .iter()
                .zip(&changed)
                .map(|(one, changed)| TestLine { test: one.test.clone(), ..changed.clone() })
                .collect();
            let (there, back) = (Diff::of(&one, &other), Diff::of(&other, &one));
            prop_assert_eq!(&there.worse, &back.better);
            prop_assert_eq!(&there.new_data, &back.gone_data);
            prop_assert_eq!(there.free_before, back.free_after);
            let lost = there.worse.len() + there.unclear.values().map(Vec::len).sum::<usize>();
            prop_assert!(there.free_before <= there.free_after + lost);
        }
    }
}
