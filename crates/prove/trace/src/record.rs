//! The plugin's results, one line of JSON each. The `output` module of the knee-plugin crate writes the
//! results and documents their schema.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use crate::datum::{Datum, FalselyShared};

/// A side that enters the kernel executes at least this many instructions: Linux executes about 60
/// between `entry_SYSCALL_64` and the system call's own code, and about as many after it.
pub(crate) const LEAST_INSTRUCTIONS: u64 = 50;
/// The version of the schema that this code reads.
const SCHEMA: u32 = 1;

/// The error for a line of the plugin's output that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the plugin wrote a line that is not a result ({reason}): {line}")]
pub struct RecordError {
    line: String,
    reason: String,
}

/// A line of the plugin's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// The result of a test.
    Test(TestResult),
    /// An access of the traced test.
    Access(TracedAccess),
    /// A batch of work that operations deferred and that a CPU has now done. [`TestResult::test`] is the
    /// number of tests that had begun when the batch ended.
    Deferred(TestResult),
    /// The first line of the output.
    Header(Header),
}

impl Record {
    /// Parses a line.
    ///
    /// ```
    /// use knee_trace::Record;
    ///
    /// let line = r#"{"test":3,"sides":[],"conflicts":[],"more":0,"stray":0}"#;
    /// let Record::Test(result) = Record::parse(line).unwrap() else { panic!() };
    /// assert_eq!(result.test, 3);
    /// assert!(result.is_conflict_free() && !result.is_disturbed());
    /// ```
    pub fn parse(line: &str) -> Result<Record, RecordError> {
        let error = |reason: String| RecordError { line: line.to_owned(), reason };
        let parse_error = |parse_error: serde_json::Error| error(parse_error.to_string());
        // The plugin always writes these fields first.
        if line.starts_with(r#"{"deferred""#) {
            return serde_json::from_str(line).map(Record::Deferred).map_err(parse_error);
        }
        if line.starts_with(r#"{"test""#) {
            return serde_json::from_str(line).map(Record::Test).map_err(parse_error);
        }
        if line.starts_with(r#"{"trace""#) {
            return serde_json::from_str(line).map(Record::Access).map_err(parse_error);
        }
        match serde_json::from_str(line).map_err(parse_error)? {
            Header { schema, .. } if schema != SCHEMA => Err(error(format!(
                "it has schema {schema}, but this version of knee reads {SCHEMA}"
            ))),
            header => Ok(Record::Header(header)),
        }
    }
}

/// What the plugin knows when the tests begin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Header {
    /// Version of the schema.
    pub schema: u32,
    /// Whether user mode is traced.
    pub user: bool,
    /// The number of addresses at which interrupts enter the kernel. If this number is 0, the plugin counts
    /// accesses by interrupts as accesses of operations.
    pub interrupts: usize,
    /// The number of addresses at which exceptions enter the kernel.
    pub faults: usize,
    /// The number of addresses at which the kernel switches tasks. If this number is 0, the plugin counts
    /// accesses by other tasks as accesses of operations.
    pub switches: usize,
}

/// The plugin's result for a test.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TestResult {
    /// The number of tests that began in the guest before this test.
    #[serde(alias = "deferred")]
    pub test: u64,
    /// The sides that opened a window.
    pub sides: Vec<Side>,
    /// Lines that at least two sides touched and at least one side wrote.
    pub conflicts: Vec<Conflict>,
    /// The number of conflicts that are not listed.
    pub more: u64,
    /// The number of marks that were out of order.
    pub stray: u64,
    /// The number of lines that the sides wrote while other CPUs had them in their caches. This field and the
    /// next two are filled only if [`crate::Tracing::moves`] is set.
    #[serde(default)]
    pub taken: u64,
    /// The number of lines that the sides only read, after another CPU had modified them.
    #[serde(default)]
    pub fetched: u64,
    /// The first thousand of the lines that `taken` and `fetched` count.
    #[serde(default)]
    pub moves: Vec<Move>,
    /// Each side's accesses to lines that have moved between CPUs, in order. Filled only if
    /// [`crate::Tracing::accesses`] is set.
    #[serde(default)]
    pub accesses: Vec<SharedAccesses>,
    /// Whether a side made a system call but executed fewer instructions than a system call takes. If so,
    /// QEMU did not report everything to the plugin.
    #[serde(skip)]
    pub impossible: bool,
}

