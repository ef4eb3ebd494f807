//! Kernel facilities, tried rather than guessed.
//!
//! Whether a facility works depends on the kernel's configuration, on privileges, on seccomp
//! filters and on the hypervisor; the only reliable answer is that of the call itself. Every
//! probe undoes what it did.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// An event that `perf_event_open(2)` can count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PerfEvent {
    /// CPU cycles in user and kernel mode, from the processor's counters.
    Cycles,
    /// CPU cycles in user mode only, which needs less privilege.
    UserCycles,
    /// The scheduler's clock, which every machine has.
    CpuClock,
    /// The same in user mode only.
    UserCpuClock,
}

/// The start of `struct perf_event_attr` (PERF_ATTR_SIZE_VER0, which every kernel accepts).
#[repr(C)]
#[derive(Default)]
struct PerfEventAttr {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_events: u32,
    bp_type: u32,
    bp_addr: u64,
}

const PERF_TYPE_HARDWARE: u32 = 0;
const PERF_TYPE_SOFTWARE: u32 = 1;
const PERF_COUNT_HW_CPU_CYCLES: u64 = 0;
const PERF_COUNT_SW_CPU_CLOCK: u64 = 0;
const PERF_FLAG_DISABLED: u64 = 1;
const PERF_FLAG_EXCLUDE_KERNEL: u64 = 1 << 5;
const PERF_FLAG_EXCLUDE_HV: u64 = 1 << 6;

/// Opens a counter of `event` for this process.
///
/// # Errors
/// What the kernel says: `ENOENT` where the machine has no such counter, `EACCES` or `EPERM`
/// where `perf_event_paranoid` or a sandbox forbids it, `ENOSYS` where it is not built in.
pub fn perf_event(event: PerfEvent) -> io::Result<()> {
    let (kind, config) = match event {
        PerfEvent::Cycles | PerfEvent::UserCycles => (PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES),
        PerfEvent::CpuClock | PerfEvent::UserCpuClock => {
            (PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK)
        }
    };
    let user_only = matches!(event, PerfEvent::UserCycles | PerfEvent::UserCpuClock);
    let attr = PerfEventAttr {
        kind,
        size: size_of::<PerfEventAttr>() as u32,
        config,
        flags: PERF_FLAG_DISABLED
            | if user_only { PERF_FLAG_EXCLUDE_KERNEL | PERF_FLAG_EXCLUDE_HV } else { 0 },
        ..PerfEventAttr::default()
    };
    let (this_process, any_cpu, no_group, no_flags) = (0, -1, -1, 0_u64);
    // SAFETY: the kernel reads `attr.size` bytes of `attr`, which is exactly that long and
    // outlives the call.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attr,
            this_process,
            any_cpu,
            no_group,
            no_flags,
        )
    };
    close(fd)
}

/// Creates a BPF array map of one element.
///
/// # Errors
/// `EPERM` without the privilege (CAP_BPF), `ENOSYS` where it is not built in.
pub fn bpf() -> io::Result<()> {
    /// The start of `union bpf_attr` for `BPF_MAP_CREATE`.
    #[repr(C)]
    struct MapAttr {
        map_type: u32,
        key_size: u32,
        value_size: u32,
        max_entries: u32,
    }
    const BPF_MAP_CREATE: libc::c_int = 0;
    const BPF_MAP_TYPE_ARRAY: u32 = 2;

    let attr = MapAttr { map_type: BPF_MAP_TYPE_ARRAY, key_size: 4, value_size: 4, max_entries: 1 };
    // SAFETY: the kernel reads as many bytes of `attr` as it is told, and takes the rest of
    // the union as zero.
    let fd = unsafe {
        libc::syscall(libc::SYS_bpf, BPF_MAP_CREATE, &raw const attr, size_of::<MapAttr>())
    };
    close(fd)
}

/// Whether `membarrier(2)` offers the expedited private barrier that asymmetric fences use.
///
/// # Errors
/// `ENOSYS` where it is not built in or filtered; `EOPNOTSUPP` where that command is missing.
pub fn membarrier() -> io::Result<()> {
    // SAFETY: the query takes no pointers and changes nothing.
    let commands = unsafe { libc::syscall(libc::SYS_membarrier, libc::MEMBARRIER_CMD_QUERY, 0, 0) };
    if commands < 0 {
        return Err(io::Error::last_os_error());
    }
    match commands & libc::c_long::from(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED) {
        0 => Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP)),
        _ => Ok(()),
    }
}

/// Turns the result of a call that opens a descriptor into a result without one.
fn close(fd: libc::c_long) -> io::Result<()> {
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just handed the descriptor to us, and nobody else has it.
    drop(unsafe { OwnedFd::from_raw_fd(fd as RawFd) });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_files() -> usize {
        std::fs::read_dir("/proc/self/fd").unwrap().count()
    }

    #[test]
    fn probes_answer_and_close_what_they_open() {
        let probe_all = || {
            let _ = perf_event(PerfEvent::Cycles);
            let _ = perf_event(PerfEvent::UserCpuClock);
            let _ = bpf();
            let _ = membarrier();
        };
        probe_all();
        // Other tests open files at the same time; a leak of 4 a round would stand out.
        let before = open_files();
        (0..50).for_each(|_| probe_all());
        assert!(open_files() < before + 50);
    }
}
