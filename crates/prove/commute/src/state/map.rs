//! Maps of unknown content.

use super::{Part, State};
use crate::execution::{Execution, Stop};

/// What was written last at `key`; newest writes last.
pub(crate) fn latest<'w, K: State, T>(
    writes: &'w [(K, T)],
    key: &K,
    execution: &mut Execution,
) -> Result<Option<&'w T>, Stop> {
    for (written, value) in writes.iter().rev() {
        if written.same(key, execution)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A map whose initial content nobody knows: entries come to light when they are looked at.
#[derive(Debug, Clone)]
pub struct Map<K, V> {
    label: String,
    /// Newest last; `None`: removed.
    writes: Vec<(K, Option<V>)>,
}

impl<K: State, V: State> Map<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K, execution: &mut Execution) -> Result<Option<V>, Stop> {
        Ok(self.find(key, execution)?.map(|(value, _)| value))
    }

    /// The value at `key`, and whether it is that of the initial state.
    pub fn find(&self, key: &K, execution: &mut Execution) -> Result<Option<(V, bool)>, Stop> {
        execution.search(|execution| {
            if let Some(value) = latest(&self.writes, key, execution)? {
                return Ok(value.clone().map(|value| (value, false)));
            }
            Ok(execution.initial(&self.label, key)?.map(|value| (value, true)))
        })
    }

    /// What was written, newest last; `None` was removed.
    pub fn writes(&self) -> &[(K, Option<V>)] {
        &self.writes
    }

    /// What is known of the initial state.
    pub fn known(&self, execution: &Execution) -> Vec<(K, Option<V>)> {
        execution.known(&self.label)
    }

    /// Says that there is nothing, or something, at `key` at first, without asking: it follows
    /// from what the caller knows. `Err` if the opposite is known.
    pub fn know(&self, key: &K, present: bool, execution: &mut Execution) -> Result<(), Stop> {
        execution.know::<K, V>(&self.label, key, present)
    }

    /// Whether there is a value at `key`.
    pub fn contains(&self, key: &K, execution: &mut Execution) -> Result<bool, Stop> {
        Ok(self.get(key, execution)?.is_some())
    }

    /// Sets the value at `key`.
    pub fn insert(&mut self, key: K, value: V) {
        self.writes.push((key, Some(value)));
    }

    /// Removes what is at `key`.
    pub fn remove(&mut self, key: K) {
        self.writes.push((key, None));
    }
}

impl<K: State, V: State> State for Map<K, V> {
    fn unknown(_: &mut Execution, label: &str) -> Self {
        Self { label: label.to_owned(), writes: Vec::new() }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        assert_eq!(self.label, other.label, "two states of one map");
        for (key, _) in self.writes.iter().chain(&other.writes) {
            let values = (self.get(key, execution)?, other.get(key, execution)?);
            let same = match values {
                (Some(a), Some(b)) => a.same(&b, execution)?,
                (a, b) => execution.same_presence(a.is_some(), b.is_some()),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, _: &Execution) -> String {
        self.label.clone()
    }

    fn part(&self, execution: &mut Execution) -> Part {
        let known = self.known(execution);
        Part::entries(known, execution)
    }
}

/// A map in which every key has a value, unknown at first.
#[derive(Debug, Clone)]
pub struct TotalMap<K, V> {
    label: String,
    /// Newest last.
    writes: Vec<(K, V)>,
}

impl<K: State, V: State> TotalMap<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K, execution: &mut Execution) -> Result<V, Stop> {
        execution.search(|execution| match latest(&self.writes, key, execution)? {
            Some(value) => Ok(value.clone()),
            None => execution.first(&self.label, key),
        })
    }

    /// Sets the value at `key`.
    pub fn insert(&mut self, key: K, value: V) {
        self.writes.push((key, value));
    }

    /// What is known of the initial state.
    pub fn known(&self, execution: &Execution) -> Vec<(K, Option<V>)> {
        execution.known(&self.label)
    }

    /// The keys that have been written.
    pub fn written(&self) -> impl Iterator<Item = &K> {
        self.writes.iter().map(|(key, _)| key)
    }
}

impl<K: State, V: State> State for TotalMap<K, V> {
    fn unknown(_: &mut Execution, label: &str) -> Self {
        Self { label: label.to_owned(), writes: Vec::new() }
    }

    fn same(&self, other: &Self, execution: &mut Execution) -> Result<bool, Stop> {
        for key in self.written().chain(other.written()) {
            if !self.get(key, execution)?.same(&other.get(key, execution)?, execution)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, _: &Execution) -> String {
        self.label.clone()
    }

    fn part(&self, execution: &mut Execution) -> Part {
        let known = self.known(execution);
        Part::entries(known, execution)
    }
}
