//! Addresses, page and frame numbers, page ranges, and protections.

use core::fmt;
use core::ops::{Add, AddAssign, Sub};

/// Page size in bytes.
pub const PAGE: usize = 4096;

/// The number of address bits that one table level resolves, in every [`Format`](crate::Format).
#[cfg(not(loom))]
pub(crate) const BITS: u32 = 9;

/// Loom models use smaller tables.
#[cfg(loom)]
pub(crate) const BITS: u32 = 2;

/// Entries per table.
pub(crate) const ENTRIES: usize = 1 << BITS;

/// A physical page number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Frame(pub u64);

/// A virtual address, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VirtAddr(pub u64);

impl VirtAddr {
    /// Returns the page that contains the address. A trap handler passes it to
    /// [`Space::fault`](crate::Space::fault).
    pub const fn page(self) -> Page {
        Page(self.0 / PAGE as u64)
    }

    /// Returns the offset within the page, in bytes.
    pub const fn offset(self) -> usize {
        (self.0 % PAGE as u64) as usize
    }
}

impl Add<u64> for VirtAddr {
    type Output = VirtAddr;

    /// Returns the address `bytes` above this one.
    fn add(self, bytes: u64) -> VirtAddr {
        VirtAddr(self.0 + bytes)
    }
}

impl fmt::Debug for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "VirtAddr({self:#x})")
    }
}

impl fmt::LowerHex for VirtAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A virtual page number: an address divided by [`PAGE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Page(pub u64);

impl Page {
    /// Returns the address of the first byte of the page.
    pub const fn address(self) -> VirtAddr {
        VirtAddr(self.0 * PAGE as u64)
    }
}

impl Add<u64> for Page {
    type Output = Page;

    /// Returns the page that is `count` pages above this one.
    fn add(self, count: u64) -> Page {
        Page(self.0 + count)
    }
}

impl AddAssign<u64> for Page {
    fn add_assign(&mut self, count: u64) {
        self.0 += count;
    }
}

impl Sub<u64> for Page {
    type Output = Page;

    /// Returns the page that is `count` pages below this one.
    fn sub(self, count: u64) -> Page {
        Page(self.0 - count)
    }
}

impl Sub for Page {
    type Output = u64;

    /// Returns the distance in pages from `start`, which must not be above `self`.
    fn sub(self, start: Page) -> u64 {
        self.0 - start.0
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Page({self:#x})")
    }
}

impl fmt::LowerHex for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A half-open range of virtual pages, `start..end`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Pages {
    /// The first page.
    pub start: Page,
    /// The first page after the range.
    pub end: Page,
}

impl Pages {
    /// Returns the range of `count` pages from `start`.
    ///
    /// # Panics
    /// If `start + count` overflows. Use [`checked`](Pages::checked) for values that a program supplies.
    pub const fn new(start: Page, count: u64) -> Pages {
        match Pages::checked(start, count) {
            Some(pages) => pages,
            None => panic!("the end of the page range overflows"),
        }
    }

    /// Returns the range of `count` pages from `start`, or `None` if `start + count` overflows.
    pub const fn checked(start: Page, count: u64) -> Option<Pages> {
        match start.0.checked_add(count) {
            Some(end) => Some(Pages { start, end: Page(end) }),
            None => None,
        }
    }

    /// Returns the number of pages.
    pub const fn count(self) -> u64 {
        self.end.0.saturating_sub(self.start.0)
    }

    /// Returns whether the range has no pages.
    pub const fn is_empty(self) -> bool {
        self.start.0 >= self.end.0
    }

    /// Iterates over the pages, in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = Page> + Clone {
        (self.start.0..self.end.0).map(Page)
    }

    /// Returns whether the range contains `page`.
    pub const fn contains(self, page: Page) -> bool {
        self.start.0 <= page.0 && page.0 < self.end.0
    }

    /// Returns whether the range contains all of `other`.
    pub const fn covers(self, other: Pages) -> bool {
        self.start.0 <= other.start.0 && other.end.0 <= self.end.0
    }

    /// Returns the range of the pages that are in both ranges; it may be empty.
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
        /// Stores. A mapping that allows stores or execution also allows loads, because an x86-64 page-table
        /// entry that allows any access allows loads.
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

bitflags::bitflags! {
    /// How a page was used: see [`Space::usage`](crate::Space::usage).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Usage: u8 {
        /// The page was accessed through this mapping, or may have been.
        const ACCESSED = 1;
        /// The page was written, or may have been.
        const DIRTY = 2;
        /// The page is not present, because it was [swapped out](crate::Space::reclaim). This cannot be
        /// cleared.
        const SWAPPED = 4;
    }
}

impl Protection {
    /// No access.
    pub const NONE: Protection = Protection::empty();

    /// Adds [`READ`](Protection::READ) if any access is allowed. For a guard, removes all other flags.
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
