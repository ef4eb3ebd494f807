//! What code touches, learned from earlier accesses: an instruction mostly works on one type. Exceptions,
//! such as instructions that copy memory or take a lock, are recognised by their varied accesses.

use std::collections::HashMap;
use std::hash::Hash;

/// By an instruction's address and what else distinguishes cases.
#[derive(Debug)]
pub(crate) struct OfCode<K, V>(HashMap<K, Majority<V>>);

/// The majority of what was touched, by the algorithm of Boyer and Moore: memory that is read too late is sometimes
/// something else, which must not change the result.
#[derive(Debug)]
struct Majority<V> {
    value: V,
    /// How many more have been this than something else.
    lead: u32,
    all: u32,
}

impl<K, V> Default for OfCode<K, V> {
    fn default() -> OfCode<K, V> {
        OfCode(HashMap::new())
    }
}

impl<K: Eq + Hash, V: Clone + PartialEq> OfCode<K, V> {
    /// Remembers that these have touched something.
    pub(crate) fn learn(&mut self, keys: impl Iterator<Item = K>, touched: &V) {
        for key in keys {
            let known = Majority { value: touched.clone(), lead: 0, all: 0 };
            let known = self.0.entry(key).or_insert(known);
            known.all = known.all.saturating_add(1);
            if known.value == *touched {
                known.lead += 1;
            } else if known.lead > 0 {
                known.lead -= 1;
            } else {
                (known.value, known.lead) = (touched.clone(), 1);
            }
        }
    }

    /// What these touch, where one of them is known to touch nothing else to speak of, and none
    /// another thing.
    pub(crate) fn recall(&self, keys: impl Iterator<Item = K>) -> Option<&V> {
        let sure = |known: &&Majority<V>| known.lead > known.all / 2;
        let mut known = keys.filter_map(|key| self.0.get(&key).filter(sure));
        let first = &known.next()?.value;
        known.all(|other| other.value == *first).then_some(first)
    }
}

impl OfCode<u64, String> {
    /// What code touches, if that is visible: then it is remembered. Otherwise, what it has touched
    /// before.
    pub(crate) fn known(&mut self, code: &[u64], seen: Option<String>) -> Option<String> {
        match seen {
            Some(touched) => {
                self.learn(code.iter().copied(), &touched);
                Some(touched)
            }
            None => self.recall(code.iter().copied()).cloned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_that_touches_one_thing_identifies_it_and_other_code_does_not() {
        let mut learned = OfCode::default();
        let copy = 7;
        learned.learn([1, copy].into_iter(), &"pipe");
        assert_eq!(learned.recall([copy].into_iter()), Some(&"pipe"));
        learned.learn([2, copy].into_iter(), &"table");
        assert_eq!(learned.recall([copy].into_iter()), None);
        assert_eq!(learned.recall([copy, 1].into_iter()), Some(&"pipe"));
        assert_eq!(learned.recall([1, 2].into_iter()), None);
        assert_eq!(learned.recall([3].into_iter()), None);
    }

    #[test]
    fn one_look_that_came_too_late_changes_nothing() {
        let mut learned = OfCode::default();
        for touched in ["file", "table", "table", "table", "table"] {
            learned.learn([1].into_iter(), &touched);
        }
        assert_eq!(learned.recall([1].into_iter()), Some(&"table"));
    }
}
