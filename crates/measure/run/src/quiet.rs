//! How busy other work keeps the machine, before a run begins.

use std::collections::BTreeMap;
use std::time::Instant;

use knee_host::process::{Stat, numbers};
use rustix::process::getpid;

use crate::account::Ledger;

/// If other work uses at most this share of the CPUs, the machine is quiet. Rounds that lose no more are
/// not marked.
pub const QUIET_SHARE: f64 = 0.02;
/// Programs that use less of a CPU are not listed.
const NAMED_SHARE: f64 = 0.01;
/// Ticks per second in /proc/PID/stat.
const TICKS_PER_SECOND: f64 = 100.0;

/// What other work uses.
#[derive(Debug, Clone, PartialEq)]
pub struct OtherWork {
    /// The share of the watched CPUs, 0 to 1.
    pub share: f64,
    /// Programs by name, with the CPUs that all their processes use together, the busiest first.
    pub programs: Vec<(String, f64)>,
}

impl OtherWork {
    /// Watches `cpus` while `wait` waits. `None` if the kernel does not account for CPU time.
    pub fn during(cpus: &[u32], wait: impl FnOnce()) -> Option<Self> {
        let ledger = Ledger::open(cpus, &[], &[getpid()])?;
        let (begun, before) = (Instant::now(), processes());
        wait();
        let (after, seconds) = (processes(), begun.elapsed().as_secs_f64());
        let (balance, ..) = ledger.close()?;
        Some(Self { share: balance.share(), programs: programs(&before, &after, seconds) })
    }

    /// Whether a run that begins now would not be disturbed.
    pub fn is_quiet(&self) -> bool {
        self.share <= QUIET_SHARE
    }
}

/// A process at one moment.
#[derive(Debug, Clone, PartialEq)]
struct Process {
    name: String,
    /// CPU time in ticks.
    used: u64,
    /// When it began, in ticks since boot. Its number may be that of an earlier process.
    began: u64,
}

/// Processes by their numbers.
type Processes = BTreeMap<i32, Process>;

/// All processes but this one and kernel threads, which the account does not count as others.
fn processes() -> Processes {
    let own = getpid().as_raw_pid();
    let numbers = numbers("/proc").unwrap_or_default().into_iter();
    let read = |pid| Some((pid, process(Stat::read(pid)?)?));
    numbers.filter(|&pid| pid != own).filter_map(read).collect()
}

/// `None` for a kernel thread.
fn process(stat: Stat) -> Option<Process> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let (flags, used) = (stat.number(9)?, stat.number(14)? + stat.number(15)?);
    let began = stat.number(22)?;
    (flags & PF_KTHREAD == 0).then_some(Process { name: stat.name, used, began })
}

/// The CPUs that programs used between two readings.
fn programs(before: &Processes, after: &Processes, seconds: f64) -> Vec<(String, f64)> {
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    for (pid, process) in after {
        // A process that has begun since has used all of its time since.
        let same = before.get(pid).filter(|earlier| earlier.began == process.began);
        let earlier = same.map_or(0, |earlier| earlier.used);
        *programs.entry(&process.name).or_default() += process.used.saturating_sub(earlier);
    }
    let cpus = |ticks: u64| ticks as f64 / TICKS_PER_SECOND / seconds;
    let mut programs: Vec<(String, f64)> = programs
        .into_iter()
        .map(|(name, ticks)| (name.to_owned(), cpus(ticks)))
        .filter(|(_, cpus)| *cpus >= NAMED_SHARE)
        .collect();
    programs.sort_by(|a, b| b.1.total_cmp(&a.1));
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_threads_are_left_out() {
        let stat =
            |flags| format!("7 (a) b (c) R 1 7 7 0 -1 {flags} 1 2 3 4 150 50 9 9 20 0 1 0 77 5");
        let parse = |text: &str| process(Stat::parse(text)?);
        let program = Process { name: "a) b (c".to_owned(), used: 200, began: 77 };
        assert_eq!(parse(&stat(4_194_304)), Some(program));
        assert_eq!(parse(&stat(69_238_880)), None, "a kernel thread");
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn processes_of_a_program_are_summed_and_the_busiest_comes_first() {
        let list = |processes: &[(i32, &str, u64, u64)]| -> Processes {
            let process = |&(pid, name, used, began): &(i32, &str, u64, u64)| {
                (pid, Process { name: name.to_owned(), used, began })
            };
            processes.iter().map(process).collect()
        };
        let before =
            list(&[(1, "init", 900, 1), (2, "cc", 50, 9), (3, "sh", 7, 9), (4, "old", 1, 9)]);
        let after = list(&[
            (1, "init", 900, 1),
            (2, "cc", 150, 9),
            // It has called exec.
            (3, "make", 8, 9),
            // The number now belongs to a different process.
            (4, "ld", 30, 60),
            (5, "cc", 60, 70),
        ]);
        let programs = programs(&before, &after, 2.0);
        assert_eq!(programs, [("cc".to_owned(), 0.8), ("ld".to_owned(), 0.15)]);
    }
}
