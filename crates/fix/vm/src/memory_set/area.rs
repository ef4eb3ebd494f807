//! Mapped ranges of addresses.

use core::fmt;

use memory_addr::AddrRange;

use super::backend::MappingBackend;

/// A range of addresses that one backend maps, all with the same flags.
pub struct MemoryArea<B: MappingBackend> {
    range: AddrRange<B::Addr>,
    flags: B::Flags,
    backend: B,
}

impl<B: MappingBackend> MemoryArea<B> {
    /// An area of `size` bytes, which is not mapped yet.
    ///
    /// # Panics
    /// If the end of the area overflows.
    pub fn new(start: B::Addr, size: usize, flags: B::Flags, backend: B) -> Self {
        MemoryArea { range: AddrRange::from_start_size(start, size), flags, backend }
    }

    /// The range of addresses.
    pub const fn va_range(&self) -> AddrRange<B::Addr> {
        self.range
    }

    /// The flags, such as the allowed accesses.
    pub const fn flags(&self) -> B::Flags {
        self.flags
    }

    /// The first address.
    pub const fn start(&self) -> B::Addr {
        self.range.start
    }

    /// The first address after the area.
    pub const fn end(&self) -> B::Addr {
        self.range.end
    }

    /// The size in bytes.
    pub fn size(&self) -> usize {
        self.range.size()
    }

    /// The backend that maps the area.
    pub const fn backend(&self) -> &B {
        &self.backend
    }

    /// The part of the area within `range`, with these flags; `None` if the part is empty.
    pub(super) fn part(&self, range: AddrRange<B::Addr>, flags: B::Flags) -> Option<Self> {
        let start = self.start().max(range.start);
        let end = self.end().min(range.end);
        let range = (start < end).then(|| AddrRange::new(start, end))?;
        Some(MemoryArea { range, flags, backend: self.backend.clone() })
    }
}

impl<B: MappingBackend> fmt::Debug for MemoryArea<B>
where
    B::Addr: fmt::Debug,
    B::Flags: fmt::Debug,
{
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryArea")
            .field("va_range", &self.range)
            .field("flags", &self.flags)
            .finish_non_exhaustive()
    }
}