impl TestResult {
    /// Whether no side wrote a line that another side touched.
    pub fn is_conflict_free(&self) -> bool {
        self.conflicts.is_empty()
    }

    /// Whether an interrupt arrived inside a window. The interrupt's accesses were left out.
    pub fn is_interrupted(&self) -> bool {
        self.sides.iter().any(|side| side.interrupts > 0)
    }

    /// Whether a side was switched out inside its window. The accesses of such a side include accesses by the
    /// scheduler.
    pub fn is_disturbed(&self) -> bool {
        self.sides.iter().any(|side| side.switches > 0)
    }

    /// Whether this test makes the guest pause when [`crate::Tracing::pause`] is set.
    pub fn is_awaited(&self) -> bool {
        !self.is_conflict_free() || self.is_disturbed()
    }

    /// Whether the plugin missed accesses, windows or marks.
    pub fn is_incomplete(&self) -> bool {
        let is_incomplete =
            |side: &Side| side.unresolved > 0 || side.overflowed || side.closed != side.opened;
        self.impossible || self.stray > 0 || self.sides.iter().any(is_incomplete)
    }

    /// Sets `impossible` if a side of `sides` opened no window, or executed fewer instructions than a system
    /// call takes. `sides` are the sides that make system calls.
    pub(crate) fn expect_system_calls(&mut self, sides: impl IntoIterator<Item = usize>) {
        let is_possible = |number| {
            let side = self.sides.iter().find(|side| side.side == number);
            side.is_some_and(|side| side.instructions >= LEAST_INSTRUCTIONS)
        };
        self.impossible = !sides.into_iter().all(is_possible);
    }
}

/// What a side did.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Side {
    /// Its number.
    pub side: usize,
    /// The virtual CPU that the side ran on.
    pub cpu: u32,
    /// The number of windows that the side opened.
    pub opened: u32,
    /// The number of windows that the side closed.
    pub closed: u32,
    /// The number of executed instructions; the knee-plugin crate documents how exact this number is.
    pub instructions: u64,
    /// The number of memory accesses.
    pub accesses: u64,
    /// The number of distinct lines that the side read.
    pub read: usize,
    /// The number of distinct lines that the side wrote.
    pub written: usize,
    /// The number of interrupts that the other figures leave out.
    pub interrupts: u64,
    /// The number of times that the task was switched out.
    pub switches: u64,
    /// The number of accesses whose physical address QEMU did not know.
    pub unresolved: u64,
    /// Whether the side accessed more lines than the plugin has room for.
    pub overflowed: bool,
}

/// A line that several sides share.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Conflict {
    /// Physical address of the line's first byte.
    #[serde(deserialize_with = "address")]
    pub line: u64,
    /// Whether one side touched a byte that another side wrote. If not, the conflict is false sharing.
    pub overlap: bool,
    /// The accesses of the sides that touched the line.
    pub sides: Vec<Touch>,
    /// The data in the line, once a [`Resolver`](crate::Resolver) has named them.
    #[serde(skip)]
    pub datum: Option<Datum>,
    /// Whether this is false sharing that depends on the address of an object, as far as a
    /// [`Resolver`](crate::Resolver) can tell.
    #[serde(skip)]
    pub by_position: bool,
    /// For false sharing of fields of one object: the object, if a [`Resolver`](crate::Resolver) knows its type.
    #[serde(skip)]
    pub object: Option<FalselyShared>,
}

