//! The map types of models. The initial content of a map is unknown.

use super::{Part, State};
use crate::execution::{Execution, Stop};
use crate::facts::Question;

/// The first entry whose key equals `key`.
fn find_entry<'e, K: State, V: 'e>(
    entries: impl IntoIterator<Item = &'e (K, V)>,
    key: &K,
    execution: &mut Execution,
) -> Result<Option<&'e (K, V)>, Stop> {
    for entry in entries {
        if entry.0.same(key, execution)? {
            return Ok(Some(entry));
        }
    }
    Ok(None)
}

/// A map whose initial content is unknown. Whether the map initially contains a key is decided when an
/// operation first looks up the key.
#[derive(Debug, Clone)]
pub struct Map<K, V> {
    label: String,
    /// The writes, oldest first; `None` is a removal.
    writes: Vec<(K, Option<V>)>,
}

impl<K: State, V: State> Map<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K, execution: &mut Execution) -> Result<Option<V>, Stop> {
        Ok(self.find(key, execution)?.map(|(value, _)| value))
    }

    /// The value at `key`, and whether it comes from the initial state rather than from a write.
    pub fn find(&self, key: &K, execution: &mut Execution) -> Result<Option<(V, bool)>, Stop> {
        execution.search(|execution| {
            if let Some(value) = self.last_write(key, execution)? {
                return Ok(value.clone().map(|value| (value, false)));
            }
            Ok(self.initial(key, execution)?.map(|value| (value, true)))
        })
    }

    /// The last write to `key`; `Some(None)` is a removal.
    pub(crate) fn last_write(
        &self,
        key: &K,
        execution: &mut Execution,
    ) -> Result<Option<&Option<V>>, Stop> {
        Ok(find_entry(self.writes.iter().rev(), key, execution)?.map(|(_, value)| value))
    }

    /// The value at `key` in the initial state. The first lookup of a key decides whether the initial state
    /// has a value at this key. Later lookups, in this and in other orders of the calls, get the same answer.
    fn initial(&self, key: &K, execution: &mut Execution) -> Result<Option<V>, Stop> {
        let known = execution.heap.entries::<K, Option<V>>(&self.label);
        if let Some((_, value)) = find_entry(&*known, key, execution)? {
            return Ok(value.clone());
        }
        drop(known);
        let is_present = self.is_present(key, execution);
        let value =
            if execution.ask(is_present)? { Some(self.value(key, execution)) } else { None };
        execution.heap.add(&self.label, key.clone(), value.clone());
        Ok(value)
    }

    /// Whether the initial state has a value at `key`.
    fn is_present(&self, key: &K, execution: &mut Execution) -> Question {
        let label = format!("{} has {}", self.label, key.show(execution));
        Question::Is(execution.terms.flag(&label))
    }

    /// The value at `key` in the initial state, if the key has a value there.
    fn value(&self, key: &K, execution: &mut Execution) -> V {
        let label = format!("{}[{}]", self.label, key.show(execution));
        V::unknown(execution, &label)
    }

    /// All writes, oldest first; `None` is a removal.
    pub fn writes(&self) -> &[(K, Option<V>)] {
        &self.writes
    }

    /// The known entries of the initial state. A key that is known to have no value is listed with `None`.
    pub fn known(&self, execution: &Execution) -> Vec<(K, Option<V>)> {
        execution.heap.entries(&self.label).to_vec()
    }

    /// Assumes that the initial state has a value at `key` or, if `is_present` is false, that it
    /// has none. The caller must have derived this assumption from known facts.
    pub fn assume_presence(
        &self,
        key: &K,
        is_present: bool,
        execution: &mut Execution,
    ) -> Result<(), Stop> {
        let known = execution.heap.entries::<K, Option<V>>(&self.label);
        if let Some((same, value)) = find_entry(&*known, key, execution)? {
            if value.is_some() == is_present {
                return Ok(());
            }
            // The assumption contradicts a known entry, so the path is infeasible. `assume` records the
            // contradiction in the certificate, and normally fails. But if the label of `same` has changed
            // since the entry was added, `question` is about another flag, and `assume` may succeed.
            let question = self.is_present(same, execution);
            let _ = execution.assume(&question, is_present);
            return Err(Stop::Infeasible);
        }
        drop(known);
        let question = self.is_present(key, execution);
        execution.assume(&question, is_present)?;
        let value = is_present.then(|| self.value(key, execution));
        execution.heap.add(&self.label, key.clone(), value);
        Ok(())
    }

    /// Whether there is a value at `key`.
    pub fn contains(&self, key: &K, execution: &mut Execution) -> Result<bool, Stop> {
        Ok(self.get(key, execution)?.is_some())
    }

    /// Sets the value at `key`.
    pub fn insert(&mut self, key: K, value: V) {
        self.writes.push((key, Some(value)));
    }

    /// Removes the value at `key`.
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
        entries(self.known(execution), execution)
    }
}

/// A map that has a value for every key. The initial values are unknown.
#[derive(Debug, Clone)]
pub struct TotalMap<K, V> {
    label: String,
    /// The writes, oldest first.
    writes: Vec<(K, V)>,
}

impl<K: State, V: State> TotalMap<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K, execution: &mut Execution) -> Result<V, Stop> {
        execution.search(|execution| match find_entry(self.writes.iter().rev(), key, execution)? {
            Some((_, value)) => Ok(value.clone()),
            None => self.initial(key, execution),
        })
    }

    /// The value at `key` in the initial state.
    pub fn initial(&self, key: &K, execution: &mut Execution) -> Result<V, Stop> {
        let known = execution.heap.entries::<K, V>(&self.label);
        if let Some((_, value)) = find_entry(&*known, key, execution)? {
            return Ok(value.clone());
        }
        drop(known);
        let label = format!("{}[{}]", self.label, key.show(execution));
        let value = V::unknown(execution, &label);
        execution.heap.add(&self.label, key.clone(), value.clone());
        Ok(value)
    }

    /// Sets the value at `key`.
    pub fn insert(&mut self, key: K, value: V) {
        self.writes.push((key, value));
    }

    /// The known entries of the initial state.
    pub fn known(&self, execution: &Execution) -> Vec<(K, V)> {
        execution.heap.entries(&self.label).to_vec()
    }

    /// The keys of all writes, oldest first.
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
        let known = self.known(execution).into_iter();
        entries(known.map(|(key, value)| (key, Some(value))), execution)
    }
}

/// The known entries of a map as a part of a state. Entries with fresh keys are left out: an operation
/// created such a key, so the initial state does not contain it.
fn entries<K: State, V: State>(
    known: impl IntoIterator<Item = (K, Option<V>)>,
    execution: &mut Execution,
) -> Part {
    let mut entries = Vec::new();
    for (key, value) in known {
        let key = key.part(execution);
        if let Part::Name(name) = key
            && execution.facts().is_fresh(name)
        {
            continue;
        }
        entries.push((key, value.map(|value| value.part(execution))));
    }
    Part::Entries(entries)
}
