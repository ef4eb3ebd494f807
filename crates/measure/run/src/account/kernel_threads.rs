//! The CPU time of kernel threads.
//!
//! A testcase leaves work to them: kfree_rcu() of mmap1 runs in a kworker, packets in ksoftirqd. This
//! time counts as the tasks' own, although a kernel thread may also have worked for others.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

/// Process id of kthreadd, the parent of all kernel threads, outside of containers.
const KTHREADD: &str = "/proc/2";

/// Reads the CPU time of all kernel threads.
pub(crate) struct KernelThreads {
    before: CpuTimes,
    read_at: Instant,
    /// CPU seconds from the first reading to the last.
    total: f64,
}

/// CPU time in nanoseconds by thread.
type CpuTimes = BTreeMap<i32, u64>;

impl KernelThreads {
    /// `None` if kernel threads are invisible, as in a container.
    pub(crate) fn watch() -> Option<Self> {
        let comm = fs::read_to_string(format!("{KTHREADD}/comm")).ok()?;
        let before = (comm.trim_end() == "kthreadd").then(read)??;
        Some(Self { before, read_at: Instant::now(), total: 0.0 })
    }

    /// CPU seconds since the first reading. A thread counts up to the last reading before it ended.
    pub(crate) fn total(&mut self) -> f64 {
        self.since_last();
        self.total
    }

    /// CPU seconds in the last `seconds`, on the average of the time since the last reading.
    pub(crate) fn in_last(&mut self, seconds: f64) -> f64 {
        let elapsed = self.read_at.elapsed().as_secs_f64();
        self.since_last() * (seconds / elapsed).min(1.0)
    }

    fn since_last(&mut self) -> f64 {
        let Some(now) = read() else { return 0.0 };
        let seconds = since(&self.before, &now) as f64 / 1e9;
        (self.before, self.read_at) = (now, Instant::now());
        self.total += seconds;
        seconds
    }
}

fn since(before: &CpuTimes, now: &CpuTimes) -> u64 {
    let earlier = |pid| before.get(pid).copied().unwrap_or(0);
    now.iter().map(|(pid, nanos)| nanos.saturating_sub(earlier(pid))).sum()
}

fn read() -> Option<CpuTimes> {
    let threads = fs::read_to_string(format!("{KTHREADD}/task/2/children")).ok()?;
    // The first field is CPU time in nanoseconds. A thread may have ended since.
    let nanos = |pid: &str| -> Option<(i32, u64)> {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        Some((pid.parse().ok()?, text.split_whitespace().next()?.parse().ok()?))
    };
    Some(threads.split_whitespace().filter_map(nanos).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_kernel_threads_is_read_where_they_are_visible() {
        let Some(mut threads) = KernelThreads::watch() else {
            println!("skipped: no kernel thread is visible here");
            return;
        };
        assert!(threads.before.values().any(|nanos| *nanos > 0));
        let (last, all) = (threads.in_last(0.0), threads.total());
        assert!(last == 0.0 && all >= 0.0);
    }

    #[test]
    fn threads_that_begin_count_and_threads_that_end_do_not() {
        let before = CpuTimes::from([(3, 500), (4, 900), (5, 100)]);
        let now = CpuTimes::from([(3, 600), (5, 100), (6, 70)]);
        assert_eq!(since(&before, &now), 170);
    }
}
