//! The areas of an address space, ordered by address.

use alloc::collections::BTreeMap;
use core::fmt;

use memory_addr::{AddrRange, MemoryAddr};

use super::area::MemoryArea;
use super::backend::MappingBackend;
use super::{MappingError, MappingResult};

/// The areas of an address space. No two of them overlap.
pub struct MemorySet<B: MappingBackend> {
    /// The areas, keyed by their first addresses.
    areas: BTreeMap<B::Addr, MemoryArea<B>>,
}

impl<B: MappingBackend> MemorySet<B> {
    /// Creates an empty set.
    pub const fn new() -> Self {
        MemorySet { areas: BTreeMap::new() }
    }

    /// The number of areas.
    pub fn len(&self) -> usize {
        self.areas.len()
    }

    /// Whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.areas.is_empty()
    }

    /// Iterates over the areas, in ascending order of address.
    pub fn iter(&self) -> impl Iterator<Item = &MemoryArea<B>> {
        self.areas.values()
    }

    /// Whether any area overlaps the range.
    pub fn overlaps(&self, range: AddrRange<B::Addr>) -> bool {
        !range.is_empty() && self.first_in(range).is_some()
    }

    /// The area that contains an address.
    pub fn find(&self, addr: B::Addr) -> Option<&MemoryArea<B>> {
        let (_, last) = self.areas.range(..=addr).next_back()?;
        Some(last).filter(|area| addr < area.end())
    }

    /// The first area that overlaps a range, which must not be empty.
    fn first_in(&self, range: AddrRange<B::Addr>) -> Option<&MemoryArea<B>> {
        let within = || self.areas.range(range.start..range.end).next().map(|(_, area)| area);
        self.find(range.start).or_else(within)
    }

    /// Finds `size` free bytes within `limit`, and returns their address: the lowest possible multiple of
    /// `align` that is not below `hint`. Returns `None` if there is no such address, if `size` is not a
    /// multiple of `align`, or if `align` is 0.
    ///
    /// Takes time linear in the number of areas between `hint` and the result.
    pub fn find_free_area(
        &self,
        hint: B::Addr,
        size: usize,
        limit: AddrRange<B::Addr>,
        align: usize,
    ) -> Option<B::Addr> {
        if !size.is_multiple_of(align) {
            return None;
        }
        let up = |addr: B::Addr| {
            let up = addr.into().checked_next_multiple_of(align).map(B::Addr::from);
            up.filter(|&start| start.checked_add(size).is_some_and(|end| end <= limit.end))
        };
        let mut start = up(hint.max(limit.start))?;
        if let Some((_, before)) = self.areas.range(..start).next_back() {
            start = up(start.max(before.end()))?;
        }
        for (&next, area) in self.areas.range(start..) {
            if start.wrapping_add(size) <= next {
                break;
            }
            start = up(area.end())?;
        }
        Some(start)
    }

    /// Maps an area. With `unmap_overlap`, first unmaps the overlapping parts of other areas.
    ///
    /// # Errors
    /// [`MappingError::InvalidParam`] if the area is empty. [`MappingError::AlreadyExists`] if it overlaps
    /// another area and `unmap_overlap` is false. [`MappingError::BadState`] if a backend failed to map the
    /// area or to unmap an overlapping area.
    pub fn map(
        &mut self,
        area: MemoryArea<B>,
        page_table: &mut B::PageTable,
        unmap_overlap: bool,
    ) -> MappingResult {
        let range = area.va_range();
        if range.is_empty() {
            return Err(MappingError::InvalidParam);
        }
        if self.overlaps(range) {
            if !unmap_overlap {
                return Err(MappingError::AlreadyExists);
            }
            self.unmap(range.start, range.size(), page_table)?;
        }
        done(area.backend().map(range.start, range.size(), area.flags(), page_table))?;
        self.areas.insert(range.start, area);
        Ok(())
    }

    /// Unmaps the mapped parts of a range. If an area extends beyond the range, it shrinks or is split.
    ///
    /// # Errors
    /// [`MappingError::InvalidParam`] if the end of the range overflows. [`MappingError::BadState`] if a
    /// backend failed to unmap its part of the range: that area and all later ones remain.
    pub fn unmap(
        &mut self,
        start: B::Addr,
        size: usize,
        page_table: &mut B::PageTable,
    ) -> MappingResult {
        self.change(start, size, |part| {
            done(part.backend().unmap(part.start(), part.size(), page_table))?;
            Ok(Becomes::Gone)
        })
    }

    /// Unmaps all areas.
    ///
    /// # Errors
    /// [`MappingError::BadState`] if a backend failed to unmap its area: that area and all later ones remain.
    pub fn clear(&mut self, page_table: &mut B::PageTable) -> MappingResult {
        while let Some(first) = self.areas.first_entry() {
            let area = first.get();
            done(area.backend().unmap(area.start(), area.size(), page_table))?;
            first.remove();
        }
        Ok(())
    }

    /// Changes the flags of the mapped parts of a range. `update_flags` returns the new flags of an area,
    /// or `None` to keep the old ones.
    ///
    /// # Errors
    /// [`MappingError::InvalidParam`] if the end of the range overflows.
    pub fn protect(
        &mut self,
        start: B::Addr,
        size: usize,
        update_flags: impl Fn(B::Flags) -> Option<B::Flags>,
        page_table: &mut B::PageTable,
    ) -> MappingResult {
        self.change(start, size, |part| {
            let Some(flags) = update_flags(part.flags()) else { return Ok(Becomes::Same) };
            // The result is ignored, as in memory_set: a lazy backend returns false if no page is present
            // yet, and this is not an error.
            let _ = part.backend().protect(part.start(), part.size(), flags, page_table);
            Ok(Becomes::With(flags))
        })
    }

    /// For each area that overlaps the range, in ascending order: passes the overlapping part to `with`, and
    /// applies the result to this part.
    fn change(
        &mut self,
        start: B::Addr,
        size: usize,
        mut with: impl FnMut(&MemoryArea<B>) -> MappingResult<Becomes<B::Flags>>,
    ) -> MappingResult {
        let range = AddrRange::try_from_start_size(start, size);
        let mut rest = range.ok_or(MappingError::InvalidParam)?;
        while !rest.is_empty()
            && let Some(area) = self.first_in(rest)
        {
            let flags = area.flags();
            let part = area.part(rest, flags).expect("the area overlaps the range");
            let (first, part_range) = (area.start(), part.va_range());
            let left = area.part(AddrRange::new(first, part_range.start), flags);
            let right = area.part(AddrRange::new(part_range.end, area.end()), flags);
            rest.start = part_range.end;
            let part = match with(&part)? {
                Becomes::Same => continue,
                Becomes::With(flags) => part.part(part_range, flags),
                Becomes::Gone => None,
            };
            self.areas.remove(&first);
            let parts = [left, part, right].into_iter().flatten();
            self.areas.extend(parts.map(|part| (part.start(), part)));
        }
        Ok(())
    }
}

/// Whether a part of an area stays the same, gets other flags, or is removed.
enum Becomes<F> {
    Same,
    With(F),
    Gone,
}

/// Converts a backend's result.
fn done(is_done: bool) -> MappingResult {
    if is_done { Ok(()) } else { Err(MappingError::BadState) }
}

impl<B: MappingBackend> Default for MemorySet<B> {
    fn default() -> Self {
        MemorySet::new()
    }
}

impl<B: MappingBackend> fmt::Debug for MemorySet<B>
where
    B::Addr: fmt::Debug,
    B::Flags: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.areas.values()).finish()
    }
}
