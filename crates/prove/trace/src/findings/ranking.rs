//! Ranks data by how many tests they prevent from being conflict-free, and orders their fixes.
//!
//! A test becomes conflict-free when everything that it shares has been fixed. So for each datum, the ranking
//! contains the number of tests that share it, and the number of tests that would become conflict-free if
//! only this datum were fixed. Most tests share several data and do not become conflict-free when only one of
//! these is fixed. So the ranking also contains a sequence of steps, each of which fixes a *set* of data. For
//! each test that is not yet conflict-free, there is a set of data that must still be fixed. The next step
//! fixes the set that makes the most tests conflict-free per datum. The sequence is greedy: each step is the
//! best one after the previous steps, but another sequence of the same length may be better (maximum coverage
//! is NP-hard).

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::Serialize;

use super::cause::Cause;
use super::{SCHEMA, TestLine, Touched, Verdict};
use crate::datum::Layouts;

/// The causes of conflicts, and what to fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Ranking {
    /// Version of this document: 1.
    pub schema: u32,
    /// The number of tests.
    pub tests: usize,
    /// The number of conflict-free tests.
    pub free: usize,
    /// The number of tests whose calls share a datum in every run. The ranking ignores other tests.
    pub conflicting: usize,
    /// Of these tests: the number of those whose calls access no common byte of the shared lines (false sharing).
    pub false_sharing: usize,
    /// The data that these tests share, in descending order: first by the number of tests that would become
    /// conflict-free if only the datum were fixed, then by the number of tests that share the datum.
    pub data: Vec<Datum>,
    /// The same for all data of each kind together, in the same order; empty if the record has no types.
    pub causes: Vec<DataOfCause>,
    /// What to fix, in this order.
    pub fixes: Vec<Fix>,
    /// Whether `fixes` ends early because the next step would take too long. The time of a step grows with the
    /// square of the number of different sets of data that tests share.
    pub fixes_cut: bool,
}

/// The maximum number of comparisons of data in all steps of a ranking. This many comparisons take up to a minute, and
/// usually a few seconds. For a large check with a thousand sets of five data, a step makes up to five million.
const MOST_COMPARISONS: usize = 1_000_000_000;

/// A datum that tests share.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Datum {
    /// Its name.
    pub datum: String,
    /// Which kind of data it is; `None` if the record has no types.
    pub cause: Option<Cause>,
    /// The number of tests that would become conflict-free if only this datum were fixed.
    #[serde(rename = "frees")]
    pub unlocks_tests: usize,
    /// The number of tests that share the datum.
    pub tests: usize,
    /// For each operation, the functions that write to the datum's lines, each with the number of lines that
    /// the function writes, added up over all tests.
    pub writers: BTreeMap<String, BTreeMap<String, usize>>,
    /// For each operation, the functions that read the datum's lines, each with the number of lines that the
    /// function reads, added up over all tests.
    pub readers: BTreeMap<String, BTreeMap<String, usize>>,
    /// For each operation and function, the most frequent chain of callers, the innermost first.
    pub callers: BTreeMap<String, BTreeMap<String, Vec<String>>>,
}

/// All shared data of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct DataOfCause {
    /// The kind.
    pub cause: Cause,
    /// The number of data of this kind.
    pub data: usize,
    /// The number of tests that would become conflict-free if all data of this kind were fixed, and no others.
    #[serde(rename = "frees")]
    pub unlocks_tests: usize,
    /// The number of tests that share at least one datum of this kind.
    pub tests: usize,
}

/// A step: data to fix together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Fix {
    /// The names of the data.
    pub data: Vec<String>,
    /// The number of tests that this step makes conflict-free.
    #[serde(rename = "frees")]
    pub unlocks_tests: usize,
}

