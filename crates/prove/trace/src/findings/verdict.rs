//! The verdict on a test: what its calls share in every run.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::shared_line::SharedLine;

/// The verdict on a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The calls share no line that one of them writes.
    ConflictFree,
    /// The calls share at least one datum in every valid run.
    Conflict,
    /// The calls share something in some runs, but there is no datum that they share in every run. A run in
    /// which the calls share lines only because of the addresses of objects counts as a run without a shared
    /// datum.
    Sometimes,
    /// There is no valid run: tasks were switched out, or observations are incomplete.
    Disturbed,
    /// The guest or the program did not survive the test.
    Died,
}

/// Returns the verdict on a test, and the test's conflicts. `runs` contains, for each valid run, the lines
/// that the calls share.
///
/// Kernel objects have different addresses in each run, so lines are matched by their names. If the number of
/// lines with the same name differs from run to run, the conflicts contain only the smallest number of these
/// lines. A conflict lists only those data of its line that the calls share in every run.
///
/// If the calls share data only by position, these data are not a conflict, even if the calls share them in
/// every run: with the same objects at other addresses, the calls would not share these data. A run in which
/// the calls share nothing proves that such addresses exist. So if the calls share nothing in one run, and
/// share lines by position only in the other runs, the test is conflict-free. Without this rule, the verdict
/// would depend on the addresses in the first run: if the calls share nothing in the first run, the test is
/// conflict-free and does not run again.
pub(super) fn verdict(mut runs: Vec<Vec<SharedLine>>) -> (Verdict, Vec<SharedLine>) {
    let is_by_position = |run: &Vec<SharedLine>| run.iter().all(|line| line.by_position);
    if runs.iter().any(Vec::is_empty) && runs.iter().all(is_by_position) {
        return (Verdict::ConflictFree, Vec::new());
    }
    let Some(last) = runs.pop() else { return (Verdict::Disturbed, Vec::new()) };
    let mut left = count(&last);
    for run in &runs {
        let here = count(run);
        for (name, n) in &mut left {
            *n = (*n).min(here.get(name).copied().unwrap_or(0));
        }
    }
    let mut take = |name: &String| match left.get_mut(name) {
        Some(n @ 1..) => {
            *n -= 1;
            true
        }
        _ => false,
    };
    let (mut in_all, mut others) = (Vec::new(), Vec::new());
    for line in last {
        let taken: Vec<String> = match line.by_position {
            true => Vec::new(),
            false => line.names().into_iter().map(Cow::into_owned).filter(&mut take).collect(),
        };
        if taken.is_empty() {
            others.push(line);
            continue;
        }
        let data = if line.data.is_empty() { Vec::new() } else { taken };
        in_all.push(SharedLine { data, ..line });
    }
    if !in_all.is_empty() {
        return (Verdict::Conflict, in_all);
    }
    let in_any: BTreeMap<String, SharedLine> =
        runs.into_iter().flatten().chain(others).map(|line| (line.name(), line)).collect();
    (Verdict::Sometimes, in_any.into_values().collect())
}

fn count(run: &[SharedLine]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for line in run.iter().filter(|line| !line.by_position) {
        for name in line.names() {
            *counts.entry(name.into_owned()).or_default() += 1;
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::samples::shared;
    use super::*;

    fn run(names: &[&str]) -> Vec<SharedLine> {
        names.iter().enumerate().map(|(at, name)| shared(name, at)).collect()
    }

    fn of(runs: &[&[&str]]) -> (Verdict, Vec<String>) {
        let runs: Vec<Vec<SharedLine>> = runs.iter().map(|names| run(names)).collect();
        let (verdict, conflicts) = verdict(runs);
        (verdict, conflicts.iter().map(SharedLine::name).collect())
    }

    fn named(verdict: Verdict, names: &[&str]) -> (Verdict, Vec<String>) {
        (verdict, names.iter().map(|&name| name.to_owned()).collect())
    }

    #[test]
    fn only_data_shared_in_every_run_are_a_conflict() {
        assert_eq!(of(&[&["a", "b"], &["b", "c"]]), named(Verdict::Conflict, &["b"]));
        assert_eq!(of(&[&["a"], &["a"]]), named(Verdict::Conflict, &["a"]));
        assert_eq!(of(&[&["a"]]), named(Verdict::Conflict, &["a"]));
    }

    #[test]
    fn sharing_in_only_some_runs_is_neither_a_conflict_nor_conflict_free() {
        assert_eq!(of(&[&["a"], &[]]), named(Verdict::Sometimes, &["a"]));
        assert_eq!(of(&[&["b"], &["a"]]), named(Verdict::Sometimes, &["a", "b"]));
    }

    #[test]
    fn sharing_by_position_alone_is_not_a_conflict() {
        let by_position = |line: SharedLine| SharedLine { by_position: true, ..line };
        let only: Vec<_> = run(&["a"]).into_iter().map(by_position).collect();
        let judged = |runs: &[Vec<SharedLine>]| {
            let (verdict, conflicts) = verdict(runs.to_vec());
            (verdict, conflicts.iter().map(SharedLine::name).collect())
        };
        assert_eq!(judged(&[only.clone(), only.clone()]), named(Verdict::Sometimes, &["a"]));
        assert_eq!(judged(&[only.clone(), Vec::new()]), named(Verdict::ConflictFree, &[]));
        let other = judged(&[only.clone(), run(&["b"]), Vec::new()]);
        assert_eq!(other, named(Verdict::Sometimes, &["a", "b"]), "b is shared in any placement");
        let with = [run(&["b"]), only].concat();
        assert_eq!(judged(&[with.clone(), with.clone()]), named(Verdict::Conflict, &["b"]));
        // In the first run, the calls share `a` only because of the objects' addresses. In the second run,
        // the calls share `a` whatever the addresses.
        assert_eq!(judged(&[with, run(&["a"])]), named(Verdict::Sometimes, &["a", "b"]));
    }

    #[test]
    fn lines_with_the_same_name_are_counted() {
        assert_eq!(of(&[&["a", "a"], &["a", "a", "a"]]), named(Verdict::Conflict, &["a", "a"]));
    }

    #[test]
    fn a_test_without_a_valid_run_is_disturbed() {
        assert_eq!(of(&[]), named(Verdict::Disturbed, &[]));
        assert_eq!(of(&[&[], &[]]), named(Verdict::ConflictFree, &[]));
    }

    proptest! {
        #[test]
        fn the_order_of_runs_and_lines_does_not_matter(
            runs in prop::collection::vec(prop::collection::vec("[abc]", 0..5), 0..4)
        ) {
            let lines = |names: &Vec<String>| {
                run(&names.iter().map(String::as_str).collect::<Vec<_>>())
            };
            let mut forward: Vec<Vec<SharedLine>> = runs.iter().map(lines).collect();
            let names = |(verdict, conflicts): (Verdict, Vec<SharedLine>)| {
                let mut names: Vec<String> = conflicts.iter().map(SharedLine::name).collect();
                names.sort();
                (verdict, names)
            };
            let expected = names(verdict(forward.clone()));
            forward.reverse();
            forward.iter_mut().for_each(|run| run.reverse());
            prop_assert_eq!(names(verdict(forward)), expected);
        }
    }
}
