//! A log of the accesses of one side, in order. The plugin reports only the accesses to lines that move
//! between CPUs. It knows these lines only when the test has ended, so it logs all accesses.

use crate::lines::{Access, LINE_BYTES};
use crate::place::{Place, Update};

/// The maximum number of logged accesses. A log of this length takes 32 MiB.
const MAX_LOGGED: usize = 1 << 20;
/// The maximum number of accesses that the plugin reports for a side. An operation makes a few hundred
/// accesses to lines that move, or a few thousand if it reuses memory that other CPUs have freed. Linux 6.7
/// and later take up to 2016 free pages at once (63 << CONFIG_PCP_BATCH_SCALE_MAX), with several accesses to
/// the `struct page` of each.
const MAX_REPORTED: usize = 1 << 14;
/// The number of latest entries with which a new access may be merged. A string instruction accesses its two
/// operands in turn, and all its accesses to the same line become one entry.
const LATEST: usize = 2;

/// The kind of an access. A later kind includes the earlier ones, and a plain read-modify-write is a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Load,
    Store,
    Atomic,
    CompareExchange,
}

/// The accesses of one instruction to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Logged {
    /// The number of instructions that the side executed before this one.
    pub(crate) at: u64,
    /// The physical address divided by [`LINE_BYTES`].
    pub(crate) line: u64,
    pub(crate) pc: u64,
    /// The first byte in the line.
    pub(crate) offset: u8,
    pub(crate) bytes: u8,
    pub(crate) kind: Kind,
}

/// The accesses of one side.
#[derive(Default)]
pub(crate) struct Log {
    entries: Vec<Logged>,
    /// Whether entries are missing because there were more than [`MAX_LOGGED`].
    cut: bool,
}

/// The reported accesses of one side.
pub(crate) struct Reported {
    pub(crate) accesses: Vec<Logged>,
    /// Whether accesses are missing.
    pub(crate) cut: bool,
}

impl Log {
    /// Drops all entries, and keeps the memory allocated.
    pub(crate) fn clear(&mut self) {
        self.entries.clear();
        self.cut = false;
    }

    /// Adds an access within a page. The block of the access ends when the side has executed `instructions`
    /// instructions.
    pub(crate) fn add(&mut self, access: &Access, place: &Place, instructions: u64) {
        let at = instructions.saturating_sub(place.rest as u64);
        let kind = match (place.update, access.store) {
            (Update::CompareExchange, _) => Kind::CompareExchange,
            (Update::Atomic, _) => Kind::Atomic,
            (Update::Plain, true) => Kind::Store,
            (Update::Plain, false) => Kind::Load,
        };
        let mut done = 0;
        while done < access.bytes {
            let physical = access.physical + done;
            let offset = physical % LINE_BYTES;
            let bytes = (access.bytes - done).min(LINE_BYTES - offset);
            let (line, pc) = (physical / LINE_BYTES, place.pc);
            self.push(Logged { at, line, pc, offset: offset as u8, bytes: bytes as u8, kind });
            done += bytes;
        }
    }

    /// Adds an entry, unless the same instruction has just accessed the same line. QEMU reports a
    /// read-modify-write, atomic or not, as a load and a store.
    fn push(&mut self, new: Logged) {
        let begin = self.entries.len().saturating_sub(LATEST);
        let is_same = |old: &&mut Logged| (old.at, old.line, old.pc) == (new.at, new.line, new.pc);
        if let Some(old) = self.entries[begin..].iter_mut().rev().find(is_same) {
            let end = (old.offset + old.bytes).max(new.offset + new.bytes);
            old.offset = old.offset.min(new.offset);
            old.bytes = end - old.offset;
            old.kind = old.kind.max(new.kind);
        } else if self.entries.len() < MAX_LOGGED {
            self.entries.push(new);
        } else {
            self.cut = true;
        }
    }

