//! Learns, from earlier accesses, which data each piece of code touches. Most instructions access data of a
//! single type. Exceptions, such as instructions that copy memory or take a lock, are recognised because they
//! access data of several types.

use std::collections::HashMap;
use std::hash::Hash;

/// The data that each instruction has touched. The key is the instruction's address, with or without other
/// properties of an access.
#[derive(Debug)]
pub(crate) struct CodeHistory<K, V>(HashMap<K, Majority<V>>);

/// The value that the majority of accesses touched, as found by the majority-vote algorithm of Boyer and
/// Moore. If knee reads memory too late, the memory may already have another use. A single late read must not
/// change the majority.
#[derive(Debug)]
struct Majority<V> {
    value: V,
    /// The lead of `value` over the other values.
    lead: u32,
    all: u32,
}

impl<K, V> Default for CodeHistory<K, V> {
    fn default() -> CodeHistory<K, V> {
        CodeHistory(HashMap::new())
    }
}

impl<K: Eq + Hash, V: Clone + PartialEq> CodeHistory<K, V> {
    /// Records that the code with these keys has touched certain data, which are given as `touched`.
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

    /// Returns the data that the code with these keys touches. A key counts if one value clearly predominates
    /// among the values recorded for the key. Returns `None` if no key counts, or if the keys that count have
    /// different values.
    pub(crate) fn recall(&self, keys: impl Iterator<Item = K>) -> Option<&V> {
        let sure = |known: &&Majority<V>| known.lead > known.all / 2;
        let mut known = keys.filter_map(|key| self.0.get(&key).filter(sure));
        let first = &known.next()?.value;
        known.all(|other| other.value == *first).then_some(first)
    }
}

impl CodeHistory<u64, String> {
    /// If `seen` is given, records that the code touches `seen`, and returns `seen`. If `seen` is `None`,
    /// returns the data that the code has touched before.
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
    fn only_code_that_always_touches_the_same_data_identifies_these_data() {
        let mut learned = CodeHistory::default();
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
    fn one_late_read_does_not_change_the_majority() {
        let mut learned = CodeHistory::default();
        for touched in ["file", "table", "table", "table", "table"] {
            learned.learn([1].into_iter(), &touched);
        }
        assert_eq!(learned.recall([1].into_iter()), Some(&"table"));
    }
}
