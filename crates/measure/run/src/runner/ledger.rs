//! The account of the CPU time of a point: what its tasks could have had, and what they got.

use std::time::Instant;

use rustix::process::{Pid, getpid, getppid};

use super::cpu_times::{CpuTimes, CpuUse, TICK};
use super::kernel_threads::KernelThreads;
use super::task_clocks::{TaskClocks, of_reaped_children};

/// CPU time that the CPUs of a point had in an interval, and how much of it was lost to other work.
/// In seconds, over all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, derive_more::Add, derive_more::Sub)]
pub(super) struct Balance {
    pub(super) had: f64,
    pub(super) lost: f64,
}

impl Balance {
    /// The balance of `cpus` CPUs that spent `seconds` as `used` says, while the tasks got `got`
    /// seconds. Time of interrupts counts as the tasks' own: their work causes most of it.
    pub(super) fn of(cpus: usize, seconds: f64, used: &CpuUse, got: f64) -> Self {
        let had = cpus as f64 * seconds;
        Self { had, lost: had - used.idle - used.taken - got }
    }

    /// The lost share.
    pub(super) fn share(&self) -> f64 {
        if self.had > 0.0 { self.lost / self.had } else { 0.0 }
    }

    /// Whether more than `share` was lost. Each CPU may have `inexact` seconds in addition, and one
    /// tick if it was idle.
    pub(super) fn has_lost(&self, share: f64, cpus: usize, used: &CpuUse, inexact: f64) -> bool {
        let rounding = if used.idle > 0.0 { TICK } else { 0.0 };
        self.lost > share * self.had + cpus as f64 * (inexact + rounding)
    }
}

/// The account of a round, from before the gate opens until the tasks are dead. The tasks do not run
/// at either end, so their CPU time is exact. It contains that of all descendants and of kernel
/// threads.
pub(super) struct Ledger {
    times: CpuTimes,
    cpus: usize,
    begun: Instant,
    before: f64,
    kernel_threads: Option<KernelThreads>,
    /// The runner and knee, if they have no CPU of their own.
    measuring: Option<TaskClocks>,
}

impl Ledger {
    /// Opens the account of `processes`, which must not run yet, on `cpus`. With `shares_cpus`, this
    /// process and knee run there too. `None` if CPU time cannot be read.
    pub(super) fn open(cpus: &[u32], processes: &[Pid], shares_cpus: bool) -> Option<Self> {
        let measuring = [Some(getpid()), getppid()].into_iter().flatten().collect::<Vec<Pid>>();
        let before = of_reaped_children() + TaskClocks::watch(processes)?.read()?;
        Some(Self {
            times: CpuTimes::watch(cpus),
            cpus: cpus.len(),
            begun: Instant::now(),
            before,
            kernel_threads: KernelThreads::watch(),
            measuring: TaskClocks::watch(&measuring).filter(|_| shares_cpus),
        })
    }

    /// Closes the account. The processes must be dead and waited for.
    pub(super) fn close(mut self) -> Option<(Balance, CpuUse)> {
        let seconds = self.begun.elapsed().as_secs_f64();
        let used = self.times.since_last()?;
        let got = of_reaped_children() - self.before;
        let for_them = self.kernel_threads.as_mut().map_or(0.0, KernelThreads::since_last);
        let measuring = self.measuring.as_mut().and_then(TaskClocks::since_last).unwrap_or(0.0);
        Some((Balance::of(self.cpus, seconds, &used, got + for_them + measuring), used))
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
        let (busy, idle) = (used(0.0, 0.0), used(0.5, 0.0));
        let lost = |lost: f64, used: &CpuUse, inexact: f64| {
            Balance { had: 1.0, lost }.has_lost(0.05, 1, used, inexact)
        };
        assert!(lost(0.051, &busy, 0.0));
        assert!(!lost(0.049, &busy, 0.0));
        assert!(!lost(0.053, &busy, 0.004));
        assert!(lost(0.055, &busy, 0.004));
        assert!(!lost(0.063, &idle, 0.004));
        assert!(lost(0.065, &idle, 0.004));
    }
}