impl Ranking {
    /// The ranking of these tests, with at most `steps` steps. `layouts` has the types of their data.
    pub fn of<'t>(
        tests: impl IntoIterator<Item = &'t TestLine>,
        layouts: &Layouts,
        steps: usize,
    ) -> Self {
        let mut ranking = Self {
            schema: SCHEMA,
            tests: 0,
            free: 0,
            conflicting: 0,
            false_sharing: 0,
            data: Vec::new(),
            causes: Vec::new(),
            fixes: Vec::new(),
            fixes_cut: false,
        };
        let mut data: BTreeMap<Cow<'t, str>, Seen<'t>> = BTreeMap::new();
        let mut sets: BTreeMap<BTreeSet<Cow<'t, str>>, usize> = BTreeMap::new();
        for test in tests {
            ranking.tests += 1;
            match test.verdict {
                Verdict::ConflictFree => ranking.free += 1,
                Verdict::Conflict => {
                    ranking.conflicting += 1;
                    ranking.false_sharing += usize::from(test.is_false_sharing());
                    learn(&mut data, test);
                    *sets.entry(test.data()).or_default() += 1;
                }
                Verdict::Sometimes | Verdict::Disturbed | Verdict::Died => {}
            }
        }
        for (set, tests) in &sets {
            if let Some(datum) = set.first().filter(|_| set.len() == 1) {
                data.entry(datum.clone()).or_default().unlocks_tests += tests;
            }
        }
        (ranking.fixes, ranking.fixes_cut) = fixes(&sets, steps, MOST_COMPARISONS);
        if !layouts.is_empty() {
            ranking.causes = causes(&sets, layouts);
        }
        drop(sets);
        let finish = |(name, seen): (Cow<'_, str>, Seen<'_>)| {
            seen.finish(&name, (!layouts.is_empty()).then(|| Cause::of(&name, layouts)))
        };
        ranking.data = data.into_iter().map(finish).collect();
        ranking.data.sort_by_key(|datum| (Reverse(datum.unlocks_tests), Reverse(datum.tests)));
        ranking
    }
}

/// How often functions access a datum in the calls of an operation. A hostile record can contain so many names that their
/// copies take too much memory.
type Times<'t> = BTreeMap<&'t str, BTreeMap<&'t str, usize>>;

/// A datum, as seen in the tests so far.
#[derive(Default)]
struct Seen<'t> {
    tests: usize,
    unlocks_tests: usize,
    writers: Times<'t>,
    readers: Times<'t>,
    /// By operation and function, the number of times that each chain of callers occurs.
    chains: BTreeMap<(&'t str, &'t str), BTreeMap<&'t [String], usize>>,
}

/// Adds a test's accesses to what is known about the data that the test shares.
fn learn<'t>(data: &mut BTreeMap<Cow<'t, str>, Seen<'t>>, test: &'t TestLine) {
    let operations = test.operations();
    for name in test.data() {
        data.entry(name).or_default().tests += 1;
    }
    for line in &test.conflicts {
        for name in line.names() {
            let Some(seen) = data.get_mut(&name) else { continue };
            for (&side, touched) in &line.sides {
                seen.learn(operations.get(side).copied().unwrap_or("?"), touched);
            }
        }
    }
}

impl<'t> Seen<'t> {
    fn learn(&mut self, operation: &'t str, touched: &'t Touched) {
        let Self { writers, readers, .. } = self;
        for (known, functions) in [(writers, &touched.writers), (readers, &touched.readers)] {
            if !functions.is_empty() {
                let known = known.entry(operation).or_default();
                functions.iter().for_each(|name| *known.entry(name).or_default() += 1);
            }
        }
        for (function, chains) in &touched.callers {
            let known = self.chains.entry((operation, function)).or_default();
            for chain in chains {
                *known.entry(chain).or_default() += 1;
            }
        }
    }

    fn finish(self, name: &str, cause: Option<Cause>) -> Datum {
        let Self { tests, unlocks_tests, writers, readers, chains } = self;
        let mut callers: BTreeMap<String, BTreeMap<String, Vec<String>>> = BTreeMap::new();
        for ((operation, function), chains) in chains {
            // If several chains are equally frequent, take the first by name.
            let most = chains.into_iter().rev().max_by_key(|(_, times)| *times);
            if let Some((chain, _)) = most {
                let known = callers.entry(operation.to_owned()).or_default();
                known.insert(function.to_owned(), chain.to_vec());
            }
        }
        let (writers, readers) = (owned(writers), owned(readers));
        Datum { datum: name.to_owned(), cause, unlocks_tests, tests, writers, readers, callers }
    }
}

