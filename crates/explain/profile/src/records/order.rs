//! Sorts the records of all CPUs by time. Each CPU has a buffer of its own.

use linux_perf_event_reader::{RawData, RawEventRecord, RecordParseInfo, RecordType};

/// Size of a record's header: its type, flags and length.
const HEADER: usize = 8;

/// Sorts the records of several buffers.
///
/// All buffers are read once per round. The records of a round can be handed on at the end of the next one,
/// because no older records can arrive then.
#[derive(Debug)]
pub(crate) struct InOrder {
    info: RecordParseInfo,
    bytes: Vec<u8>,
    /// Time, offset and length of records.
    waiting: Vec<(u64, usize, usize)>,
}

impl InOrder {
    pub(crate) fn new(info: RecordParseInfo) -> InOrder {
        InOrder { info, bytes: Vec::new(), waiting: Vec::new() }
    }

    /// Takes in records of one buffer. Returns whether they could be read.
    pub(crate) fn push(&mut self, mut records: &[u8]) -> bool {
        while !records.is_empty() {
            let length = records.get(6..HEADER).map(|two| u16::from_ne_bytes([two[0], two[1]]));
            let length = length.map_or(0, usize::from);
            if length < HEADER || length > records.len() {
                return false;
            }
            let (record, rest) = records.split_at(length);
            let time = self.raw(record).timestamp().unwrap_or(0);
            self.waiting.push((time, self.bytes.len(), length));
            self.bytes.extend_from_slice(record);
            records = rest;
        }
        true
    }

    fn raw<'a>(&self, record: &'a [u8]) -> RawEventRecord<'a> {
        let kind = u32::from_ne_bytes([record[0], record[1], record[2], record[3]]);
        let misc = u16::from_ne_bytes([record[4], record[5]]);
        let body = RawData::from(&record[HEADER..]);
        RawEventRecord::new(RecordType(kind), misc, body, self.info)
    }

    /// Hands on records up to a time, in order.
    pub(crate) fn hand_on(&mut self, until: u64, mut with: impl FnMut(RawEventRecord<'_>)) {
        // The sort is stable: records of one buffer with the same time keep their order.
        self.waiting.sort_by_key(|record| record.0);
        let count = self.waiting.partition_point(|record| record.0 <= until);
        for &(_, start, length) in &self.waiting[..count] {
            with(self.raw(&self.bytes[start..start + length]));
        }
        self.waiting.drain(..count);
        let mut left = Vec::new();
        for record in &mut self.waiting {
            let start = left.len();
            left.extend_from_slice(&self.bytes[record.1..record.1 + record.2]);
            record.1 = start;
        }
        self.bytes = left;
    }
}