    /// Returns the accesses to the lines for which `is_wanted` returns true.
    pub(crate) fn report(&self, is_wanted: impl Fn(u64) -> bool) -> Reported {
        let mut wanted = self.entries.iter().filter(|entry| is_wanted(entry.line)).copied();
        let accesses = wanted.by_ref().take(MAX_REPORTED).collect();
        Reported { accesses, cut: self.cut || wanted.next().is_some() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PC: u64 = 0xffff_ffff_8100_0000;

    /// An access: its physical address, the number of bytes, and whether it is a store.
    type Raw = (u64, u64, bool);

    /// Logs the accesses of several instructions, each in a block of its own. Returns the position, the line,
    /// the first byte in it, the number of bytes and the kind of each entry.
    fn logged(instructions: &[(&[Raw], Update)]) -> Vec<(u64, u64, u8, u8, Kind)> {
        let mut log = Log::default();
        for (at, &(accesses, update)) in instructions.iter().enumerate() {
            let place = Place { pc: PC + at as u64, rest: 1, update };
            for &(physical, bytes, store) in accesses {
                let access = Access { physical, address: physical, bytes, pc: place.pc, store };
                log.add(&access, &place, at as u64 + 1);
            }
        }
        let entries = log.report(|_| true).accesses;
        entries.iter().map(|one| (one.at, one.line, one.offset, one.bytes, one.kind)).collect()
    }

    #[test]
    fn a_read_modify_write_is_one_access() {
        let both: &[_] = &[(0x1044, 4, false), (0x1044, 4, true)];
        assert_eq!(
            logged(&[
                (both, Update::Plain),
                (both, Update::Atomic),
                (both, Update::CompareExchange),
                (&both[..1], Update::Plain),
            ]),
            [
                (0, 0x41, 4, 4, Kind::Store),
                (1, 0x41, 4, 4, Kind::Atomic),
                (2, 0x41, 4, 4, Kind::CompareExchange),
                (3, 0x41, 4, 4, Kind::Load),
            ]
        );
    }

    #[test]
    fn a_string_instruction_makes_one_access_to_each_line() {
        let copy: Vec<_> = (0..16)
            .flat_map(|word| [(0x1000 + 8 * word, 8, false), (0x2000 + 8 * word, 8, true)])
            .collect();
        assert_eq!(
            logged(&[(&copy, Update::Plain)]),
            [
                (0, 0x40, 0, 64, Kind::Load),
                (0, 0x80, 0, 64, Kind::Store),
                (0, 0x41, 0, 64, Kind::Load),
                (0, 0x81, 0, 64, Kind::Store),
            ]
        );
    }

    #[test]
    fn an_access_across_lines_is_an_access_to_each() {
        assert_eq!(
            logged(&[(&[(0x103e, 8, true)], Update::Plain)]),
            [(0, 0x40, 62, 2, Kind::Store), (0, 0x41, 0, 6, Kind::Store)]
        );
    }

    #[test]
    fn the_position_of_an_access_counts_the_instructions_before_it() {
        let mut log = Log::default();
        // Two of the ten instructions of a block; the block ends with the side's 110th instruction.
        for rest in [10, 3] {
            let place = Place { pc: PC + rest as u64, rest, update: Update::Plain };
            let access = Access { physical: 0, address: 0, bytes: 1, pc: place.pc, store: false };
            log.add(&access, &place, 110);
        }
        let positions: Vec<u64> = log.report(|_| true).accesses.iter().map(|one| one.at).collect();
        assert_eq!(positions, [100, 107]);
    }

    #[test]
    fn a_report_contains_only_wanted_lines_and_says_when_it_is_cut() {
        let mut log = Log::default();
        for at in 0..2 * MAX_REPORTED as u64 {
            let place = Place { pc: PC, rest: 1, update: Update::Plain };
            let physical = at % 2 * LINE_BYTES;
            let access = Access { physical, address: physical, bytes: 1, pc: PC, store: false };
            log.add(&access, &place, at + 1);
        }
        let report = log.report(|line| line == 1);
        assert_eq!((report.accesses.len(), report.cut), (MAX_REPORTED, false));
        assert!(report.accesses.iter().all(|access| access.line == 1));
        let report = log.report(|_| true);
        assert_eq!((report.accesses.len(), report.cut), (MAX_REPORTED, true));
    }
}