fn owned(times: Times<'_>) -> BTreeMap<String, BTreeMap<String, usize>> {
    let names = |(name, times): (&str, usize)| (name.to_owned(), times);
    let operation = |(operation, functions): (&str, BTreeMap<&str, usize>)| {
        (operation.to_owned(), functions.into_iter().map(names).collect())
    };
    times.into_iter().map(operation).collect()
}

/// A set of data that must still be fixed before certain tests become conflict-free. Each datum is a number,
/// and the numbers are in ascending order.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Left {
    data: Vec<usize>,
    /// Bit `n % 64` is set for each number `n`. These bits usually suffice to show that one set is not a
    /// subset of another, so most subset tests are fast.
    bits: u64,
}

/// The data of each kind. `sets` contains the sets of data that tests share, each with the number of tests that share
/// exactly this set.
fn causes(sets: &BTreeMap<BTreeSet<Cow<'_, str>>, usize>, layouts: &Layouts) -> Vec<DataOfCause> {
    let mut of_data: BTreeMap<&Cow<'_, str>, Cause> = BTreeMap::new();
    let mut all: BTreeMap<Cause, DataOfCause> = BTreeMap::new();
    for (set, tests) in sets {
        let mut of_set = BTreeSet::new();
        for name in set {
            let cause = *of_data.entry(name).or_insert_with(|| {
                let cause = Cause::of(name, layouts);
                let new = DataOfCause { cause, data: 0, unlocks_tests: 0, tests: 0 };
                all.entry(cause).or_insert(new).data += 1;
                cause
            });
            of_set.insert(cause);
        }
        for cause in &of_set {
            let Some(of_cause) = all.get_mut(cause) else { continue };
            of_cause.tests += tests;
            of_cause.unlocks_tests += if of_set.len() == 1 { *tests } else { 0 };
        }
    }
    let mut causes: Vec<DataOfCause> = all.into_values().collect();
    causes.sort_by_key(|of| (Reverse(of.unlocks_tests), Reverse(of.tests)));
    causes
}

impl Left {
    fn of(data: Vec<usize>) -> Self {
        let bits = data.iter().fold(0, |bits, nr| bits | 1 << (nr % 64));
        Self { data, bits }
    }

    fn is_within(&self, other: &Self) -> bool {
        self.bits & !other.bits == 0
            && self.data.iter().all(|nr| other.data.binary_search(nr).is_ok())
    }

    fn without(&self, fixed: &Self) -> Self {
        let left = self.data.iter().filter(|nr| fixed.data.binary_search(nr).is_err());
        Self::of(left.copied().collect())
    }
}

