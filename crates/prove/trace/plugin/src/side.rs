//! What the plugin records about one side of a test: the accesses in the side's windows.

use crate::calls::Calls;
use crate::lines::{Access, LineTable};
use crate::log::Log;
use crate::pages::Pages;
use crate::place::Place;
use crate::qemu::{AccessInfo, Physical};

/// The maximum number of accesses in a trace. A trace of this length takes 40 MiB.
const MAX_TRACE: usize = 1 << 20;

/// What the plugin records about one side of a test: the accesses in the side's windows.
pub(crate) struct Side {
    pub(crate) table: LineTable,
    pub(crate) count: Count,
    pub(crate) calls: Calls,
    /// The accesses of the side, at most [`MAX_TRACE`]; `None` if the test is not traced.
    pub(crate) trace: Option<Vec<Access>>,
    /// With the setting `accesses=on`, the accesses of the side in order; otherwise empty.
    pub(crate) log: Log,
}

/// The counters of a side.
#[derive(Default)]
pub(crate) struct Count {
    /// The virtual CPU on which the side's last window opened.
    pub(crate) cpu: u32,
    /// The number of windows that were opened.
    pub(crate) opened: u32,
    /// The number of windows that were closed.
    pub(crate) closed: u32,
    pub(crate) instructions: u64,
    pub(crate) accesses: u64,
    /// The number of interrupts, whose accesses are ignored.
    pub(crate) interrupts: u64,
    /// The number of times that the task was switched out. The task's accesses before and after a switch are
    /// recorded.
    pub(crate) switches: u64,
    /// The number of accesses whose physical address QEMU did not know. The table does not contain these
    /// accesses.
    pub(crate) unresolved: u64,
}

impl Side {
    pub(crate) fn new() -> Side {
        let (table, count, calls) = (LineTable::new(), Count::default(), Calls::new());
        Side { table, count, calls, trace: None, log: Log::default() }
    }

    /// Clears the side for a new test, and keeps its memory allocated.
    pub(crate) fn clear(&mut self, trace: bool) {
        self.table.clear();
        self.count = Count::default();
        self.calls.clear();
        self.trace = trace.then(Vec::new);
        self.log.clear();
    }

    /// Records an access within a page. Also logs the access if `place` is given.
    #[inline]
    pub(crate) fn access(
        &mut self,
        pages: &mut Pages,
        info: AccessInfo,
        address: u64,
        bytes: u64,
        pc: u64,
        place: Option<&Place>,
    ) {
        match pages.physical(info, address) {
            Physical::Memory(physical) => {
                let access = Access { physical, address, bytes, pc, store: info.is_store() };
                self.add(&access);
                if let Some(place) = place {
                    self.log.add(&access, place, self.count.instructions);
                }
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
