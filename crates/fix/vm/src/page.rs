//! Pages and frames by number, and what may be done with them.

use core::fmt;
use core::ops::{BitAnd, BitOr};

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

/// What may be done with a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Protection(u8);

impl Protection {
    /// Nothing.
    pub const NONE: Protection = Protection(0);
    /// Loads.
    pub const READ: Protection = Protection(1);
    /// Stores. What allows them, or instructions, allows loads as well when it is mapped.
    pub const WRITE: Protection = Protection(2);
    /// Loads and stores.
    pub const READ_WRITE: Protection = Protection(3);
    /// Instructions.
    pub const EXECUTE: Protection = Protection(4);
    /// Nothing is to be there: nobody else maps anything, who goes there is told so, and it counts in no
    /// quota. It comes and goes by map and unmap only.
    pub const GUARD: Protection = Protection(8);

    /// With reading, if it allows anything: hardware knows no pages that may be written or executed and
    /// not read.
    pub(crate) const fn readable(self) -> Protection {
        match self.0 {
            0 => self,
            bits if bits & Protection::GUARD.0 != 0 => Protection::GUARD,
            bits => Protection(bits | Protection::READ.0),
        }
    }

    pub(crate) const fn bits(self) -> u8 {
        self.0
    }

    /// What has these [bits](Protection::bits).
    pub(crate) const fn from_bits(bits: u8) -> Protection {
        Protection(bits)
    }

    /// What it allows beside `other`.
    pub const fn without(self, other: Protection) -> Protection {
        Protection(self.0 & !other.0)
    }

    /// Whether all that `other` allows is allowed.
    pub const fn allows(self, other: Protection) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Protection {
    type Output = Protection;

    fn bitor(self, other: Protection) -> Protection {
        Protection(self.0 | other.0)
    }
}

impl BitAnd for Protection {
    type Output = Protection;

    fn bitand(self, other: Protection) -> Protection {
        Protection(self.0 & other.0)
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if *self == Protection::GUARD {
            return f.write_str("guard");
        }
        let letter = |of: Protection, letter| if self.allows(of) { letter } else { '-' };
        let (read, write) = (letter(Protection::READ, 'r'), letter(Protection::WRITE, 'w'));
        write!(f, "{read}{write}{}", letter(Protection::EXECUTE, 'x'))
    }
}
