//! Runs of two variants of one testcase: `vm_mmap1@di=mutex` before, `vm_mmap1@di=epoch` after.
//!
//! Points match by name, and a variant is part of the name. Where a testcase has one variant before and
//! another one after, and no others, there is nothing else that either could be compared with.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::{Key, Results};

/// Two variants of a testcase that are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariantPair {
    /// The name before.
    pub before: String,
    /// The name after.
    pub after: String,
}

impl VariantPair {
    /// What both are called where they are compared, as in runs that measure them in turns.
    pub(super) fn name(&self) -> String {
        format!("{} → {}", self.before, self.after)
    }

    /// Those of two results.
    pub(super) fn of(before: &Results, after: &Results) -> Vec<Self> {
        let [names_before, names_after] = [before, after].map(Results::testcases);
        let own = |names: &BTreeSet<&str>, others: &BTreeSet<&str>| {
            let mut own: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for name in names.difference(others) {
                own.entry(testcase(name).to_owned()).or_default().push((*name).to_owned());
            }
            own
        };
        let mut own_after = own(&names_after, &names_before);
        own(&names_before, &names_after)
            .into_iter()
            .filter_map(|(testcase, before)| {
                let [before] = <[String; 1]>::try_from(before).ok()?;
                let [after] = <[String; 1]>::try_from(own_after.remove(&testcase)?).ok()?;
                Some(Self { before, after })
            })
            .collect()
    }

    /// The results under the names that `pairs` have together, of the side that `name_of` says.
    pub(super) fn rename<'r>(
        results: &'r Results,
        pairs: &[Self],
        name_of: impl Fn(&Self) -> &str,
    ) -> Cow<'r, Results> {
        if pairs.is_empty() {
            return Cow::Borrowed(results);
        }
        let new = |name: &str| {
            let pair = pairs.iter().find(|pair| name_of(pair) == name);
            pair.map_or_else(|| name.to_owned(), Self::name)
        };
        let points = results.points.iter().map(|(key, measured)| {
            (Key { testcase: new(&key.testcase), ..key.clone() }, measured.clone())
        });
        let cases = results.cases.iter().map(|(name, case)| (new(name), case.clone()));
        Cow::Owned(Results {
            source: results.source.clone(),
            points: points.collect(),
            cases: cases.collect(),
            run: results.run.clone(),
        })
    }
}

/// The testcase that a name is a variant of.
pub fn testcase(name: &str) -> &str {
    name.split_once('@').map_or(name, |(testcase, _)| testcase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn results(names: &[&str]) -> Results {
        let mut results = Results::new(Path::new("x"));
        for name in names {
            let key = Key { testcase: (*name).to_owned(), mode: None, tasks: Some(2) };
            results.add(key, 100.0, 3);
        }
        results
    }

    fn pairs(before: &[&str], after: &[&str]) -> Vec<String> {
        let pairs = VariantPair::of(&results(before), &results(after));
        pairs.iter().map(VariantPair::name).collect()
    }

    #[test]
    fn variants_that_are_the_only_ones_on_their_side_are_compared() {
        assert_eq!(pairs(&["a@x", "b", "c@x"], &["a@y", "b", "c"]), ["a@x → a@y", "c@x → c"]);
        assert_eq!(pairs(&["a@x", "b"], &["b@y", "c"]), ["b → b@y"]);
        // Nobody knows which of them is meant, or each has its own.
        assert_eq!(pairs(&["a@x", "a@y"], &["a@z"]), [""; 0]);
        assert_eq!(pairs(&["a", "a@x"], &["a"]), [""; 0]);
        // One is what both have.
        assert_eq!(pairs(&["a", "a@x"], &["a", "a@y"]), ["a@x → a@y"]);
    }

    #[test]
    fn both_sides_have_one_name_for_a_pair() {
        let (before, after) = (results(&["a@x", "b"]), results(&["a@y", "b"]));
        let pairs = VariantPair::of(&before, &after);
        let before = VariantPair::rename(&before, &pairs, |pair| &pair.before);
        let after = VariantPair::rename(&after, &pairs, |pair| &pair.after);
        assert_eq!(before.testcases(), after.testcases());
        assert!(before.points.keys().eq(after.points.keys()));
        assert_eq!(after.cases["a@x → a@y"], results(&["a"]).cases["a"]);
    }
}
