//! What a side of a test did.

use crate::calls::Calls;
use crate::lines::{Access, LineTable};
use crate::pages::Pages;
use crate::qemu::{AccessInfo, Physical};

/// A trace is cut here, at 40 MiB.
const MAX_TRACE: usize = 1 << 20;

/// What a side of a test did.
pub(crate) struct Side {
    pub(crate) table: LineTable,
    pub(crate) count: Count,
    pub(crate) calls: Calls,
    /// All accesses, if the test is traced.
    pub(crate) trace: Option<Vec<Access>>,
}

/// … in numbers.
#[derive(Default)]
pub(crate) struct Count {
    /// The virtual CPU whose window opened last.
    pub(crate) cpu: u32,
    /// Windows opened, and closed again.
    pub(crate) opened: u32,
    pub(crate) closed: u32,
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    /// Interrupts that were left out.
    pub(crate) interrupts: u64,
    /// How often the task was switched out. What it does before and after counts.
    pub(crate) switches: u64,
    /// Accesses whose physical address QEMU did not know; they are missing.
    pub(crate) unresolved: u64,
}

impl Side {
    pub(crate) fn new() -> Side {
        let (table, count, calls) = (LineTable::new(), Count::default(), Calls::new());
        Side { table, count, calls, trace: None }
    }

    /// Clears it for a new test, and keeps the memory.
    pub(crate) fn clear(&mut self, trace: bool) {
        self.table.clear();
        self.count = Count::default();
        self.calls.clear();
        self.trace = trace.then(Vec::new);
    }

    /// Enters an access within a page.
    #[inline]
    pub(crate) fn access(
        &mut self,
        pages: &mut Pages,
        info: AccessInfo,
        address: u64,
        bytes: u64,
        pc: u64,
    ) {
        match pages.physical(info, address) {
            Physical::Memory(physical) => {
                self.add(&Access { physical, address, bytes, pc, store: info.is_store() });
            }
            Physical::Device => {}
            Physical::Unknown => self.count.unresolved += 1,
        }
    }

    #[inline]
    fn add(&mut self, access: &Access) {
        self.table.add(access, || self.calls.chain());
        if let Some(trace) = self.trace.as_mut().filter(|trace| trace.len() < MAX_TRACE) {
            trace.push(*access);
        }
    }
}
