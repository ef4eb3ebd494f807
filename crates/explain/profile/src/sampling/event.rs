//! Events of `perf_event_open(2)`.

use std::io;
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use knee_host::CpuList;
use knee_host::perf_event::{open, paranoid};
use linux_perf_event_reader::{Endianness, PerfEventAttr, RecordParseInfo};
use perf_event_open_sys::{bindings, ioctls};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::access::SampleError;
use super::options::Every;
use super::ring::Ring;
use super::target::Target;
use crate::capture::{Clock, Unit};

type Attr = bindings::perf_event_attr;

/// The purpose of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Role {
    /// Records forks, execs, exits and mappings.
    Tracking,
    /// Samples by a clock.
    Sampling,
    /// Records when and where a thread begins to wait for a lock.
    WaitBegin,
    /// Records when a thread ends a wait.
    WaitEnd,
    /// Counts CPU time.
    CpuTime,
}

/// What an event records: a CPU and a role.
pub(super) type Kind = (i32, Role);

/// What to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    /// Samples, at a frequency per second.
    Clock { every: Every, frequency: u64 },
    /// Lock waits, by the IDs of the kernel's tracepoints.
    Waits { begin: u64, end: u64 },
}

/// The configuration that this machine supports.
#[derive(Debug, Clone)]
pub(super) struct Chosen {
    what: What,
    pub(super) ring_bytes: usize,
    pub(super) sees_kernel: bool,
    pub(super) counts_lost: bool,
    on_exec: bool,
    system: bool,
    /// Whether everything that runs on each CPU is sampled, whatever the target.
    pub(super) of_cpus: bool,
    /// Whether new mappings of code are followed while sampling.
    pub(super) follows_code: bool,
}

/// An open event.
#[derive(Debug)]
pub(super) struct Event {
    fd: OwnedFd,
    pub(super) role: Role,
    cpu: i32,
}

/// Finds a configuration that this machine supports, by trying.
///
/// If permitted, events belong to CPUs and sample everything that runs there; other processes are filtered
/// out later. Events of a thread are switched with it, which slows a thread that sleeps and wakes all the
/// time, and a process that lives shorter than the sampling interval gets no samples of its own. Events that
/// record every occurrence belong to threads, because the records of other processes would be too many.
pub(super) fn choose(
    target: &Target,
    asked: What,
    ring_bytes: usize,
) -> Result<Chosen, SampleError> {
    let mut chosen = Chosen {
        what: asked,
        ring_bytes,
        sees_kernel: true,
        counts_lost: true,
        on_exec: matches!(target, Target::Exec(_)),
        system: *target == Target::System,
        of_cpus: *target == Target::System,
        follows_code: true,
    };
    chosen.of_cpus |= chosen.is_of_cpu_time();
    // CPU 0 may be offline.
    let cpus = CpuList::online().map_err(SampleError::Cpus)?;
    let first_cpu = cpus.first().map_or(0, u32::cast_signed);
    loop {
        let (thread, cpu) = match target.pid() {
            Some(pid) if !chosen.of_cpus => (pid, -1),
            _ => (-1, first_cpu),
        };
        let mut attr = chosen.attr(chosen.roles()[0]);
        // Some of these settings do not allow inheritance without a CPU. The trial does not need it.
        attr.set_inherit(0);
        let error = match open(&mut attr, thread, cpu) {
            Ok(_) => return Ok(chosen),
            Err(error) => error,
        };
        match Errno::from_io_error(&error) {
            Some(Errno::ACCESS | Errno::PERM) if chosen.of_cpus && !chosen.system => {
                chosen.of_cpus = false;
            }
            Some(Errno::ACCESS | Errno::PERM)
                if chosen.sees_kernel && !chosen.system && chosen.is_of_cpu_time() =>
            {
                chosen.sees_kernel = false;
            }
            Some(Errno::ACCESS | Errno::PERM) => return Err(chosen.denied()),
            // Linux before 6.0.
            Some(Errno::INVAL) if chosen.counts_lost => chosen.counts_lost = false,
            Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV) if chosen.cycles() => {
                match asked {
                    What::Clock { every: Every::Best, frequency } => {
                        chosen.what = What::Clock { every: Every::CpuClock, frequency };
                    }
                    _ => return Err(SampleError::NoCycles { error }),
                }
            }
            Some(Errno::SRCH) => return Err(target.gone()),
            _ => return Err(SampleError::Refused(error)),
        }
    }
}

