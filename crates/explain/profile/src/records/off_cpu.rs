//! Time without a CPU, as samples of a clock that runs meanwhile.
//!
//! The kernel says where a thread lost its CPU, and when it has one again. Between the two, a timer would
//! have come so many times: those are its samples. So shares, their errors and costs for each iteration
//! are what they are for time on a CPU.

use std::collections::HashMap;

/// Threads without a CPU.
#[derive(Debug)]
pub(crate) struct OffCpu {
    /// Nanoseconds from sample to sample.
    pub(super) period: u64,
    /// The stack with which a thread lost its CPU, and when.
    gone: HashMap<i32, (Box<[u64]>, u64)>,
    /// When something happened last.
    latest: u64,
}

/// A stack, and its samples.
pub(super) type Samples = (Box<[u64]>, u64);

impl OffCpu {
    pub(crate) fn new(period: u64) -> OffCpu {
        OffCpu { period: period.max(1), gone: HashMap::new(), latest: 0 }
    }

    /// A thread loses its CPU.
    pub(super) fn leave(&mut self, thread: i32, stack: &[u64], time: u64) {
        self.latest = self.latest.max(time);
        // The idle thread of a CPU waits for nothing.
        if thread != 0 {
            self.gone.insert(thread, (stack.into(), time));
        }
    }

    /// A thread has a CPU again; `None` if no sample was due meanwhile, or if it is not known since when.
    pub(super) fn come(&mut self, thread: i32, time: u64) -> Option<Samples> {
        self.latest = self.latest.max(time);
        let (stack, since) = self.gone.remove(&thread)?;
        // The timer is the same for all, and came before each.
        let samples = (time / self.period).saturating_sub(since / self.period);
        (samples > 0).then_some((stack, samples))
    }

    /// A thread is gone that was not seen to come back: sampling ended before, when there was the last
    /// that happened.
    pub(super) fn exit(&mut self, thread: i32) -> Option<Samples> {
        self.come(thread, self.latest)
    }

    /// Records were lost: who has no CPU may have had one meanwhile.
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
    fn samples_are_as_many_as_a_timer_would_have_taken() {
        let mut off = OffCpu::new(100);
        off.leave(1, &[7], 1050);
        off.leave(2, &[8], 1060);
        assert_eq!(off.come(1, 1099), None, "none was due");
        off.leave(1, &[7], 1110);
        assert_eq!(off.come(1, 1450), Some(([7].into(), 3)));
        assert_eq!(off.come(1, 1460), None, "it was there");
        assert_eq!(off.all(2000), [([8].into(), 10)]);
        off.leave(1, &[7], 2100);
        off.lost();
        assert_eq!(off.come(1, 2900), None, "it may have been there");
    }

    #[test]
    fn many_short_times_have_the_samples_of_one_long_one() {
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
        assert_eq!(off.all(200), [([2].into(), 5)], "who idles waits for nothing");
    }
}
