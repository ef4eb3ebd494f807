//! A table of the cache lines that one side of a test touched. The table is cleared in constant time.
//!
//! A test touches a few hundred lines, and thousands of tests run per second, so clearing the table must be
//! cheap. Each slot stores the generation in which it was filled. Clearing the table begins the next
//! generation, which makes all slots free. The table is a hash table with open addressing and linear probing
//! and is at most half full. A separate list holds the lines in the order of first access, so reports do not
//! depend on addresses.
//!
//! Most accesses are by code that has touched the line before. These accesses change only the [`Line`], which
//! fits in one cache line of the host, and add nothing to [`Details`].

use crate::calls::Chain;

/// The size of a cache line in bytes.
pub(crate) const LINE_BYTES: u64 = 64;
/// The maximum number of code addresses per line and kind of access.
pub(crate) const MAX_PCS: usize = 4;
/// The maximum number of virtual addresses per line. A line of a file has one virtual address in
/// the kernel and one per mapping.
pub(crate) const MAX_VIRTUALS: usize = 2;
/// The maximum number of lines. This many lines cover 64 MiB of the guest's memory, and the table takes 216
/// MiB. Further lines of an operation are ignored.
pub(crate) const MAX_LINES: usize = 1 << 20;
/// The initial number of slots, enough for most operations.
const FIRST_SLOTS: usize = 1 << 11;

/// The first `N` distinct numbers that were added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FirstFew<const N: usize> {
    values: [u64; N],
    count: u8,
}

impl<const N: usize> FirstFew<N> {
    pub(crate) const EMPTY: FirstFew<N> = FirstFew { values: [0; N], count: 0 };

    pub(crate) fn as_slice(&self) -> &[u64] {
        &self.values[..self.count.into()]
    }

    /// Adds a number. Returns false if the number is already present or there is no room.
    #[inline]
    pub(crate) fn add(&mut self, value: u64) -> bool {
        let count = usize::from(self.count);
        let is_new = count < N && !self.as_slice().contains(&value);
        if is_new {
            self.values[count] = value;
            self.count += 1;
        }
        is_new
    }
}

/// The addresses of code that touched a line, each with the call path of its first access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Code {
    pcs: FirstFew<MAX_PCS>,
    chains: [Chain; MAX_PCS],
}

impl Code {
    const NONE: Code = Code { pcs: FirstFew::EMPTY, chains: [Chain::EMPTY; MAX_PCS] };

    pub(crate) fn pcs(&self) -> &[u64] {
        self.pcs.as_slice()
    }

    /// Returns the chain of callers of each address.
    pub(crate) fn chains(&self) -> &[Chain] {
        &self.chains[..self.pcs().len()]
    }

    fn add(&mut self, pc: u64, chain: impl FnOnce() -> Chain) {
        if self.pcs.add(pc) {
            self.chains[self.pcs().len() - 1] = chain();
        }
    }
}

/// A code address, hashed to 32 bits. The code of a kernel and of its modules is within two gigabytes, so no
/// two addresses of this code have the same tag. If two addresses of a program have the same tag, the second
/// one is not recorded.
type Tag = u32;
const NO_TAG: Tag = 0;

fn tag(pc: u64) -> Tag {
    ((pc ^ pc >> 32) as Tag).max(1)
}

/// The accesses of one side to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Line {
    /// The physical address divided by [`LINE_BYTES`].
    pub(crate) number: u64,
    /// Bit n is set if byte n was read.
    pub(crate) read: u64,
    /// Bit n is set if byte n was written.
    pub(crate) written: u64,
    /// The virtual address that the line's first byte had in the first access to the line.
    address: u64,
    /// The tags of the code addresses in [`Details`].
    writers: [Tag; MAX_PCS],
    readers: [Tag; MAX_PCS],
}

/// The code that touched a line, and the virtual addresses of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Details {
    /// The virtual addresses of the line's first byte.
    pub(crate) virtuals: FirstFew<MAX_VIRTUALS>,
    /// The code that wrote the line.
    pub(crate) writers: Code,
    /// The code that read the line.
    pub(crate) readers: Code,
}

/// One access to memory, within a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Access {
    pub(crate) physical: u64,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    pub(crate) pc: u64,
    pub(crate) store: bool,
}

#[derive(Clone, Copy)]
struct Slot {
    generation: u32,
    /// The index of the line in the list of lines.
    line: u32,
}