impl Chosen {
    /// The roles of events that are enabled and disabled, in the order of enabling. End records come first: a
    /// begin without its end would merge two waits into a long one.
    pub(super) fn roles(&self) -> &'static [Role] {
        match self.what {
            What::Clock { .. } => &[Role::Sampling],
            What::Waits { .. } => &[Role::WaitEnd, Role::WaitBegin],
        }
    }

    fn waits(&self) -> bool {
        matches!(self.what, What::Waits { .. })
    }

    fn off_cpu(&self) -> bool {
        matches!(self.what, What::Clock { every: Every::OffCpu, .. })
    }

    /// Whether samples stand for CPU time. CPU time can also be counted separately, and user space has samples
    /// of it even without permission to sample the kernel.
    pub(super) fn is_of_cpu_time(&self) -> bool {
        !self.waits() && !self.off_cpu()
    }

    fn cycles(&self) -> bool {
        matches!(self.what, What::Clock { every: Every::Best | Every::Cycles, .. })
    }

    fn denied(&self) -> SampleError {
        match self.waits() {
            true => SampleError::WaitsDenied { paranoid: paranoid() },
            false if self.off_cpu() => SampleError::OffCpuDenied,
            false => SampleError::Denied { paranoid: paranoid(), system: self.system },
        }
    }

    fn attr(&self, role: Role) -> Attr {
        let mut attr = Attr { size: size_of::<Attr>() as u32, ..Attr::default() };
        attr.type_ = bindings::PERF_TYPE_SOFTWARE;
        let tracking = bindings::PERF_COUNT_SW_DUMMY.into();
        attr.config = match (role, self.what) {
            (Role::CpuTime, _) => bindings::PERF_COUNT_SW_TASK_CLOCK.into(),
            (Role::Sampling, What::Clock { every: Every::CpuClock, .. }) => {
                bindings::PERF_COUNT_SW_CPU_CLOCK.into()
            }
            (Role::Sampling, What::Clock { every: Every::OffCpu, .. }) => {
                bindings::PERF_COUNT_SW_CONTEXT_SWITCHES.into()
            }
            (Role::Sampling, What::Clock { .. }) => {
                attr.type_ = bindings::PERF_TYPE_HARDWARE;
                bindings::PERF_COUNT_HW_CPU_CYCLES.into()
            }
            (Role::WaitBegin, What::Waits { begin: number, .. })
            | (Role::WaitEnd, What::Waits { end: number, .. }) => {
                attr.type_ = bindings::PERF_TYPE_TRACEPOINT;
                number
            }
            _ => tracking,
        };
        if self.counts_lost && role != Role::CpuTime {
            attr.read_format = bindings::PERF_FORMAT_LOST.into();
        }
        attr.set_disabled(u64::from(role != Role::Tracking));
        attr.set_enable_on_exec(u64::from(self.on_exec && !self.of_cpus && role != Role::Tracking));
        attr.set_inherit(u64::from(!self.of_cpus));
        attr.set_exclude_kernel(u64::from(!self.sees_kernel));
        attr.set_exclude_hv(1);
        if role == Role::CpuTime {
            return attr;
        }
        // All roles have one sample format, so that their records are read in the same way.
        attr.sample_type = u64::from(
            bindings::PERF_SAMPLE_IP
                | bindings::PERF_SAMPLE_TID
                | bindings::PERF_SAMPLE_TIME
                | bindings::PERF_SAMPLE_CALLCHAIN
                | bindings::PERF_SAMPLE_PERIOD,
        );
        if !self.of_cpus {
            // Events of threads can overlap.
            attr.sample_type |= u64::from(bindings::PERF_SAMPLE_ID);
        }
        if self.waits() {
            // The idle threads of all CPUs have the same TID, so the CPU is needed as well.
            attr.sample_type |= u64::from(bindings::PERF_SAMPLE_CPU | bindings::PERF_SAMPLE_RAW);
        }
        // An end record needs no stack, and kernel functions are enough to tell what a lock is for.
        attr.set_exclude_callchain_kernel(u64::from(!self.sees_kernel || role == Role::WaitEnd));
        attr.set_exclude_callchain_user(u64::from(self.waits()));
        attr.set_sample_id_all(1);
        attr.set_use_clockid(1);
        attr.clockid = libc::CLOCK_MONOTONIC;
        attr.set_watermark(1);
        attr.__bindgen_anon_2.wakeup_watermark = (Ring::BYTES / 4) as u32;
        match (role, self.what) {
            (Role::Sampling, What::Clock { every: Every::OffCpu, .. }) => {
                attr.__bindgen_anon_1.sample_period = 1;
                // Records when a thread is on a CPU again.
                attr.set_context_switch(1);
            }
            (Role::Sampling, What::Clock { every, frequency }) => {
                // Idle time belongs to no target. An idle CPU has no cycles, and not every PMU can exclude
                // idle time.
                let excludes_idle = self.of_cpus && !self.system && every == Every::CpuClock;
                attr.set_exclude_idle(u64::from(excludes_idle));
                attr.set_freq(1);
                attr.__bindgen_anon_1.sample_freq = frequency;
            }
            (Role::WaitBegin | Role::WaitEnd, _) => attr.__bindgen_anon_1.sample_period = 1,
            _ => {
                // The kernel builds a record of each mapping before it drops those that are not code.
                let follows_code = u64::from(self.follows_code && !self.waits());
                attr.set_mmap(follows_code);
                attr.set_mmap2(follows_code);
                attr.set_comm(1);
                attr.set_comm_exec(1);
                attr.set_task(1);
            }
        }
        attr
    }

    /// The format of the records of these events.
    pub(super) fn parse_info(&self) -> RecordParseInfo {
        let attr = self.attr(self.roles()[0]);
        // SAFETY: all bytes are initialised; this struct of the kernel's interface has no padding.
        let bytes = unsafe {
            std::slice::from_raw_parts((&raw const attr).cast::<u8>(), size_of::<Attr>())
        };
        // The reader parses the known part of attributes that are larger than it expects.
        let (attr, _) = PerfEventAttr::parse::<_, byteorder::NativeEndian>(bytes)
            .expect("these attributes are well-formed");
        RecordParseInfo::new(&attr, Endianness::NATIVE)
    }

    /// The clock that triggers samples; `None` for lock waits.
    pub(super) fn clock(&self) -> Option<Clock> {
        let What::Clock { every, frequency } = self.what else { return None };
        let (event, unit) = match every {
            Every::CpuClock => ("cpu-clock", Unit::Nanoseconds),
            Every::OffCpu => ("off-cpu", Unit::Nanoseconds),
            _ => ("cycles", Unit::Cycles),
        };
        Some(Clock {
            event: event.into(),
            unit,
            frequency: Some(frequency),
            user_only: !self.sees_kernel,
        })
    }
}

