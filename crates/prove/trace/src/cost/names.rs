//! Names the data in lines that moved between CPUs.

use std::collections::BTreeMap;

use crate::datum::Datum;
use crate::record::{Conflict, TestResult, Touch};

/// The names of data that moved.
#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    /// The data in lines, by physical address.
    pub(crate) lines: BTreeMap<u64, Datum>,
    /// The data in words that are accessed atomically, by physical address.
    pub(crate) words: BTreeMap<u64, Datum>,
}

impl Data {
    /// Names the data in the lines that moved in these operations. The guest must be paused after the last
    /// operation.
    pub(crate) fn of<'r, I: Iterator<Item = &'r TestResult>>(
        operations: impl Fn() -> I,
        mut name: impl FnMut(&Conflict) -> Datum,
    ) -> Data {
        let mut atomics: BTreeMap<u64, BTreeMap<u8, u8>> = BTreeMap::new();
        for access in operations().flat_map(|done| &done.accesses).flat_map(|side| &side.list) {
            if access.kind.is_atomic() {
                atomics.entry(access.line).or_default().insert(access.offset, access.bytes);
            }
        }
        let mut data = Data::default();
        for line in lines(operations()) {
            for (&offset, &bytes) in atomics.get(&line.line).into_iter().flatten() {
                let word = name(&word(&line, offset, bytes));
                data.words.insert(line.line + u64::from(offset), word);
            }
            data.lines.insert(line.line, name(&line));
        }
        data
    }
}

/// Returns a conflict on a word of a line.
fn word(line: &Conflict, offset: u8, bytes: u8) -> Conflict {
    let (first, last) = (u32::from(offset), u32::from(offset) + u32::from(bytes).max(1) - 1);
    let mask = (first..=last).fold(0, |mask, byte| mask | 1_u64.checked_shl(byte).unwrap_or(0));
    let of_word = |side: &Touch| Touch { first, last, read: 0, written: mask, ..side.clone() };
    Conflict { sides: line.sides.iter().map(of_word).collect(), ..line.clone() }
}

/// Returns, for each line that moved, a conflict whose sides are CPUs.
fn lines<'r>(operations: impl Iterator<Item = &'r TestResult>) -> Vec<Conflict> {
    let mut lines: BTreeMap<u64, BTreeMap<usize, Touch>> = BTreeMap::new();
    for done in operations {
        for moved in &done.moves {
            let side = done.sides.iter().find(|side| side.side == moved.by.side);
            let cpu = side.map_or(0, |side| side.cpu as usize);
            let by_cpu = lines.entry(moved.line).or_default();
            let touch =
                by_cpu.entry(cpu).or_insert_with(|| Touch { side: cpu, ..moved.by.clone() });
            touch.add(&moved.by);
        }
    }
    lines.into_iter().map(|(line, by_cpu)| shared(line, by_cpu.into_values().collect())).collect()
}

/// Returns a conflict whose sides are the CPUs to which a line moved. If the line moved to only one CPU, the
/// conflict gets a second side for the CPUs that held the line before. Both sides have the same accesses,
/// because all CPUs perform the same operation.
///
/// A line moves only if some CPU writes it. If none of these operations wrote the line, a CPU wrote it at
/// another time. It is unknown which bytes were written then, so the bytes that the CPUs read count as
/// written.
fn shared(line: u64, mut sides: Vec<Touch>) -> Conflict {
    if let [only] = &sides[..] {
        let other = Touch { side: only.side + 1, ..only.clone() };
        sides.push(other);
    }
    if sides.iter().all(|side| side.written == 0) {
        sides.iter_mut().for_each(|side| side.written = side.read);
    }
    Conflict { line, overlap: true, sides, datum: None, by_position: false, object: None }
}

impl Touch {
    /// Adds the accesses that the same CPU made to this line in another operation.
    fn add(&mut self, other: &Touch) {
        self.first = self.first.min(other.first);
        self.last = self.last.max(other.last);
        self.read |= other.read;
        self.written |= other.written;
        let lists = [
            (&mut self.virtuals, &other.virtuals),
            (&mut self.writers, &other.writers),
            (&mut self.readers, &other.readers),
        ];
        for (own, others) in lists {
            let new = others.iter().filter(|address| !own.contains(address));
            let new: Vec<u64> = new.copied().collect();
            own.extend(new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    /// An operation that moves line 0x40 to a CPU. `read` and `written` are masks of bytes.
    fn operation(cpu: usize, read: u64, written: u64) -> TestResult {
        let line = format!(
            r#"{{"test":0,"sides":[{{"side":0,"cpu":{cpu},"opened":1,"closed":1,
            "instructions":9,"accesses":7,"read":3,"written":2,"interrupts":0,"switches":0,
            "unresolved":0,"overflowed":false}}],"conflicts":[],"more":0,"stray":0,"taken":1,
            "fetched":0,"moves":[{{"line":"0x40","taken":true,"from":"0x1","by":{{"side":0,
            "first":0,"last":7,"read":"{read:#x}","written":"{written:#x}",
            "virtual":["0xffff888000000040"],"writers":["0x{cpu}"],"readers":[]}}}}]}}"#
        );
        let Ok(Record::Test(result)) = Record::parse(&line) else { panic!("{line}") };
        result
    }

    /// Returns the CPUs to which the only line moved, each with the masks of the bytes that it reads and
    /// writes.
    fn sides(operations: &[TestResult]) -> Vec<(usize, u64, u64)> {
        let lines = lines(operations.iter());
        let [line] = &lines[..] else { panic!("{lines:?}") };
        line.sides.iter().map(|side| (side.side, side.read, side.written)).collect()
    }

    #[test]
    fn each_cpu_is_a_side_with_all_of_its_accesses() {
        let operations = [operation(3, 0x1, 0x10), operation(5, 0, 0x20), operation(3, 0x2, 0)];
        assert_eq!(sides(&operations), [(3, 0x3, 0x10), (5, 0, 0x20)]);
        let line = &lines(operations.iter())[0];
        assert_eq!(line.sides[0].writers, [3], "each address once");
    }

    #[test]
    fn the_holder_of_a_line_made_the_same_accesses_as_its_only_known_user() {
        assert_eq!(sides(&[operation(3, 0x1, 0x10)]), [(3, 0x1, 0x10), (4, 0x1, 0x10)]);
    }

    #[test]
    fn bytes_that_all_cpus_only_read_count_as_written() {
        let operations = [operation(3, 0xf, 0), operation(5, 0xf0, 0)];
        assert_eq!(sides(&operations), [(3, 0xf, 0xf), (5, 0xf0, 0xf0)]);
    }
}