impl Conflict {
    /// The mask of the bytes that one side wrote and another side touched; 0 for false sharing.
    pub(crate) fn shared_bytes(&self) -> u64 {
        let (mut written, mut touched, mut by_several) = (0, 0, 0);
        for side in &self.sides {
            written |= side.written;
            by_several |= touched & (side.read | side.written);
            touched |= side.read | side.written;
        }
        by_several & written
    }

    /// The side that wrote the first of the written bytes; `None` if no side wrote.
    pub(crate) fn first_writer(&self) -> Option<&Touch> {
        let writers = self.sides.iter().filter(|side| side.written != 0);
        writers.min_by_key(|side| side.written.trailing_zeros())
    }
}

/// A side's accesses to a line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Touch {
    /// The side.
    pub side: usize,
    /// The first byte that the side touched in the line.
    pub first: u32,
    /// The last byte that the side touched in the line.
    pub last: u32,
    /// Bit n is set if the side read byte n.
    #[serde(deserialize_with = "address")]
    pub read: u64,
    /// Bit n is set if the side wrote byte n.
    #[serde(deserialize_with = "address")]
    pub written: u64,
    /// Virtual addresses of the line's first byte.
    #[serde(rename = "virtual", deserialize_with = "addresses")]
    pub virtuals: Vec<u64>,
    /// Addresses of the code that wrote the line.
    #[serde(deserialize_with = "addresses")]
    pub writers: Vec<u64>,
    /// Addresses of the code that read the line.
    #[serde(deserialize_with = "addresses")]
    pub readers: Vec<u64>,
    /// For each writer and then each reader, the call path of its first access: the addresses of the
    /// calls that led to it, the innermost first. Outer calls may be missing.
    #[serde(default, deserialize_with = "chains")]
    pub callers: Vec<Vec<u64>>,
}

impl Touch {
    /// The code that wrote the line, with its callers.
    pub fn called_writers(&self) -> impl Iterator<Item = (u64, &[u64])> {
        called(&self.writers, &self.callers)
    }

    /// The code that read the line, with its callers.
    pub fn called_readers(&self) -> impl Iterator<Item = (u64, &[u64])> {
        called(&self.readers, self.callers.get(self.writers.len()..).unwrap_or_default())
    }

    /// The addresses of all writers, readers and callers.
    pub(crate) fn all_code(&self) -> impl Iterator<Item = u64> {
        let touching = self.writers.iter().chain(&self.readers);
        touching.chain(self.callers.iter().flatten()).copied()
    }
}

fn called<'t>(code: &'t [u64], callers: &'t [Vec<u64>]) -> impl Iterator<Item = (u64, &'t [u64])> {
    let callers = callers.iter().map(Vec::as_slice).chain(std::iter::repeat(&[][..]));
    code.iter().copied().zip(callers)
}

/// A line that moved to a side from other CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Move {
    /// Physical address of the line's first byte.
    #[serde(deserialize_with = "address")]
    pub line: u64,
    /// Whether the side wrote the line. If false, the side only read the line, which another CPU had modified
    /// before.
    pub taken: bool,
    /// Bit n is set if virtual CPU n had the line in its cache.
    #[serde(deserialize_with = "address")]
    pub from: u64,
    /// The side's accesses to the line.
    pub by: Touch,
}

/// A side's accesses to lines that have moved between CPUs since the experiment began, or that move in this
/// test.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "AccessList")]
pub struct SharedAccesses {
    /// The side.
    pub side: usize,
    /// Whether later accesses are missing, because the side made more accesses than the plugin lists.
    pub cut: bool,
    /// The accesses, in the order of their execution.
    pub list: Vec<SharedAccess>,
}

/// The accesses of one instruction to one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedAccess {
    /// The number of instructions that the side executed before this one.
    pub at: u64,
    /// Physical address of the line's first byte.
    pub line: u64,
    /// Address of the instruction.
    pub pc: u64,
    /// The offset of the first accessed byte in the line.
    pub offset: u8,
    /// The number of bytes.
    pub bytes: u8,
    /// The kind of the access.
    pub kind: AccessKind,
}

