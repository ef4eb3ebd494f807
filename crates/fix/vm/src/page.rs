//! Pages and frames by number, and what may be done with them.

use core::fmt;

/// Bytes of a page.
pub const PAGE: usize = 4096;

/// Bits of an address that one table resolves, in every [`Format`](crate::Format) that there is.
#[cfg(not(loom))]
pub(crate) const BITS: u32 = 9;

/// Those of a model.
#[cfg(loom)]
pub(crate) const BITS: u32 = 2;

/// Entries of a table.
pub(crate) const ENTRIES: usize = 1 << BITS;

/// A page of physical memory, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u64);

/// Virtual pages by number, from `start` on and before `end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pages {
    /// The first.
    pub start: u64,
    /// The one after the last.
    pub end: u64,
}

impl Pages {
    /// So many pages from `start` on.
    ///
    /// # Panics
    /// If the number after the last is beyond 2⁶⁴ − 1, as [`checked`](Pages::checked) says of what a program
    /// asks for.
    pub const fn new(start: u64, count: u64) -> Pages {
        match Pages::checked(start, count) {
            Some(pages) => pages,
            None => panic!("the pages end beyond the last number of a page"),
        }
    }

    /// So many pages from `start` on, if there are such numbers.
    pub const fn checked(start: u64, count: u64) -> Option<Pages> {
        match start.checked_add(count) {
            Some(end) => Some(Pages { start, end }),
            None => None,
        }
    }

    /// How many.
    pub const fn count(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether there is none.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// Whether this page is one of them.
    pub const fn contains(self, page: u64) -> bool {
        self.start <= page && page < self.end
    }

    /// Whether all of `other` are among them.
    pub const fn covers(self, other: Pages) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// Those that are among both.
    pub fn and(self, other: Pages) -> Pages {
        Pages { start: self.start.max(other.start), end: self.end.min(other.end) }
    }

    /// Whether any is among both.
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

    /// With [`READ`](Protection::READ) if any access is allowed.
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
