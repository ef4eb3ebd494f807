//! What maps do, and how they are locked.

use std::fmt::Debug;

use knee_vm::{Cpu, Machine, Page, Protection};

use super::entries::Entries;
use super::reverse::Reverse;

/// Entries of a space, and their locks.
pub trait Map<R: Reverse>: Debug + Send + Sync {
    /// The map, held for changes.
    type Writing<'a, 'm: 'a, M: Machine>: Entries<R>
    where
        Self: 'a,
        M: 'm;

    /// A map without entries.
    fn new() -> Self;

    /// Calls `with` with the entry that a page is in, which does not change meanwhile. None if it is in
    /// none.
    fn with_entry<M: Machine, T>(
        &self,
        cpu: &Cpu<'_, M>,
        page: Page,
        with: impl FnOnce(Protection, &R::Backing) -> T,
    ) -> Option<T>;

    /// Has the map for changes.
    fn write<'a, 'm, M: Machine + 'm>(&'a self, cpu: &'a Cpu<'m, M>) -> Self::Writing<'a, 'm, M>;

    /// Calls `with` while nobody changes the map.
    fn read<M: Machine, T>(&self, cpu: &Cpu<'_, M>, with: impl FnOnce() -> T) -> T;

    /// Takes all entries out of a map that nobody else has, and calls `end` with how many pages each has
    /// and what is behind it.
    fn clear(&mut self, end: impl FnMut(u64, R::Backing));
}

/// A kind of map, for whichever reverse map.
pub trait MapKind: Debug + 'static {
    /// The map.
    type Map<R: Reverse>: Map<R>;
}
