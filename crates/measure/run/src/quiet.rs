//! How busy other work keeps the machine, before a run begins.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use rustix::process::getpid;

use crate::account::Ledger;

/// If other work uses at most this share of the CPUs, the machine is quiet. Rounds that lose no more are
/// not marked.
pub const QUIET_SHARE: f64 = 0.02;
/// A process that uses less of one CPU is not worth its name.
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
        let (balance, _) = ledger.close()?;
        Some(Self { share: balance.share(), programs: programs(&before, &after, seconds) })
    }

    /// Whether a run that begins now would not be disturbed.
    pub fn is_quiet(&self) -> bool {
        self.share <= QUIET_SHARE
    }
}

/// Name and CPU time in ticks of each process by its number.
type Processes = BTreeMap<i32, (String, u64)>;

/// All processes but this one.
fn processes() -> Processes {
    let own = getpid().as_raw_pid();
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let read = |pid| Some((pid, parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?));
    numbers.filter(|&pid| pid != own).filter_map(read).collect()
}

/// Name and ticks from `/proc/PID/stat`: fields 2, 14 and 15 of proc_pid_stat(5). The name may contain
/// blanks and parentheses.
fn parse(stat: &str) -> Option<(String, u64)> {
    let (head, fields) = stat.rsplit_once(')')?;
    let (_, name) = head.split_once('(')?;
    let mut ticks = fields.split_whitespace().skip(11).map_while(|field| field.parse::<u64>().ok());
    Some((name.to_owned(), ticks.next()? + ticks.next()?))
}

/// The CPUs that programs used between two readings.
fn programs(before: &Processes, after: &Processes, seconds: f64) -> Vec<(String, f64)> {
    let mut programs: BTreeMap<&str, u64> = BTreeMap::new();
    for (pid, (name, ticks)) in after {
        // A process that has begun since has used all of its time since.
        let earlier = before.get(pid).filter(|(before, _)| before == name).map_or(0, |(_, t)| *t);
        *programs.entry(name).or_default() += ticks.saturating_sub(earlier);
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
    fn the_name_of_a_process_may_contain_anything() {
        let stat = "7 (a) b (c) R 1 7 7 0 -1 4194304 1 2 3 4 150 50 9 9 20 0 1 0";
        assert_eq!(parse(stat), Some(("a) b (c".to_owned(), 200)));
        assert_eq!(parse("7 (a"), None);
    }

    #[test]
    fn processes_of_a_program_are_summed_and_the_busiest_comes_first() {
        let list = |processes: &[(i32, &str, u64)]| -> Processes {
            processes.iter().map(|&(pid, name, ticks)| (pid, (name.to_owned(), ticks))).collect()
        };
        let before = list(&[(1, "init", 900), (2, "cc", 50), (3, "sh", 7), (4, "old", 1)]);
        // Number 4 now belongs to a different program.
        let after =
            list(&[(1, "init", 900), (2, "cc", 150), (3, "sh", 8), (4, "ld", 30), (5, "cc", 60)]);
        let programs = programs(&before, &after, 2.0);
        assert_eq!(programs, [("cc".to_owned(), 0.8), ("ld".to_owned(), 0.15)]);
    }
}
