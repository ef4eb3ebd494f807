//! Results as the plugin writes them, a line of JSON each. The schema is documented where it is
//! written, in the module `output` of crate knee-plugin.

use serde::{Deserialize, Deserializer};

use crate::datum::Datum;

/// Version of the schema that is read.
const SCHEMA: u32 = 1;

/// A line that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the plugin wrote what is no result ({reason}): {line}")]
pub struct RecordError {
    line: String,
    reason: String,
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// A test that has ended.
    Test(TestResult),
    /// An access of the test that is traced.
    Access(TracedAccess),
    /// The first line.
    Header(Header),
}

impl Record {
    /// Reads a line.
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
        let wrong = |wrong: serde_json::Error| error(wrong.to_string());
        // The plugin writes the first field first.
        if line.starts_with(r#"{"test""#) {
            return serde_json::from_str(line).map(Record::Test).map_err(wrong);
        }
        if line.starts_with(r#"{"trace""#) {
            return serde_json::from_str(line).map(Record::Access).map_err(wrong);
        }
        match serde_json::from_str(line).map_err(wrong)? {
            Header { schema, .. } if schema != SCHEMA => {
                Err(error(format!("schema {schema} is not {SCHEMA}, which this knee reads")))
            }
            header => Ok(Record::Header(header)),
        }
    }
}

/// What the plugin knows when tests begin.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Header {
    /// Version of the schema.
    pub schema: u32,
    /// Whether what happens in user mode counts.
    pub user: bool,
    /// Addresses at which interrupts enter the kernel; without, their accesses are not left out.
    pub interrupts: usize,
    /// Addresses at which exceptions enter.
    pub faults: usize,
    /// Addresses at which tasks are switched; without, other tasks are not left out.
    pub switches: usize,
}

/// What a test showed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TestResult {
    /// How many tests began before it in this guest.
    pub test: u64,
    /// The sides that opened a window.
    pub sides: Vec<Side>,
    /// Lines that two sides touched and one wrote.
    pub conflicts: Vec<Conflict>,
    /// Conflicts that are not listed.
    pub more: u64,
    /// Marks that came out of order.
    pub stray: u64,
    /// Lines that the sides wrote and that other CPUs had; 0 unless [`crate::Tracing::moves`] is set,
    /// as the two below.
    #[serde(default)]
    pub taken: u64,
    /// Lines that the sides only read and that another CPU had modified.
    #[serde(default)]
    pub fetched: u64,
    /// The first thousand of these lines.
    #[serde(default)]
    pub moves: Vec<Move>,
}

impl TestResult {
    /// Whether the sides share no line that one of them writes.
    pub fn is_conflict_free(&self) -> bool {
        self.conflicts.is_empty()
    }

    /// Whether an interrupt came inside a window; it was left out.
    pub fn is_interrupted(&self) -> bool {
        self.sides.iter().any(|side| side.interrupts > 0)
    }

    /// Whether a side was switched out inside its window: what the scheduler did counts too.
    pub fn is_disturbed(&self) -> bool {
        self.sides.iter().any(|side| side.switches > 0)
    }

    /// Whether the guest stands still after it, with [`crate::Tracing::pause`].
    pub fn is_awaited(&self) -> bool {
        !self.is_conflict_free() || self.is_disturbed()
    }

    /// Whether something is missing.
    pub fn is_incomplete(&self) -> bool {
        let lacks =
            |side: &Side| side.unresolved > 0 || side.overflowed || side.closed != side.opened;
        self.stray > 0 || self.sides.iter().any(lacks)
    }
}

/// What a side did.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Side {
    /// Its number.
    pub side: usize,
    /// The virtual CPU that it ran on.
    pub cpu: u32,
    /// Windows that were opened.
    pub opened: u32,
    /// … and closed.
    pub closed: u32,
    /// Instructions executed; see crate knee-plugin for how exact that is.
    pub instructions: u64,
    /// Accesses to memory.
    pub accesses: u64,
    /// Distinct lines read.
    pub read: usize,
    /// Distinct lines written.
    pub written: usize,
    /// Interrupts that were left out.
    pub interrupts: u64,
    /// How often the task was switched out.
    pub switches: u64,
    /// Accesses whose physical address QEMU did not know.
    pub unresolved: u64,
    /// More lines than there is room for.
    pub overflowed: bool,
}

