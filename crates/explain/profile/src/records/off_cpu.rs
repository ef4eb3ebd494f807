//! Off-CPU time, as samples of a timer that runs meanwhile.
//!
//! The kernel records where a thread leaves its CPU, and when it is on a CPU again. The samples are the ticks
//! of a timer between the two. Shares, their errors and costs per iteration then mean the same as for time
//! on a CPU.

use std::collections::{HashMap, HashSet};

use super::naming::maps_of;

/// The off-CPU threads.
#[derive(Debug)]
pub(crate) struct OffCpu {
    /// Nanoseconds between two samples.
    pub(super) period: u64,
    /// The stack with which a thread left its CPU, and the time.
    gone: HashMap<i32, (Box<[u64]>, u64)>,
    /// The time of the last event.
    latest: u64,
}

/// A stack, and its samples.
pub(super) type Samples = (Box<[u64]>, u64);

impl OffCpu {
    pub(crate) fn new(period: u64) -> OffCpu {
        OffCpu { period: period.max(1), gone: HashMap::new(), latest: 0 }
    }

    /// A thread leaves its CPU.
    pub(super) fn leave(&mut self, thread: i32, stack: &[u64], time: u64) {
        self.latest = self.latest.max(time);
        // The idle thread does not wait.
        if thread != 0 {
            self.gone.insert(thread, (stack.into(), time));
        }
    }

    /// A thread is on a CPU again. `None` if no sample was due meanwhile, or if it is unknown when it left.
    pub(super) fn come(&mut self, thread: i32, time: u64) -> Option<Samples> {
        self.latest = self.latest.max(time);
        let (stack, since) = self.gone.remove(&thread)?;
        // All threads share one timer, which has always been running.
        let samples = (time / self.period).saturating_sub(since / self.period);
        (samples > 0).then_some((stack, samples))
    }

    /// A thread has exited without being seen on a CPU again, because sampling ended before. Its off-CPU time
    /// counts until the last event.
    pub(super) fn exit(&mut self, thread: i32) -> Option<Samples> {
        self.come(thread, self.latest)
    }

    /// The numbers of the maps of off-CPU threads.
    pub(super) fn maps(&self) -> HashSet<u32> {
        self.gone.values().map(|(stack, _)| maps_of(stack)).collect()
    }

    /// Records were lost: off-CPU threads may have been on a CPU meanwhile.
    pub(super) fn lost(&mut self) {
        self.gone.clear();
    }

    /// Sampling ends.
    pub(super) fn all(&mut self, time: u64) -> Vec<Samples> {
        let threads: Vec<i32> = self.gone.keys().copied().collect();
        threads.into_iter().filter_map(|thread| self.come(thread, time)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_the_ticks_of_a_timer() {
        let mut off = OffCpu::new(100);
        off.leave(1, &[7], 1050);
        off.leave(2, &[8], 1060);
        assert_eq!(off.come(1, 1099), None, "none was due");
        off.leave(1, &[7], 1110);
        assert_eq!(off.come(1, 1450), Some(([7].into(), 3)));
        assert_eq!(off.come(1, 1460), None, "it was on a CPU");
        assert_eq!(off.all(2000), [([8].into(), 10)]);
        off.leave(1, &[7], 2100);
        off.lost();
        assert_eq!(off.come(1, 2900), None, "it may have been on a CPU");
    }

    #[test]
    fn many_short_waits_have_the_samples_of_one_long_wait() {
        let mut off = OffCpu::new(1000);
        let mut samples = 0;
        for time in (0..1_000_000).step_by(7) {
            off.leave(1, &[1], time);
            samples += off.come(1, time + 7).map_or(0, |(_, samples)| samples);
        }
        assert_eq!(samples, 1000);
    }

    #[test]
    fn an_exited_process_counts_until_its_last_known_time() {
        let mut off = OffCpu::new(10);
        off.leave(1, &[1], 100);
        off.leave(2, &[2], 150);
        assert_eq!(off.exit(1), Some(([1].into(), 5)));
        off.leave(0, &[3], 160);
        assert_eq!(off.all(200), [([2].into(), 5)], "the idle thread does not wait");
    }
}
