// A kernel that uses memory_set. This file is compiled twice, with a different `the_crate` each time.

use memory_addr::{AddrRange, VirtAddr, va, va_range};
use the_crate::{MappingBackend, MappingError, MappingResult, MemoryArea, MemorySet};

use super::{BYTES, Change, Listed, Table};

/// A backend whose page table has a byte of flags for each address; 0 means unmapped.
#[derive(Clone)]
struct Bytes;

impl MappingBackend for Bytes {
    type Addr = VirtAddr;
    type Flags = u8;
    type PageTable = Table;

    fn map(&self, start: VirtAddr, size: usize, flags: u8, table: &mut Table) -> bool {
        table.replace(start.as_usize(), size, |old| (old == 0).then_some(flags))
    }

    fn unmap(&self, start: VirtAddr, size: usize, table: &mut Table) -> bool {
        table.replace(start.as_usize(), size, |old| (old != 0).then_some(0))
    }

    fn protect(&self, start: VirtAddr, size: usize, flags: u8, table: &mut Table) -> bool {
        table.replace(start.as_usize(), size, |old| (old != 0).then_some(flags))
    }
}

/// A kernel's address space.
pub(super) struct Kernel {
    areas: MemorySet<Bytes>,
    table: Table,
}

impl Kernel {
    pub(super) fn new() -> Self {
        Kernel { areas: MemorySet::default(), table: Table::default() }
    }

    /// Returns 0 or an error number.
    pub(super) fn change(&mut self, change: &Change) -> u8 {
        let Kernel { areas, table } = self;
        let result: MappingResult = match *change {
            Change::Map { start, size, flags, replace } => {
                areas.map(MemoryArea::new(va!(start), size, flags, Bytes), table, replace)
            }
            Change::Unmap { start, size } => areas.unmap(start.into(), size, table),
            Change::Protect { start, size, flags } => {
                let update = |old: u8| (old & 7 != flags).then_some(old & !7 | flags);
                areas.protect(start.into(), size, update, table)
            }
            Change::Clear => areas.clear(table),
        };
        match result {
            Ok(()) => 0,
            Err(MappingError::InvalidParam) => 1,
            Err(MappingError::AlreadyExists) => 2,
            Err(MappingError::BadState) => 3,
        }
    }

    pub(super) fn table(&self) -> &Table {
        &self.table
    }

    pub(super) fn listed(&self) -> Vec<Listed> {
        assert_eq!(self.areas.len(), self.areas.iter().count());
        assert_eq!(self.areas.is_empty(), self.areas.iter().next().is_none());
        let listed = |area: &MemoryArea<Bytes>| {
            assert_eq!(area.va_range(), AddrRange::new(area.start(), area.end()));
            assert_eq!(area.size(), area.end() - area.start());
            let Bytes = area.backend();
            (area.start().as_usize(), area.end().as_usize(), area.flags())
        };
        self.areas.iter().map(listed).collect()
    }

    pub(super) fn flags_at(&self, address: usize) -> Option<u8> {
        self.areas.find(address.into()).map(MemoryArea::flags)
    }

    pub(super) fn overlaps(&self, start: usize, size: usize) -> bool {
        self.areas.overlaps(AddrRange::from_start_size(start.into(), size))
    }

    pub(super) fn free(&self, hint: usize, size: usize, align: usize) -> Option<usize> {
        let all = va_range!(0..BYTES);
        self.areas.find_free_area(va!(hint), size, all, align).map(VirtAddr::as_usize)
    }
}
