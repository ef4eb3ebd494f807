//! The account of the CPU time of a point: what its tasks could have had, and what they got.

mod counted;
mod cpu_times;
mod kernel_threads;
mod task_clocks;

use std::ops::{Add, Sub};
use std::time::Instant;

use rustix::process::Pid;

pub(crate) use self::counted::CountedEvents;
pub(crate) use self::cpu_times::{CpuTimes, CpuUse, TICK};
pub(crate) use self::task_clocks::TaskClocks;

use self::kernel_threads::KernelThreads;
use self::task_clocks::of_reaped_children;

/// Entering and leaving the idle state takes time that is neither idle nor a task's. On a virtual
/// machine, a testcase that sleeps 10,000 times per second loses a sixth of its idle time.
const IDLE_SHARE: f64 = 0.25;

/// CPU time that the CPUs of a point had in an interval, and how much of it was lost to other work.
/// In seconds, over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Balance {
    pub(crate) had: f64,
    pub(crate) lost: f64,
}

impl Add for Balance {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { had: self.had + other.had, lost: self.lost + other.lost }
    }
}

impl Sub for Balance {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self { had: self.had - other.had, lost: self.lost - other.lost }
    }
}

impl Balance {
    /// The balance of `cpus` CPUs that spent `seconds` as `used` says, while the tasks got `got`
    /// seconds. Time of interrupts counts as the tasks' own: their work causes most of it.
    pub(crate) fn of(cpus: usize, seconds: f64, used: &CpuUse, got: f64) -> Self {
        let had = cpus as f64 * seconds;
        Self { had, lost: had - used.idle - used.taken - got }
    }

    /// The lost share, 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        // Less than nothing is lost if kernel threads worked for others.
        if self.had > 0.0 { (self.lost / self.had).clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Whether more than `share` was lost. Each CPU may have `inexact` seconds in addition. If the CPUs
    /// were idle, they may have a tick each and a share of the idle time. Other work that always wants
    /// to run leaves no idle time.
    pub(crate) fn has_lost(&self, share: f64, cpus: usize, used: &CpuUse, inexact: f64) -> bool {
        let rounding = if used.idle > 0.0 { TICK } else { 0.0 };
        let tolerated = share * self.had + cpus as f64 * (inexact + rounding);
        self.lost > tolerated + IDLE_SHARE * used.idle
    }
}

/// The account of a round, from before the gate opens until the tasks are dead. The tasks do not run
/// at either end, so their CPU time is exact. It contains that of all descendants and of kernel
/// threads.
pub(crate) struct Ledger {
    times: CpuTimes,
    cpus: usize,
    begun: Instant,
    before: f64,
    kernel_threads: Option<KernelThreads>,
    measuring: TaskClocks,
}

impl Ledger {
    /// Opens the account of `processes`, which must not run yet, on `cpus`. The processes `measuring`
    /// may run there too. `None` if CPU time cannot be read.
    pub(crate) fn open(cpus: &[u32], processes: &[Pid], measuring: &[Pid]) -> Option<Self> {
        let before = of_reaped_children() + TaskClocks::watch(processes)?.read()?;
        Some(Self {
            times: CpuTimes::watch(cpus),
            cpus: cpus.len(),
            begun: Instant::now(),
            before,
            kernel_threads: KernelThreads::watch(),
            measuring: TaskClocks::watch(measuring)?,
        })
    }

    /// Whether kernel threads are visible, so that their CPU time does not count as lost.
    pub(crate) fn sees_kernel_threads(&self) -> bool {
        self.kernel_threads.is_some()
    }

    /// CPU seconds of kernel threads in about the last `seconds`. Takes a while.
    pub(crate) fn of_kernel_threads(&mut self, seconds: f64) -> f64 {
        self.kernel_threads.as_mut().map_or(0.0, |threads| threads.in_last(seconds))
    }

    /// Closes the account. The processes must be dead and waited for. Also returns the CPU seconds of the processes.
    pub(crate) fn close(mut self) -> Option<(Balance, CpuUse, f64)> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let used = self.times.since_last()?;
        let got = of_reaped_children() - self.before;
        let for_them = self.kernel_threads.as_mut().map_or(0.0, KernelThreads::total);
        let measuring = self.measuring.since_last()?;
        Some((Balance::of(self.cpus, seconds, &used, got + for_them + measuring), used, got))
    }
}

#[cfg(test)]
mod tests {
    use knee_results::CpuShares;

    use super::*;

    fn used(idle: f64, taken: f64) -> CpuUse {
        CpuUse { shares: CpuShares::default(), idle, taken, most_stolen: 0.0 }
    }

    #[test]
    fn time_that_was_neither_idle_nor_the_tasks_own_is_lost() {
        let balance = Balance::of(2, 1.0, &used(0.5, 0.25), 1.0);
        assert_eq!(balance, Balance { had: 2.0, lost: 0.25 });
    }

    #[test]
    fn a_loss_within_the_resolution_of_the_clocks_does_not_count() {
        let (busy, idle) = (used(0.0, 0.0), used(0.004, 0.0));
        let lost = |lost: f64, used: &CpuUse, inexact: f64| {
            Balance { had: 1.0, lost }.has_lost(0.05, 1, used, inexact)
        };
        assert!(lost(0.051, &busy, 0.0));
        assert!(!lost(0.049, &busy, 0.0));
        assert!(!lost(0.053, &busy, 0.004));
        assert!(lost(0.055, &busy, 0.004));
        assert!(!lost(0.063, &idle, 0.004));
        assert!(lost(0.066, &idle, 0.004));
        assert!(!lost(0.18, &used(0.5, 0.0), 0.0));
        assert!(lost(0.19, &used(0.5, 0.0), 0.0));
    }
}
