//! One testcase with different parameters: `vm_mmap1@map=tree` before, `vm_mmap1@map=rcu` after.
//!
//! Points match by identity, which includes parameters. If a testcase has exactly one set of
//! parameters before and a different one after, knee compares these two. Not if they differ in the number of
//! connections of a server, which is a place on a curve.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{CaseId, Key, Results};

/// Two sets of parameters of a testcase that are compared with each other.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct VariantPair {
    /// What was measured before.
    pub before: CaseId,
    /// What was measured after.
    pub after: CaseId,
}

impl VariantPair {
    /// The common name of both in a comparison, as in interleaved runs.
    pub fn name(&self) -> CaseId {
        CaseId::new(format!("{} → {}", self.before, self.after))
    }

    /// The pairs of two results.
    pub(super) fn of(before: &Results, after: &Results) -> Vec<Self> {
        let [ids_before, ids_after] = [before, after].map(Results::measured);
        let own = |ids: &BTreeSet<&CaseId>, others: &BTreeSet<&CaseId>| {
            let mut own: BTreeMap<String, Vec<CaseId>> = BTreeMap::new();
            for &id in ids.difference(others).filter(|id| id.connections().is_none()) {
                own.entry(id.testcase.clone()).or_default().push(id.clone());
            }
            own
        };
        let mut own_after = own(&ids_after, &ids_before);
        own(&ids_before, &ids_after)
            .into_iter()
            .filter_map(|(testcase, before)| {
                let [before] = <[CaseId; 1]>::try_from(before).ok()?;
                let [after] = <[CaseId; 1]>::try_from(own_after.remove(&testcase)?).ok()?;
                Some(Self { before, after })
            })
            .collect()
    }

    /// The results with the common names of `pairs`; `id_of` selects the side.
    pub(super) fn rename<'r>(
        results: &'r Results,
        pairs: &[Self],
        id_of: impl Fn(&Self) -> &CaseId,
    ) -> Cow<'r, Results> {
        if pairs.is_empty() {
            return Cow::Borrowed(results);
        }
        let new = |id: &CaseId| {
            let pair = pairs.iter().find(|pair| id_of(pair) == id);
            pair.map_or_else(|| id.clone(), Self::name)
        };
        let points = results
            .points
            .iter()
            .map(|(key, measured)| (Key { case: new(&key.case), ..key.clone() }, measured.clone()));
        let cases = results.cases.iter().map(|(id, case)| (new(id), case.clone()));
        Cow::Owned(Results {
            source: results.source.clone(),
            points: points.collect(),
            cases: cases.collect(),
            origin: results.origin.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn results(names: &[&str]) -> Results {
        let mut results = Results::new(Path::new("x"));
        for name in names {
            let key = Key { case: name.parse().unwrap(), mode: None, tasks: Some(2) };
            results.add(key, 100.0, 3).unwrap();
        }
        results
    }

    fn pairs(before: &[&str], after: &[&str]) -> Vec<String> {
        let pairs = VariantPair::of(&results(before), &results(after));
        pairs.iter().map(|pair| pair.name().to_string()).collect()
    }

    #[test]
    fn variants_that_are_alone_on_their_side_are_compared() {
        assert_eq!(
            pairs(&["a@k=x", "b", "c@k=x"], &["a@k=y", "b", "c"]),
            ["a@k=x → a@k=y", "c@k=x → c"]
        );
        assert_eq!(pairs(&["a@k=x", "b"], &["b@k=y", "c"]), ["b → b@k=y"]);
        // Nobody knows which of them is meant, or each has its own.
        assert_eq!(pairs(&["a@k=x", "a@k=y"], &["a@k=z"]), [""; 0]);
        assert_eq!(pairs(&["a", "a@k=x"], &["a"]), [""; 0]);
        // One is what both have.
        assert_eq!(pairs(&["a", "a@k=x"], &["a", "a@k=y"]), ["a@k=x → a@k=y"]);
        let (few, many) = ("s@connections=8", "s@connections=64");
        assert_eq!(pairs(&[few], &[many]), [""; 0]);
        assert_eq!(pairs(&["s"], &[many]), [""; 0]);
    }

    #[test]
    fn both_sides_have_one_name_for_a_pair() {
        let (before, after) = (results(&["a@k=x", "b"]), results(&["a@k=y", "b"]));
        let pairs = VariantPair::of(&before, &after);
        let before = VariantPair::rename(&before, &pairs, |pair| &pair.before);
        let after = VariantPair::rename(&after, &pairs, |pair| &pair.after);
        assert_eq!(before.measured(), after.measured());
        assert!(before.points.keys().eq(after.points.keys()));
        assert_eq!(
            after.cases[&CaseId::new("a@k=x → a@k=y")],
            results(&["a"]).cases[&CaseId::new("a")]
        );
    }
}
