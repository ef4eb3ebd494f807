//! Lets a set use a space of knee-vm as its page tables.

use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;

use memory_addr::{MemoryAddr, VirtAddr};

use super::backend::MappingBackend;
use crate::cpu::Cpu;
use crate::error::MapError;
use crate::machine::Machine;
use crate::page::{PAGE, Page, Pages, Protection};
use crate::space::Space;

/// The page tables of a set: a [`Space`], and the calling CPU. Create a `SpaceTable` on the CPU that calls
/// the set's methods.
pub struct SpaceTable<'c, 'm, M: Machine> {
    space: Arc<Space<'m, M>>,
    cpu: &'c Cpu<'m, M>,
}

impl<'c, 'm, M: Machine> SpaceTable<'c, 'm, M> {
    /// Makes `space` the page tables of a set whose methods are called on `cpu`.
    pub fn new(space: &Arc<Space<'m, M>>, cpu: &'c Cpu<'m, M>) -> Self {
        SpaceTable { space: Arc::clone(space), cpu }
    }

    /// The space.
    pub fn space(&self) -> &Space<'m, M> {
        &self.space
    }

    /// Calls `with` if the range consists of whole pages. Returns true if `with` was called and succeeded.
    fn with_pages(
        &self,
        start: VirtAddr,
        size: usize,
        with: impl FnOnce(&Space<'m, M>, Pages) -> Result<(), MapError>,
    ) -> bool {
        let is_whole = start.is_aligned(PAGE) && size.is_multiple_of(PAGE);
        let pages = Pages::new(Page((start.as_usize() / PAGE) as u64), (size / PAGE) as u64);
        is_whole && with(&self.space, pages).is_ok()
    }
}

impl<M: Machine> fmt::Debug for SpaceTable<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SpaceTable").field("space", &self.space.number()).finish_non_exhaustive()
    }
}

/// The backend of anonymous memory, which initially contains zeros. Page faults allocate its frames.
///
/// Areas must consist of whole pages; operations on other areas fail with
/// [`BadState`](super::MappingError::BadState).
pub struct Anonymous<'c, 'm, M: Machine>(PhantomData<fn() -> SpaceTable<'c, 'm, M>>);

impl<M: Machine> Default for Anonymous<'_, '_, M> {
    fn default() -> Self {
        Anonymous(PhantomData)
    }
}

impl<M: Machine> Clone for Anonymous<'_, '_, M> {
    fn clone(&self) -> Self {
        Anonymous(PhantomData)
    }
}

impl<M: Machine> fmt::Debug for Anonymous<'_, '_, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Anonymous")
    }
}

impl<'c, 'm, M: Machine> MappingBackend for Anonymous<'c, 'm, M> {
    type Addr = VirtAddr;
    type Flags = Protection;
    type PageTable = SpaceTable<'c, 'm, M>;

    fn map(
        &self,
        start: VirtAddr,
        size: usize,
        flags: Protection,
        table: &mut SpaceTable<'c, 'm, M>,
    ) -> bool {
        table.with_pages(start, size, |space, pages| space.map(table.cpu, pages, flags))
    }

    fn unmap(&self, start: VirtAddr, size: usize, table: &mut SpaceTable<'c, 'm, M>) -> bool {
        table.with_pages(start, size, |space, pages| space.unmap(table.cpu, pages))
    }

    fn protect(
        &self,
        start: VirtAddr,
        size: usize,
        new_flags: Protection,
        table: &mut SpaceTable<'c, 'm, M>,
    ) -> bool {
        table.with_pages(start, size, |space, pages| space.protect(table.cpu, pages, new_flags))
    }
}