/// The greedy sequence of fixes. `sets` contains the sets of data that tests share, each with the number of
/// tests that share exactly this set. `comparisons` is the maximum number of comparisons of data. Also
/// returns whether the sequence ends early because the next step would exceed this maximum.
fn fixes(
    sets: &BTreeMap<BTreeSet<Cow<'_, str>>, usize>,
    steps: usize,
    mut comparisons: usize,
) -> (Vec<Fix>, bool) {
    let names: Vec<&Cow<'_, str>> =
        sets.keys().flatten().collect::<BTreeSet<_>>().into_iter().collect();
    let number =
        |name: &Cow<'_, str>| names.binary_search(&name).expect("all names are in the list");
    let mut left: BTreeMap<Left, usize> = sets
        .iter()
        .map(|(set, tests)| (Left::of(set.iter().map(number).collect()), *tests))
        .collect();
    let mut fixes = Vec::new();
    while fixes.len() < steps && !left.is_empty() {
        let data: usize = left.keys().map(|set| set.data.len()).sum();
        match comparisons.checked_sub(left.len().saturating_mul(data)) {
            Some(rest) => comparisons = rest,
            None => return (fixes, true),
        }
        let unlocked = |fixed: &Left| -> usize {
            left.iter().filter(|(set, _)| set.is_within(fixed)).map(|(_, tests)| tests).sum()
        };
        // Take the set that makes the most tests conflict-free per datum. Among sets with the same ratio,
        // take the one with the fewest data; among those, take the first by name.
        let best = left.keys().map(|set| (unlocked(set), set)).max_by(|(a, one), (b, other)| {
            let rate = (a * other.data.len()).cmp(&(b * one.data.len()));
            rate.then(other.data.len().cmp(&one.data.len())).then_with(|| other.cmp(one))
        });
        let Some((unlocks_tests, fixed)) = best.map(|(tests, set)| (tests, set.clone())) else {
            break;
        };
        let data = fixed.data.iter().map(|&nr| names[nr].to_string()).collect();
        fixes.push(Fix { data, unlocks_tests });
        let mut rest: BTreeMap<Left, usize> = BTreeMap::new();
        for (set, tests) in left.iter().filter(|(set, _)| !set.is_within(&fixed)) {
            *rest.entry(set.without(&fixed)).or_default() += tests;
        }
        left = rest;
    }
    (fixes, false)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::{conflicting, free, with};
    use super::*;

    fn tests(sets: &[&[&str]]) -> Vec<TestLine> {
        let test = |(nr, names): (usize, &&[&str])| conflicting(&format!("a,b/{nr}"), names);
        sets.iter().enumerate().map(test).collect()
    }

    fn steps(sets: &[&[&str]]) -> Vec<(String, usize)> {
        let ranking = Ranking::of(&tests(sets), &Layouts::default(), usize::MAX);
        ranking.fixes.iter().map(|fix| (fix.data.join("+"), fix.unlocks_tests)).collect()
    }

    fn expected(steps: &[(&str, usize)]) -> Vec<(String, usize)> {
        steps.iter().map(|&(data, frees)| (data.to_owned(), frees)).collect()
    }

    #[test]
    fn a_datum_unlocks_the_tests_that_share_nothing_else() {
        let mut all = tests(&[&["x"], &["x", "y"], &["x", "x"], &["y", "z"]]);
        all.push(free("a,b/free"));
        all.push(with("a,b/sometimes", Verdict::Sometimes, all[0].conflicts.clone()));
        let ranking = Ranking::of(&all, &Layouts::default(), 10);
        assert_eq!((ranking.tests, ranking.free, ranking.conflicting), (6, 1, 4));
        let ranked: Vec<_> =
            ranking.data.iter().map(|d| (d.datum.as_str(), d.unlocks_tests, d.tests)).collect();
        assert_eq!(ranked, [("x", 2, 3), ("y", 0, 2), ("z", 0, 1)]);
    }

    #[test]
    fn data_that_unlock_no_test_alone_are_fixed_together() {
        assert_eq!(steps(&[&["x", "y"], &["x", "y"]]), expected(&[("x+y", 2)]));
        // Fixing `x` and `y` makes three tests conflict-free, 1.5 for each datum. Fixing only `x` makes one
        // test conflict-free.
        let sets: [&[&str]; 4] = [&["x", "y"], &["x", "y"], &["x"], &["z"]];
        assert_eq!(steps(&sets), expected(&[("x+y", 3), ("z", 1)]));
    }

    #[test]
    fn a_step_builds_on_the_steps_before_it() {
        let sets: [&[&str]; 5] = [&["x"], &["x"], &["x", "y"], &["x", "y"], &["z", "y"]];
        assert_eq!(steps(&sets), expected(&[("x", 2), ("y", 2), ("z", 1)]));
    }

    #[test]
    fn the_steps_end_before_they_take_too_many_comparisons() {
        let sets: BTreeMap<BTreeSet<Cow<'_, str>>, usize> =
            ["x", "y", "z"].map(|name| ([name.into()].into(), 1)).into();
        // The first step compares 9 pairs of sets, the second 4, the third 1.
        for (comparisons, steps, is_cut) in
            [(8, 0, true), (9, 1, true), (13, 2, true), (14, 3, false)]
        {
            let (fixes, cut) = fixes(&sets, usize::MAX, comparisons);
            assert_eq!((fixes.len(), cut), (steps, is_cut), "{comparisons}");
        }
        assert_eq!(fixes(&sets, 1, 9), (fixes(&sets, 1, 14).0, false));
        // Large sets take longer to compare.
        let large: BTreeSet<Cow<'_, str>> = (0..100).map(|nr| format!("{nr}").into()).collect();
        let sets = [(large, 1), (["x".into()].into(), 1)].into();
        assert_eq!(fixes(&sets, usize::MAX, 201).0.len(), 0);
        assert_eq!(fixes(&sets, 1, 202).0.len(), 1);
    }

    #[test]
    fn tests_that_share_tens_of_thousands_of_sets_of_data_have_no_steps() {
        let tests = (0..40_000).map(|nr| conflicting(&format!("a,b/{nr}"), &[&format!("{nr}")]));
        let tests: Vec<TestLine> = tests.collect();
        let ranking = Ranking::of(&tests, &Layouts::default(), 1);
        assert_eq!((ranking.data.len(), ranking.fixes.len()), (40_000, 0));
        assert!(ranking.fixes_cut);
    }

    #[test]
    fn functions_are_listed_by_operation() {
        let ranking =
            Ranking::of(&[conflicting("open,close/0", &["?fput fget"])], &Layouts::default(), 1);
        let [datum] = ranking.data.as_slice() else { panic!("{ranking:?}") };
        let words = |words: &[&str]| words.iter().map(|&word| (word.to_owned(), 1)).collect();
        assert_eq!(datum.writers, [("open".to_owned(), words(&["fget", "fput"]))].into());
        assert_eq!(datum.readers, [("close".to_owned(), words(&["read_it"]))].into());
    }

    #[test]
    fn the_most_frequent_callers_of_a_function_are_listed() {
        let called = |nr: usize, callers: &[&str]| {
            let mut test = conflicting(&format!("open,close/{nr}"), &["x"]);
            for touched in test.conflicts.iter_mut().flat_map(|line| line.sides.values_mut()) {
                let chain = callers.iter().map(|&caller| caller.to_owned()).collect();
                touched.callers = [("write_it".to_owned(), [chain].into())].into();
            }
            test
        };
        let tests = [called(0, &["a"]), called(1, &["b", "c"]), called(2, &["b", "c"])];
        let callers = |tests: &[TestLine]| {
            let datum = Ranking::of(tests, &Layouts::default(), 1).data.remove(0);
            datum.callers["open"]["write_it"].join(" ")
        };
        assert_eq!(callers(&tests), "b c");
        assert_eq!(callers(&tests[..2]), "a");
    }

    proptest! {
        #[test]
        fn all_fixes_together_unlock_every_test_and_each_step_unlocks_as_many_tests_as_it_reports(
            sets in prop::collection::vec(prop::collection::btree_set("[a-f]", 1..5), 0..20)
        ) {
            let tests: Vec<TestLine> = sets
                .iter()
                .enumerate()
                .map(|(nr, set)| {
                    let names: Vec<&str> = set.iter().map(String::as_str).collect();
                    conflicting(&format!("a,b/{nr}"), &names)
                })
                .collect();
            let ranking = Ranking::of(&tests, &Layouts::default(), usize::MAX);
            let mut fixed = BTreeSet::new();
            let mut freed = 0;
            for fix in &ranking.fixes {
                prop_assert!(fix.data.iter().all(|datum| !fixed.contains(datum)));
                fixed.extend(fix.data.iter().cloned());
                freed += fix.unlocks_tests;
                prop_assert_eq!(sets.iter().filter(|set| set.is_subset(&fixed)).count(), freed);
            }
            prop_assert_eq!(freed, sets.len());
            for datum in &ranking.data {
                let alone: BTreeSet<String> = [datum.datum.clone()].into();
                prop_assert_eq!(datum.unlocks_tests, sets.iter().filter(|&set| *set == alone).count());
            }
        }
    }
}