/// How an instruction accesses memory, from the weakest kind to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AccessKind {
    /// It only reads.
    Load,
    /// It writes, perhaps after a read, but not atomically.
    Store,
    /// It reads and writes atomically.
    Atomic,
    /// It writes atomically if the memory contains an expected value.
    CompareExchange,
}

impl AccessKind {
    /// Whether the instruction is atomic.
    pub fn is_atomic(self) -> bool {
        self >= AccessKind::Atomic
    }
}

/// Accesses as the plugin writes them.
#[derive(Deserialize)]
struct AccessList {
    side: usize,
    cut: bool,
    #[serde(deserialize_with = "addresses")]
    lines: Vec<u64>,
    #[serde(deserialize_with = "addresses")]
    code: Vec<u64>,
    /// The position, the index of the line, the first byte, the number of bytes, the index of the code, and
    /// the kind.
    list: Vec<(u64, usize, u8, u8, usize, u8)>,
}

impl TryFrom<AccessList> for SharedAccesses {
    type Error = &'static str;

    fn try_from(from: AccessList) -> Result<SharedAccesses, Self::Error> {
        let AccessList { side, cut, lines, code, list } = from;
        let access = |(at, line, offset, bytes, pc, kind): (u64, usize, u8, u8, usize, u8)| {
            let kind = match kind {
                0 => AccessKind::Load,
                1 => AccessKind::Store,
                2 => AccessKind::Atomic,
                3 => AccessKind::CompareExchange,
                _ => return Err("an access has an unknown kind"),
            };
            let line = *lines.get(line).ok_or("an access has no line")?;
            let pc = *code.get(pc).ok_or("an access has no code")?;
            Ok(SharedAccess { at, line, pc, offset, bytes, kind })
        };
        let list = list.into_iter().map(access).collect::<Result<_, _>>()?;
        Ok(SharedAccesses { side, cut, list })
    }
}

/// One access to memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TracedAccess {
    /// The test.
    pub trace: u64,
    /// The side.
    pub side: usize,
    /// Address of the code.
    #[serde(deserialize_with = "address")]
    pub pc: u64,
    /// Virtual address.
    #[serde(rename = "virtual", deserialize_with = "address")]
    pub address: u64,
    /// Physical address.
    #[serde(deserialize_with = "address")]
    pub physical: u64,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether the access is a store.
    pub store: bool,
}

/// An address as the plugin writes it, `"0x…"`. Records contain thousands of addresses, so parsing an address
/// copies no text.
struct Address(u64);

impl<'de> Deserialize<'de> for Address {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        let text = <&str>::deserialize(from)?;
        let digits = text.strip_prefix("0x").unwrap_or_default();
        let no_address = |_| D::Error::custom(format!("{text} is not an address"));
        u64::from_str_radix(digits, 16).map(Address).map_err(no_address)
    }
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    Address::deserialize(from).map(|Address(address)| address)
}

fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    Ok(Vec::deserialize(from)?.into_iter().map(|Address(address)| address).collect())
}

