//! The CPU time of a process.

use std::time::Duration;

use libc::clockid_t;

/// The CPU-time clock of a process: its threads, including those that have exited, without its
/// children. The kernel updates it at each timer tick of a CPU on which a thread runs, so a reading
/// is too low by up to one tick per CPU.
#[derive(Debug, Clone, Copy)]
pub struct CpuClock(clockid_t);

impl CpuClock {
    /// The clock of the process `pid`; `None` if there is no such process.
    pub fn of(pid: i32) -> Option<Self> {
        let mut clock = 0;
        // SAFETY: the call writes only to `clock`, which outlives it.
        let error = unsafe { libc::clock_getcpuclockid(pid, &raw mut clock) };
        (error == 0).then_some(Self(clock))
    }

    /// The CPU time so far; `None` if the process has been waited for.
    pub fn read(self) -> Option<Duration> {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the call writes only to `time`, which outlives it.
        let result = unsafe { libc::clock_gettime(self.0, &raw mut time) };
        (result == 0).then(|| Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_of_this_process_runs_and_a_missing_process_has_none() {
        let clock = CpuClock::of(std::process::id().cast_signed()).unwrap();
        let before = clock.read().unwrap();
        while clock.read().unwrap() == before {
            std::hint::spin_loop();
        }
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert!(CpuClock::of(child.id().cast_signed()).is_none());
    }
}
