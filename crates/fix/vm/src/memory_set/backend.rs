//! The interface through which a set changes page tables.

use memory_addr::MemoryAddr;

/// Changes page tables for the areas of a [`MemorySet`](super::MemorySet). Each area has its own backend.
/// If an area is split, each part gets a clone of the area's backend.
pub trait MappingBackend: Clone {
    /// The type of addresses.
    type Addr: MemoryAddr;
    /// The flags of an area, such as the allowed accesses.
    type Flags: Copy;
    /// The page tables.
    type PageTable;

    /// Maps `size` bytes. Returns whether the call succeeded.
    fn map(
        &self,
        start: Self::Addr,
        size: usize,
        flags: Self::Flags,
        page_table: &mut Self::PageTable,
    ) -> bool;

    /// Unmaps `size` bytes. Returns whether the call succeeded.
    fn unmap(&self, start: Self::Addr, size: usize, page_table: &mut Self::PageTable) -> bool;

    /// Changes the flags of `size` bytes. Returns whether the call succeeded.
    fn protect(
        &self,
        start: Self::Addr,
        size: usize,
        new_flags: Self::Flags,
        page_table: &mut Self::PageTable,
    ) -> bool;
}
