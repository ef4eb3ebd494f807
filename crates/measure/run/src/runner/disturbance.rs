//! What else had the CPUs: time that tasks waited for theirs, and time the hypervisor took.

use std::fs::File;
use std::os::unix::fs::FileExt;

use knee_results::CpuShares;

/// Runs of /proc/stat's clock per second; the kernel shows user space 100 whatever its own is.
const TICKS_PER_SECOND: f64 = 100.0;

/// Nanoseconds that threads spent runnable without running, from
/// `/proc/PID/task/TID/schedstat` (fields: on CPU, waiting, time slices;
/// Documentation/scheduler/sched-stats.rst).
pub(super) struct RunDelays {
    files: Vec<Option<File>>,
    before: Vec<u64>,
}

impl RunDelays {
    /// Watches (process, thread) pairs; where the kernel keeps no such record, they never wait.
    pub(super) fn watch(threads: impl Iterator<Item = (i32, i32)>) -> Self {
        let files: Vec<_> = threads
            .map(|(pid, tid)| File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok())
            .collect();
        let before = vec![0; files.len()];
        let mut delays = Self { files, before };
        delays.longest();
        delays
    }

    /// Seconds that the thread which waited longest has waited since the last call.
    pub(super) fn longest(&mut self) -> f64 {
        let mut longest = 0;
        for (file, before) in self.files.iter().zip(&mut self.before) {
            let Some(now) = file.as_ref().and_then(read_delay) else { continue };
            longest = longest.max(now.saturating_sub(*before));
            *before = now;
        }
        longest as f64 / 1e9
    }
}

fn read_delay(file: &File) -> Option<u64> {
    let mut text = [0u8; 96];
    let len = file.read_at(&mut text, 0).ok()?;
    std::str::from_utf8(&text[..len]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

/// Where a set of CPUs spends its time, from `/proc/stat`.
pub(super) struct CpuTimes {
    file: Option<File>,
    cpus: Vec<u32>,
    before: Option<Times>,
    text: Vec<u8>,
}

impl CpuTimes {
    /// Watches `cpus`; an empty list stands for the whole machine.
    pub(super) fn watch(cpus: &[u32]) -> Self {
        let file = File::open("/proc/stat").ok();
        let mut times = Self { file, cpus: cpus.to_vec(), before: None, text: vec![0; 16 << 10] };
        times.before = times.read();
        times
    }

    /// Shares of the time since the last call, and the seconds stolen from the CPU that lost most.
    pub(super) fn shares(&mut self) -> Option<(CpuShares, f64)> {
        let now = self.read()?;
        let before = self.before.replace(now.clone())?;
        let since = |now: Ticks, before: Ticks| -> [f64; 4] {
            std::array::from_fn(|k| now[k].saturating_sub(before[k]) as f64)
        };
        let (ours, machine) = (since(now.ours, before.ours), since(now.machine, before.machine));
        let total: f64 = ours.iter().sum();
        let all: f64 = machine.iter().sum();
        // Shorter than a tick.
        if total == 0.0 || all == 0.0 {
            return None;
        }
        let [user, system, idle, steal] = ours.map(|ticks| ticks / total);
        let machine_idle = machine[2] / all;
        let stolen = now.stolen.iter().zip(&before.stolen);
        let most = stolen.map(|(now, before)| now.saturating_sub(*before)).max().unwrap_or(0);
        let shares = CpuShares { user, system, idle, steal, machine_idle };
        Some((shares, most as f64 / TICKS_PER_SECOND))
    }

    fn read(&mut self) -> Option<Times> {
        let file = self.file.as_ref()?;
        loop {
            let len = file.read_at(&mut self.text, 0).ok()?;
            if len < self.text.len() {
                let text = std::str::from_utf8(&self.text[..len]).ok()?;
                return Times::parse(text, &self.cpus);
            }
            self.text.resize(2 * len, 0);
        }
    }
}

/// User, system, idle and stolen time in clock ticks.
type Ticks = [u64; 4];

/// What /proc/stat says at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
struct Times {
    /// Of the watched CPUs together.
    ours: Ticks,
    /// Of all CPUs.
    machine: Ticks,
    /// Stolen ticks of each watched CPU.
    stolen: Vec<u64>,
}

impl Times {
    /// From the text of /proc/stat; `cpus` are watched, all if there are none.
    fn parse(stat: &str, cpus: &[u32]) -> Option<Self> {
        let mut times = Self::default();
        for line in stat.lines() {
            let Some(rest) = line.strip_prefix("cpu") else { break };
            let (name, fields) = rest.split_once(' ')?;
            // user nice system idle iowait irq softirq steal
            let f: Vec<u64> = fields.split_whitespace().map_while(|f| f.parse().ok()).collect();
            let at = |i: usize| f.get(i).copied().unwrap_or(0);
            let ticks = [at(0) + at(1), at(2) + at(5) + at(6), at(3) + at(4), at(7)];
            match name.parse::<u32>() {
                Err(_) => times.machine = ticks,
                Ok(cpu) if cpus.is_empty() || cpus.contains(&cpu) => {
                    times.ours.iter_mut().zip(ticks).for_each(|(sum, n)| *sum += n);
                    times.stolen.push(ticks[3]);
                }
                Ok(_) => {}
            }
        }
        Some(times)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str = "cpu  30 3 60 900 9 1 2 5 0 0\ncpu0 10 1 20 300 3 0 1 2 0 0\n\
                        cpu1 20 2 40 600 6 1 1 3 0 0\nintr 5 cpu\n";

    #[test]
    fn only_the_cpus_of_the_point_are_summed() {
        let one = Times::parse(STAT, &[1]).unwrap();
        assert_eq!((one.ours, one.stolen.as_slice()), ([22, 42, 606, 3], [3].as_slice()));
        let all = Times::parse(STAT, &[]).unwrap();
        assert_eq!((all.ours, all.stolen.as_slice()), (all.machine, [2, 3].as_slice()));
    }

    #[test]
    fn this_thread_waits_for_its_cpu_no_longer_than_it_lives() {
        let pid = std::process::id() as i32;
        let mut delays = RunDelays::watch([(pid, pid)].into_iter());
        assert!(delays.longest() < 10.0);
    }

    #[test]
    fn shares_add_up() {
        let mut times = CpuTimes::watch(&[]);
        let (s, _) = loop {
            // None while no tick is over, of which nobody knows when the host lets one come.
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(times.read().is_some(), "/proc/stat is readable");
            if let Some(shares) = times.shares() {
                break shares;
            }
        };
        assert!((s.user + s.system + s.idle + s.steal - 1.0).abs() < 1e-9);
    }
}
