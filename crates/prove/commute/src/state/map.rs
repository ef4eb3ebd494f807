//! Maps of unknown content.

use super::{Part, State};
use crate::world::{Stop, World};

/// What was written last at `key`; newest writes last.
pub(crate) fn latest<'w, K: State, T>(
    writes: &'w [(K, T)],
    key: &K,
    world: &mut World,
) -> Result<Option<&'w T>, Stop> {
    for (written, value) in writes.iter().rev() {
        if written.same(key, world)? {
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
    pub fn get(&self, key: &K, world: &mut World) -> Result<Option<V>, Stop> {
        Ok(self.find(key, world)?.map(|(value, _)| value))
    }

    /// The value at `key`, and whether it is that of the initial state.
    pub fn find(&self, key: &K, world: &mut World) -> Result<Option<(V, bool)>, Stop> {
        world.search(|world| {
            if let Some(value) = latest(&self.writes, key, world)? {
                return Ok(value.clone().map(|value| (value, false)));
            }
            Ok(world.initial(&self.label, key)?.map(|value| (value, true)))
        })
    }

    /// What was written, newest last; `None` was removed.
    pub fn writes(&self) -> &[(K, Option<V>)] {
        &self.writes
    }

    /// What is known of the initial state.
    pub fn known(&self, world: &World) -> Vec<(K, Option<V>)> {
        world.known(&self.label)
    }

    /// Says that there is nothing, or something, at `key` at first, without asking: it follows
    /// from what the caller knows. `Err` if the opposite is known.
    pub fn know(&self, key: &K, present: bool, world: &mut World) -> Result<(), Stop> {
        world.know::<K, V>(&self.label, key, present)
    }

    /// Whether there is a value at `key`.
    pub fn contains(&self, key: &K, world: &mut World) -> Result<bool, Stop> {
        Ok(self.get(key, world)?.is_some())
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
    fn unknown(_: &mut World, label: &str) -> Self {
        Self { label: label.to_owned(), writes: Vec::new() }
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        assert_eq!(self.label, other.label, "two states of one map");
        for (key, _) in self.writes.iter().chain(&other.writes) {
            let values = (self.get(key, world)?, other.get(key, world)?);
            let same = match values {
                (Some(a), Some(b)) => a.same(&b, world)?,
                (a, b) => world.same_presence(a.is_some(), b.is_some()),
            };
            if !same {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, _: &World) -> String {
        self.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        let known = self.known(world);
        Part::entries(known, world)
    }
}

/// A map in which every key has a value, unknown at first.
#[derive(Debug, Clone)]
pub struct Total<K, V> {
    label: String,
    /// Newest last.
    writes: Vec<(K, V)>,
}

impl<K: State, V: State> Total<K, V> {
    /// The value at `key`.
    pub fn get(&self, key: &K, world: &mut World) -> Result<V, Stop> {
        world.search(|world| match latest(&self.writes, key, world)? {
            Some(value) => Ok(value.clone()),
            None => world.first(&self.label, key),
        })
    }

    /// Sets the value at `key`.
    pub fn insert(&mut self, key: K, value: V) {
        self.writes.push((key, value));
    }

    /// What is known of the initial state.
    pub fn known(&self, world: &World) -> Vec<(K, Option<V>)> {
        world.known(&self.label)
    }

    /// The keys that have been written.
    pub fn written(&self) -> impl Iterator<Item = &K> {
        self.writes.iter().map(|(key, _)| key)
    }
}

impl<K: State, V: State> State for Total<K, V> {
    fn unknown(_: &mut World, label: &str) -> Self {
        Self { label: label.to_owned(), writes: Vec::new() }
    }

    fn same(&self, other: &Self, world: &mut World) -> Result<bool, Stop> {
        for key in self.written().chain(other.written()) {
            if !self.get(key, world)?.same(&other.get(key, world)?, world)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn show(&self, _: &World) -> String {
        self.label.clone()
    }

    fn part(&self, world: &mut World) -> Part {
        let known = self.known(world);
        Part::entries(known, world)
    }
}
