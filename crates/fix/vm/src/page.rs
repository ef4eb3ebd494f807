//! Page and frame numbers, page ranges, and protections.

use core::fmt;

/// Page size in bytes.
pub const PAGE: usize = 4096;

/// Address bits that one table level resolves, in every [`Format`](crate::Format).
#[cfg(not(loom))]
pub(crate) const BITS: u32 = 9;

/// The same, reduced for loom.
#[cfg(loom)]
pub(crate) const BITS: u32 = 2;

/// Entries per table.
pub(crate) const ENTRIES: usize = 1 << BITS;

/// A physical page number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u64);

/// A half-open range of virtual page numbers, `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pages {
    /// The first page.
    pub start: u64,
    /// The page after the last.
    pub end: u64,
}

impl Pages {
    /// Returns the range of `count` pages from `start`.
    ///
    /// # Panics
    /// If `start + count` overflows. Use [`checked`](Pages::checked) for values that a program supplies.
    pub const fn new(start: u64, count: u64) -> Pages {
        match Pages::checked(start, count) {
            Some(pages) => pages,
            None => panic!("the end of the page range overflows"),
        }
    }

    /// Returns the range of `count` pages from `start`, or `None` if `start + count` overflows.
    pub const fn checked(start: u64, count: u64) -> Option<Pages> {
        match start.checked_add(count) {
            Some(end) => Some(Pages { start, end }),
            None => None,
        }
    }

    /// Returns the number of pages.
    pub const fn count(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Returns whether the range has no pages.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Returns whether the range contains `page`.
    pub const fn contains(self, page: u64) -> bool {
        self.start <= page && page < self.end
    }

    /// Returns whether the range contains all of `other`.
    pub const fn covers(self, other: Pages) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Returns the intersection with `other`, which may be empty.
    pub fn and(self, other: Pages) -> Pages {
        Pages { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// Returns whether the ranges have a page in common.
    pub fn overlaps(self, other: Pages) -> bool {
        !self.and(other).is_empty()
    }
}

impl fmt::Debug for Pages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start, self.end)
    }
}

bitflags::bitflags! {
    /// The accesses that a mapping allows.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Protection: u8 {
        /// Loads.
        const READ = 1;
        /// Stores. A mapping that allows stores or execution also allows loads: no hardware has pages that
        /// can be written or executed and not read.
        const WRITE = 2;
        /// Loads and stores.
        const READ_WRITE = 3;
        /// Execution of instructions.
        const EXECUTE = 4;
        /// Reserved pages: nothing else is mapped there, every access fails, and no quota is charged.
        /// `map` creates guard pages and `unmap` removes them; `protect` does neither.
        const GUARD = 8;
    }
}

impl Protection {
    /// No access.
    pub const NONE: Protection = Protection::empty();

    /// Adds [`READ`](Protection::READ) if any access is allowed; a guard remains a pure guard.
    pub(crate) const fn readable(self) -> Protection {
        if self.is_empty() {
            self
        } else if self.contains(Protection::GUARD) {
            Protection::GUARD
        } else {
            self.union(Protection::READ)
        }
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Protection::GUARD {
            return f.write_str("guard");
        }
        let letter = |of: Protection, letter| if self.contains(of) { letter } else { '-' };
        let (read, write) = (letter(Protection::READ, 'r'), letter(Protection::WRITE, 'w'));
        write!(f, "{read}{write}{}", letter(Protection::EXECUTE, 'x'))
    }
}