/// The lines that one side touched.
pub(crate) struct LineTable {
    slots: Vec<Slot>,
    lines: Vec<Line>,
    /// The details of each line.
    details: Vec<Details>,
    /// The index of the line that was touched last. Most accesses touch this line again.
    last: usize,
    generation: u32,
    overflowed: bool,
}

impl LineTable {
    pub(crate) fn new() -> LineTable {
        LineTable {
            slots: vec![Slot { generation: 0, line: 0 }; FIRST_SLOTS],
            lines: Vec::new(),
            details: Vec::new(),
            last: 0,
            generation: 1,
            overflowed: false,
        }
    }

    /// Drops all lines.
    pub(crate) fn clear(&mut self) {
        self.lines.clear();
        self.details.clear();
        self.overflowed = false;
        self.generation = self.generation.checked_add(1).unwrap_or_else(|| {
            self.slots.fill(Slot { generation: 0, line: 0 });
            1
        });
    }

    /// Returns all lines, in the order of their first access.
    pub(crate) fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Returns whether lines are missing because there were more than [`MAX_LINES`].
    pub(crate) fn overflowed(&self) -> bool {
        self.overflowed
    }

    /// Returns the accesses to line `number`, if the line was touched.
    pub(crate) fn get(&self, number: u64) -> Option<&Line> {
        self.index(number).map(|index| &self.lines[index])
    }

    /// Returns the details of line `number`, if the line was touched.
    pub(crate) fn details(&self, number: u64) -> Option<&Details> {
        self.index(number).map(|index| &self.details[index])
    }

    fn index(&self, number: u64) -> Option<usize> {
        let slot = self.slots[self.slot(number)];
        (slot.generation == self.generation).then_some(slot.line as usize)
    }

    /// Records an access in each line that the access touches. `chain` returns the callers, and is called
    /// only for new code addresses.
    #[inline]
    pub(crate) fn add(&mut self, access: &Access, chain: impl FnMut() -> Chain) {
        match access.physical % LINE_BYTES + access.bytes <= LINE_BYTES {
            true => self.add_within(access, chain),
            false => self.add_across(access, chain),
        }
    }

    #[cold]
    fn add_across(&mut self, access: &Access, mut chain: impl FnMut() -> Chain) {
        let mut done = 0;
        while done < access.bytes {
            let (physical, address) = (access.physical + done, access.address + done);
            let bytes = (access.bytes - done).min(LINE_BYTES - physical % LINE_BYTES);
            self.add_within(&Access { physical, address, bytes, ..*access }, &mut chain);
            done += bytes;
        }
    }

    /// Records an access that has at least one byte and lies within one line.
    #[inline]
    fn add_within(&mut self, access: &Access, chain: impl FnOnce() -> Chain) {
        let address = access.address & !(LINE_BYTES - 1);
        let Some(index) = self.line(access.physical / LINE_BYTES, address) else { return };
        let line = &mut self.lines[index];
        let (bits, tags) = match access.store {
            true => (&mut line.written, &mut line.writers),
            false => (&mut line.read, &mut line.readers),
        };
        *bits |= u64::MAX >> (LINE_BYTES - access.bytes) << (access.physical % LINE_BYTES);
        let tag = tag(access.pc);
        let is_known = tags.iter().fold(false, |is_known, &known| is_known | (known == tag));
        if !is_known && let Some(free) = tags.iter_mut().find(|tag| **tag == NO_TAG) {
            *free = tag;
            let details = &mut self.details[index];
            match access.store {
                true => details.writers.add(access.pc, chain),
                false => details.readers.add(access.pc, chain),
            }
        }
        if line.address != address {
            self.details[index].virtuals.add(address);
        }
    }

    /// Returns the index of a line. If the line is new, adds it with this virtual address. Returns
    /// `None` if the table is full.
    #[inline]
    fn line(&mut self, number: u64, address: u64) -> Option<usize> {
        if self.lines.get(self.last).is_some_and(|line| line.number == number) {
            return Some(self.last);
        }
        let mut at = self.slot(number);
        if self.slots[at].generation != self.generation {
            if self.lines.len() == MAX_LINES {
                self.overflowed = true;
                return None;
            }
            if 2 * (self.lines.len() + 1) > self.slots.len() {
                self.grow();
                at = self.slot(number);
            }
            self.slots[at] = Slot { generation: self.generation, line: self.lines.len() as u32 };
            self.lines.push(Line {
                number,
                read: 0,
                written: 0,
                address,
                writers: [NO_TAG; MAX_PCS],
                readers: [NO_TAG; MAX_PCS],
            });
            let mut virtuals = FirstFew::EMPTY;
            virtuals.add(address);
            self.details.push(Details { virtuals, writers: Code::NONE, readers: Code::NONE });
        }
        self.last = self.slots[at].line as usize;
        Some(self.last)
    }

