//! How CPUs spend their time, from `/proc/stat`.

use std::fs::File;
use std::os::unix::fs::FileExt;

use knee_results::CpuShares;

/// Ticks per second in /proc/stat; the kernel always reports 100 to user space.
const TICKS_PER_SECOND: f64 = 100.0;
/// Length of a tick. Idle time in /proc/stat is exact, but rounded down to whole ticks.
pub(crate) const TICK: f64 = 1.0 / TICKS_PER_SECOND;

/// How a set of CPUs spent an interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct CpuUse {
    /// Shares of the time of all watched CPUs.
    pub(crate) shares: CpuShares,
    /// Seconds that all watched CPUs were idle, in total.
    pub(crate) idle: f64,
    /// Seconds that interrupts and the hypervisor took from all watched CPUs, in total.
    pub(crate) taken: f64,
    /// The largest steal time of any watched CPU, in seconds.
    pub(crate) most_stolen: f64,
}

/// How a set of CPUs spends its time.
pub(crate) struct CpuTimes {
    file: Option<File>,
    cpus: Vec<u32>,
    before: Option<Times>,
    text: Vec<u8>,
}

impl CpuTimes {
    /// Watches `cpus`; an empty list stands for the whole machine.
    pub(crate) fn watch(cpus: &[u32]) -> Self {
        let file = File::open("/proc/stat").ok();
        let mut times = Self { file, cpus: cpus.to_vec(), before: None, text: vec![0; 16 << 10] };
        times.before = times.read();
        times
    }

    /// How the CPUs spent the time since the last call; `None` if it is shorter than a tick.
    pub(crate) fn since_last(&mut self) -> Option<CpuUse> {
        let now = self.read()?;
        let before = self.before.replace(now.clone())?;
        let since = |now: Ticks, before: Ticks| -> [f64; 4] {
            std::array::from_fn(|k| now[k].saturating_sub(before[k]) as f64)
        };
        let (ours, machine) = (since(now.ours, before.ours), since(now.machine, before.machine));
        let total: f64 = ours.iter().sum();
        let all: f64 = machine.iter().sum();
        if total == 0.0 || all == 0.0 {
            return None;
        }
        let [_, _, idle_ticks, steal_ticks] = ours;
        let interrupt_ticks = now.interrupts.saturating_sub(before.interrupts) as f64;
        let [user, system, idle, steal] = ours.map(|ticks| ticks / total);
        let machine_idle = machine[2] / all;
        let stolen = now.stolen.iter().zip(&before.stolen);
        let most = stolen.map(|(now, before)| now.saturating_sub(*before)).max().unwrap_or(0);
        let shares = CpuShares { user, system, idle, steal, machine_idle };
        Some(CpuUse {
            shares,
            idle: idle_ticks * TICK,
            taken: (steal_ticks + interrupt_ticks) * TICK,
            most_stolen: most as f64 * TICK,
        })
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

/// User, system, idle and steal time in clock ticks.
type Ticks = [u64; 4];

/// The contents of /proc/stat at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
struct Times {
    /// Of the watched CPUs together.
    ours: Ticks,
    /// Of all CPUs.
    machine: Ticks,
    /// Ticks of the watched CPUs in interrupt handlers.
    interrupts: u64,
    /// Steal ticks of each watched CPU.
    stolen: Vec<u64>,
}

impl Times {
    /// Parses the text of /proc/stat. Watches `cpus`, or all if the list is empty.
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
                    times.interrupts += at(5) + at(6);
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
    use crate::fixture::{kernel_file as file, rewrite as write};

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
    fn each_reading_covers_the_time_since_the_last_one() {
        let stat =
            file("cpu  0 0 0 0 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0 0 0\n");
        let own = stat.try_clone().unwrap();
        let mut times =
            CpuTimes { file: Some(stat), cpus: vec![1], before: None, text: vec![0; 16] };
        times.before = times.read();
        assert!(times.since_last().is_none(), "no tick is over");
        write(
            &own,
            "cpu  60 0 15 100 0 2 3 20 0 0\ncpu0 0 0 0 100 0 0 0 0 0 0\ncpu1 60 0 15 0 0 2 3 20 0 0\n",
        );
        let CpuUse { shares, idle, taken, most_stolen } = times.since_last().unwrap();
        assert_eq!((shares.user, shares.system), (0.6, 0.2));
        assert_eq!((shares.idle, shares.steal), (0.0, 0.2));
        assert_eq!((shares.machine_idle, most_stolen), (0.5, 0.2));
        assert_eq!((idle, taken), (0.0, 0.25));
    }
}
