//! What a set has done with page tables.

use memory_addr::MemoryAddr;

/// Changes page tables for the areas of a [`MemorySet`](super::MemorySet), each of which may have another
/// backend. The parts of an area that is divided have clones.
pub trait MappingBackend: Clone {
    /// Addresses.
    type Addr: MemoryAddr;
    /// What may be done with an area.
    type Flags: Copy;
    /// The page tables.
    type PageTable;

    /// Maps `size` bytes. Whether that went well.
    fn map(
        &self,
        start: Self::Addr,
        size: usize,
        flags: Self::Flags,
        page_table: &mut Self::PageTable,
    ) -> bool;

    /// Unmaps `size` bytes. Whether that went well.
    fn unmap(&self, start: Self::Addr, size: usize, page_table: &mut Self::PageTable) -> bool;

    /// Changes what may be done with `size` bytes. Whether that went well.
    fn protect(
        &self,
        start: Self::Addr,
        size: usize,
        new_flags: Self::Flags,
        page_table: &mut Self::PageTable,
    ) -> bool;
}
