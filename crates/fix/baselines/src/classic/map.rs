//! The interface of maps, and their locking.

use std::fmt::Debug;

use knee_vm::{Cpu, Machine, Page, Protection};

use super::entries::Entries;
use super::reverse::Reverse;

/// The map of a space: its entries and their locks.
pub trait Map<R: Reverse>: Debug + Send + Sync {
    /// The map, locked for writing.
    type Writing<'a, 'm: 'a, M: Machine>: Entries<R>
    where
        Self: 'a,
        M: 'm;

    /// Creates an empty map.
    fn new() -> Self;

    /// Passes to `with` the entry that contains a page. The entry does not change during the call. Returns
    /// `None` if no entry contains the page.
    fn with_entry<M: Machine, T>(
        &self,
        cpu: &Cpu<'_, M>,
        page: Page,
        with: impl FnOnce(Protection, &R::Backing) -> T,
    ) -> Option<T>;

    /// Locks the map for writing.
    fn write<'a, 'm, M: Machine + 'm>(&'a self, cpu: &'a Cpu<'m, M>) -> Self::Writing<'a, 'm, M>;

    /// Calls `with` while the map is locked for reading.
    fn read<M: Machine, T>(&self, cpu: &Cpu<'_, M>, with: impl FnOnce() -> T) -> T;

    /// Removes all entries, and calls `end` with the page count and the backing of each.
    fn clear(&mut self, end: impl FnMut(u64, R::Backing));
}

/// A kind of map. Each kind works with any reverse map.
pub trait MapKind: Debug + 'static {
    /// The map type.
    type Map<R: Reverse>: Map<R>;
}