    /// Returns the index of the slot that contains the line. If no slot contains the line, returns the index
    /// of the free slot for the line.
    fn slot(&self, number: u64) -> usize {
        // Fibonacci hashing puts adjacent lines into distant slots.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut at = (hash >> (64 - self.slots.len().ilog2())) as usize;
        loop {
            let slot = self.slots[at];
            if slot.generation != self.generation || self.lines[slot.line as usize].number == number
            {
                return at;
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    fn grow(&mut self) {
        let slots = 2 * self.slots.len();
        self.slots.clear();
        self.slots.resize(slots, Slot { generation: 0, line: 0 });
        for index in 0..self.lines.len() {
            let at = self.slot(self.lines[index].number);
            self.slots[at] = Slot { generation: self.generation, line: index as u32 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn access(physical: u64, bytes: u64, store: bool) -> Access {
        let address = 0xffff_8880_0000_0000 + physical;
        Access { physical, address, bytes, pc: 0xffff_ffff_8100_0000, store }
    }

    fn uncalled() -> Chain {
        Chain::EMPTY
    }

    #[test]
    fn each_byte_is_recorded() {
        let mut table = LineTable::new();
        table.add(&access(0x1004, 4, false), uncalled);
        table.add(&access(0x1008, 8, true), uncalled);
        let line = table.get(0x1000 / 64).unwrap();
        assert_eq!((line.read, line.written), (0xf0, 0xff00));
        let virtuals = table.details(0x1000 / 64).unwrap().virtuals;
        assert_eq!(virtuals.as_slice(), [0xffff_8880_0000_1000]);
    }

    #[test]
    fn an_access_across_lines_touches_both() {
        let mut table = LineTable::new();
        table.add(&access(0x103e, 8, true), uncalled);
        assert_eq!(table.get(0x40).unwrap().written, 0b11 << 62);
        assert_eq!(table.get(0x41).unwrap().written, 0x3f);
        table.add(&access(0x1080, 64, false), uncalled);
        assert_eq!(table.get(0x42).unwrap().read, u64::MAX);
    }

    #[test]
    fn a_cleared_table_is_empty_even_after_all_generations() {
        let mut table = LineTable::new();
        table.add(&access(0x1000, 1, true), uncalled);
        table.clear();
        assert_eq!(table.get(0x40), None);
        table.generation = u32::MAX;
        table.add(&access(0x1000, 1, true), uncalled);
        table.clear();
        assert_eq!((table.generation, table.get(0x40)), (1, None));
    }

    #[test]
    fn a_table_grows_and_keeps_the_order() {
        let mut table = LineTable::new();
        for number in (0..10_000).rev() {
            table.add(&access(number * 64, 8, number % 2 == 0), uncalled);
        }
        assert_eq!(table.lines().len(), 10_000);
        assert!(table.lines().iter().map(|line| line.number).eq((0..10_000).rev()));
        assert!((0..10_000).all(|number| table.get(number).unwrap().number == number));
    }

    #[test]
    fn the_first_few_code_addresses_are_kept_once_each() {
        let mut table = LineTable::new();
        for pc in [1, 2, 2, 1, 3, 4, 5] {
            table.add(&Access { pc, ..access(0, 8, true) }, uncalled);
        }
        assert_eq!(table.details(0).unwrap().writers.pcs(), [1, 2, 3, 4]);
        assert_eq!(table.details(0).unwrap().readers.pcs(), []);
    }

    #[test]
    fn two_addresses_of_a_line_are_kept() {
        let mut table = LineTable::new();
        for address in [0x4000, 0x5000, 0x4008, 0x5010, 0x6000] {
            table.add(&Access { address, ..access(0, 8, false) }, uncalled);
        }
        assert_eq!(table.details(0).unwrap().virtuals.as_slice(), [0x4000, 0x5000]);
    }

    #[test]
    fn a_line_takes_one_cache_line_of_the_host() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
    }
}