/// The time of the events' clock, in nanoseconds.
pub(super) fn now() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Event {
    /// `None` if the thread has exited.
    pub(super) fn open(
        chosen: &Chosen,
        role: Role,
        thread: i32,
        cpu: i32,
    ) -> Result<Option<Event>, SampleError> {
        match open(&mut chosen.attr(role), thread, cpu) {
            Ok(fd) => Ok(Some(Event { fd, role, cpu })),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::SRCH) => Ok(None),
                Some(Errno::MFILE) => Err(SampleError::TooManyFiles {
                    files: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
                }),
                Some(Errno::ACCESS | Errno::PERM) => Err(chosen.denied()),
                _ => Err(SampleError::Refused(error)),
            },
        }
    }

    /// Redirects the event's records to the buffer of another event.
    pub(super) fn write_into(&self, ring: &Ring) -> Result<(), SampleError> {
        self.control(|fd| {
            // SAFETY: both descriptors are events.
            unsafe { ioctls::SET_OUTPUT(fd, ring.fd().as_raw_fd()) }
        })
    }

    pub(super) fn enable(&self) -> Result<(), SampleError> {
        // SAFETY: the descriptor is an event.
        self.control(|fd| unsafe { ioctls::ENABLE(fd, 0) })
    }

    pub(super) fn disable(&self) -> Result<(), SampleError> {
        // SAFETY: the descriptor is an event.
        self.control(|fd| unsafe { ioctls::DISABLE(fd, 0) })
    }

    fn control(&self, with: impl FnOnce(RawFd) -> i32) -> Result<(), SampleError> {
        match with(self.fd.as_raw_fd()) {
            0.. => Ok(()),
            _ => Err(SampleError::Refused(io::Error::last_os_error())),
        }
    }

    /// The ID in the event's records, and what it records. `None` if the kernel does not return the ID.
    pub(super) fn identity(&self) -> Option<(u64, Kind)> {
        let mut id = 0;
        self.control(|fd| {
            // SAFETY: the descriptor is an event, and the pointer is valid for a write of the ID.
            unsafe { ioctls::ID(fd, &raw mut id) }
        })
        .ok()?;
        Some((id, (self.cpu, self.role)))
    }

    /// Lost records, if the kernel counts them.
    pub(super) fn lost(&self) -> Option<u64> {
        self.read().map(|[_, lost]| lost)
    }

    /// CPU time in nanoseconds, if the event counts that.
    pub(super) fn cpu_time(&self) -> Option<u64> {
        self.read().map(|[time, _]| time)
    }

    fn read(&self) -> Option<[u64; 2]> {
        let mut bytes = [0; 16];
        rustix::io::read(&self.fd, &mut bytes).ok()?;
        let (value, lost) = bytes.split_at(8);
        let number = |bytes: &[u8]| bytes.try_into().map(u64::from_ne_bytes);
        Some([number(value).ok()?, number(lost).ok()?])
    }
}

impl AsFd for Event {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}