fn chains<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Vec<u64>>, D::Error> {
    #[derive(Deserialize)]
    struct Chain(#[serde(deserialize_with = "addresses")] Vec<u64>);
    Ok(Vec::deserialize(from)?.into_iter().map(|Chain(callers)| callers).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The plugin's line for a test with a conflict.
    const TEST: &str = r#"{"test":7,"sides":[{"side":0,"cpu":0,"opened":1,"closed":1,"instructions":0,"accesses":0,"read":0,"written":1,"interrupts":0,"switches":0,"unresolved":0,"overflowed":false}],"conflicts":[{"line":"0x1040","overlap":true,"sides":[{"side":0,"first":4,"last":7,"read":"0x0","written":"0xf0","virtual":["0xffff888000001040"],"writers":["0xffffffff81000000"],"readers":[],"callers":[["0xffffffff81000100","0xffffffff81000200"]]}]}],"more":0,"stray":1}"#;

    #[test]
    fn a_system_call_of_too_few_instructions_makes_a_result_incomplete() {
        let Ok(Record::Test(mut result)) =
            Record::parse(&TEST.replace(r#""stray":1"#, r#""stray":0"#))
        else {
            panic!("a test")
        };
        result.expect_system_calls([]);
        assert!(!result.is_incomplete(), "a side may stay in user mode");
        result.expect_system_calls([0]);
        assert!(result.is_incomplete());
        result.sides[0].instructions = LEAST_INSTRUCTIONS;
        result.expect_system_calls([0]);
        assert!(!result.is_incomplete());
        result.expect_system_calls([0, 1]);
        assert!(result.is_incomplete(), "a side is missing");
    }

    #[test]
    fn a_line_of_another_schema_is_refused() {
        let line =
            r#"{"schema":2,"plugin":"knee","user":false,"interrupts":1,"faults":1,"switches":1}"#;
        let error = Record::parse(line).unwrap_err().to_string();
        assert!(error.contains("it has schema 2, but this version of knee reads 1"), "{error}");
    }

    #[test]
    fn accesses_refer_to_their_lines_and_code_by_index() {
        let with = |list: &str| {
            let list = format!(
                r#"{{"side":0,"cut":true,"lines":["0x1000","0x1040"],"code":["0x9"],"list":[{list}]}}"#
            );
            Record::parse(
                &TEST.replace(r#""stray":1"#, &format!(r#""stray":1,"accesses":[{list}]"#)),
            )
        };
        let Ok(Record::Test(result)) = with("[24,1,4,8,0,3]") else { panic!("a test") };
        let kind = AccessKind::CompareExchange;
        let access = SharedAccess { at: 24, line: 0x1040, pc: 9, offset: 4, bytes: 8, kind };
        assert_eq!(result.accesses, [SharedAccesses { side: 0, cut: true, list: vec![access] }]);
        for (list, why) in [
            ("[24,2,4,8,0,3]", "an access has no line"),
            ("[24,1,4,8,1,3]", "an access has no code"),
            ("[24,1,4,8,0,4]", "an access has an unknown kind"),
        ] {
            let error = with(list).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn half_a_line_is_refused() {
        assert!(Record::parse(r#"{"test":1,"sides":["#).is_err());
    }

    #[test]
    fn code_is_returned_with_its_recorded_callers() {
        let touch = |callers: &str| -> Touch {
            let line = TEST.replace(r#""readers":[]"#, r#""readers":["0x3"]"#);
            let known = r#","callers":[["0xffffffff81000100","0xffffffff81000200"]]"#;
            let line = line.replace(known, callers);
            let Ok(Record::Test(mut result)) = Record::parse(&line) else { panic!("{line}") };
            result.conflicts.remove(0).sides.remove(0)
        };
        let with_callers = touch(r#","callers":[["0x1","0x2"],["0x4"]]"#);
        let writer: (u64, &[u64]) = (0xffff_ffff_8100_0000, &[1, 2]);
        assert!(with_callers.called_writers().eq([writer]));
        assert!(with_callers.called_readers().eq([(3, &[4][..])]));
        let without_callers = touch("");
        assert!(without_callers.called_writers().eq([(writer.0, &[][..])]));
        assert!(without_callers.called_readers().eq([(3, &[][..])]));
    }

    proptest! {
        #[test]
        fn the_error_for_a_damaged_line_contains_the_line(
            from in 0..TEST.len(), length in 0..40_usize, other in "\\PC{0,6}"
        ) {
            let cut = &TEST[(from + length).min(TEST.len())..];
            let line = format!("{}{other}{cut}", &TEST[..from]);
            if let Err(error) = Record::parse(&line) {
                prop_assert!(error.to_string().contains(&line), "{error}");
            }
        }
    }
}