/// A line that sides share.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Conflict {
    /// Physical address of its first byte.
    #[serde(deserialize_with = "address")]
    pub line: u64,
    /// Whether one side touched a byte that another wrote; otherwise it is false sharing.
    pub overlap: bool,
    /// The sides that touched it.
    pub sides: Vec<Touch>,
    /// What the kernel has there, once a [`Resolver`](crate::Resolver) has been asked.
    #[serde(skip)]
    pub datum: Option<Datum>,
}

impl Conflict {
    /// Bytes that one side wrote and another touched, as a mask: none with false sharing.
    pub(crate) fn shared_bytes(&self) -> u64 {
        let (mut written, mut touched, mut by_several) = (0, 0, 0);
        for side in &self.sides {
            written |= side.written;
            by_several |= touched & (side.read | side.written);
            touched |= side.read | side.written;
        }
        by_several & written
    }
}

/// What a side did to a line.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Touch {
    /// The side.
    pub side: usize,
    /// First byte of the line that it touched.
    pub first: u32,
    /// Last byte.
    pub last: u32,
    /// Bit n: it read byte n.
    #[serde(deserialize_with = "address")]
    pub read: u64,
    /// Bit n: it wrote byte n.
    #[serde(deserialize_with = "address")]
    pub written: u64,
    /// Virtual addresses of the line's first byte.
    #[serde(rename = "virtual", deserialize_with = "addresses")]
    pub virtuals: Vec<u64>,
    /// Code that wrote the line.
    #[serde(deserialize_with = "addresses")]
    pub writers: Vec<u64>,
    /// Code that read the line.
    #[serde(deserialize_with = "addresses")]
    pub readers: Vec<u64>,
}

/// A line that a side had to get from other CPUs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Move {
    /// Physical address of its first byte.
    #[serde(deserialize_with = "address")]
    pub line: u64,
    /// Whether the side wrote it; otherwise it read what another had modified.
    pub taken: bool,
    /// Bit n: virtual CPU n had it.
    #[serde(deserialize_with = "address")]
    pub from: u64,
    /// What the side did to it.
    pub by: Touch,
}

/// One access to memory.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TracedAccess {
    /// The test.
    pub trace: u64,
    /// The side.
    pub side: usize,
    /// Where the code is.
    #[serde(deserialize_with = "address")]
    pub pc: u64,
    /// Virtual address.
    #[serde(rename = "virtual", deserialize_with = "address")]
    pub address: u64,
    /// Physical address.
    #[serde(deserialize_with = "address")]
    pub physical: u64,
    /// How many.
    pub bytes: u64,
    /// Whether it wrote.
    pub store: bool,
}

fn hexadecimal<E: serde::de::Error>(text: &str) -> Result<u64, E> {
    let digits = text.strip_prefix("0x").unwrap_or_default();
    u64::from_str_radix(digits, 16).map_err(|_| E::custom(format!("{text} is no address")))
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    hexadecimal(&String::deserialize(from)?)
}

fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
    Vec::<String>::deserialize(from)?.iter().map(|text| hexadecimal(text)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What the plugin writes of a test whose sides share a line.
    const TEST: &str = r#"{"test":7,"sides":[{"side":0,"cpu":0,"opened":1,"closed":1,"instructions":0,"accesses":0,"read":0,"written":1,"interrupts":0,"switches":0,"unresolved":0,"overflowed":false}],"conflicts":[{"line":"0x1040","overlap":true,"sides":[{"side":0,"first":4,"last":7,"read":"0x0","written":"0xf0","virtual":["0xffff888000001040"],"writers":["0xffffffff81000000"],"readers":[]}]}],"more":0,"stray":1}"#;

    #[test]
    fn a_line_of_another_schema_is_refused() {
        let line =
            r#"{"schema":2,"plugin":"knee","user":false,"interrupts":1,"faults":1,"switches":1}"#;
        let error = Record::parse(line).unwrap_err().to_string();
        assert!(error.contains("schema 2 is not 1"), "{error}");
    }

    #[test]
    fn half_a_line_is_refused() {
        assert!(Record::parse(r#"{"test":1,"sides":["#).is_err());
    }

    proptest! {
        #[test]
        fn a_line_that_lacks_a_piece_or_has_another_is_refused_or_read(
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
