//! Counters as the kernel takes them.

use std::io;
use std::os::fd::OwnedFd;

use perf_event_open_sys::bindings;

use super::counter::Counter;
use crate::perf_event;

/// When counting begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Begin {
    Now,
    /// When the process executes a program.
    AtExec,
}

/// Opens `counter` for the process `pid` and what it creates from now on; for the calling process if it is 0.
pub(super) fn open(
    counter: Counter,
    pid: i32,
    user_only: bool,
    begin: Begin,
) -> io::Result<OwnedFd> {
    let (kind, number) = counter.numbers();
    let mut attr = bindings::perf_event_attr {
        type_: kind,
        config: number,
        // Both are equal unless the processor has fewer counters than needed and the kernel takes turns.
        read_format: u64::from(
            bindings::PERF_FORMAT_TOTAL_TIME_ENABLED | bindings::PERF_FORMAT_TOTAL_TIME_RUNNING,
        ),
        ..bindings::perf_event_attr::default()
    };
    let begins_at_exec = u64::from(begin == Begin::AtExec);
    attr.set_disabled(begins_at_exec);
    attr.set_enable_on_exec(begins_at_exec);
    attr.set_inherit(1);
    attr.set_exclude_kernel(u64::from(user_only));
    attr.set_exclude_hv(u64::from(user_only));
    perf_event::open(&mut attr, pid, -1)
}

impl Counter {
    /// Its type and number in `perf_event_open(2)`.
    fn numbers(self) -> (u32, u64) {
        let hardware = |number: u32| (bindings::PERF_TYPE_HARDWARE, u64::from(number));
        let software = |number: u32| (bindings::PERF_TYPE_SOFTWARE, u64::from(number));
        match self {
            Self::Cycles => hardware(bindings::PERF_COUNT_HW_CPU_CYCLES),
            Self::Instructions => hardware(bindings::PERF_COUNT_HW_INSTRUCTIONS),
            Self::LlcMisses => {
                let read_miss = bindings::PERF_COUNT_HW_CACHE_LL
                    | bindings::PERF_COUNT_HW_CACHE_OP_READ << 8
                    | bindings::PERF_COUNT_HW_CACHE_RESULT_MISS << 16;
                (bindings::PERF_TYPE_HW_CACHE, u64::from(read_miss))
            }
            Self::CacheMisses => hardware(bindings::PERF_COUNT_HW_CACHE_MISSES),
            Self::BranchMisses => hardware(bindings::PERF_COUNT_HW_BRANCH_MISSES),
            Self::ContextSwitches => software(bindings::PERF_COUNT_SW_CONTEXT_SWITCHES),
            Self::CpuMigrations => software(bindings::PERF_COUNT_SW_CPU_MIGRATIONS),
            Self::PageFaults => software(bindings::PERF_COUNT_SW_PAGE_FAULTS),
            Self::TaskClock => software(bindings::PERF_COUNT_SW_TASK_CLOCK),
        }
    }

    /// Whether the processor counts it, and not the kernel.
    pub(super) fn is_of_processor(self) -> bool {
        self.numbers().0 != bindings::PERF_TYPE_SOFTWARE
    }

    /// Whether it happens only in the kernel, so that it is always 0 if only user mode is counted.
    pub(super) fn is_of_kernel(self) -> bool {
        matches!(self, Self::ContextSwitches | Self::CpuMigrations)
    }
}
