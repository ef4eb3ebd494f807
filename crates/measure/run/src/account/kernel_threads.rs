//! The CPU time of kernel threads.
//!
//! A testcase leaves work to them: kfree_rcu() of mmap1 runs in a kworker, packets in ksoftirqd. This
//! time counts as the tasks' own, although a kernel thread may also have worked for others.

use std::fs;

/// Process id of kthreadd, the parent of all kernel threads, outside of containers.
const KTHREADD: &str = "/proc/2";

/// Reads the CPU time of all kernel threads.
pub(crate) struct KernelThreads {
    before: f64,
}

impl KernelThreads {
    /// `None` if kernel threads are invisible, as in a container.
    pub(crate) fn watch() -> Option<Self> {
        let comm = fs::read_to_string(format!("{KTHREADD}/comm")).ok()?;
        let before = (comm.trim_end() == "kthreadd").then(read)??;
        Some(Self { before })
    }

    /// CPU seconds since the last call.
    pub(crate) fn since_last(&mut self) -> f64 {
        let now = read().unwrap_or(self.before);
        (now - std::mem::replace(&mut self.before, now)).max(0.0)
    }
}

fn read() -> Option<f64> {
    let threads = fs::read_to_string(format!("{KTHREADD}/task/2/children")).ok()?;
    // The first field is CPU time in nanoseconds. A thread may have ended since.
    let nanos = |pid: &str| -> Option<f64> {
        let text = fs::read_to_string(format!("/proc/{pid}/schedstat")).ok()?;
        text.split_whitespace().next()?.parse().ok()
    };
    Some(threads.split_whitespace().filter_map(nanos).sum::<f64>() / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_kernel_threads_grows_where_they_are_visible() {
        let Some(mut threads) = KernelThreads::watch() else {
            println!("skipped: no kernel thread is visible here");
            return;
        };
        assert!(threads.before > 0.0);
        assert!(threads.since_last() >= 0.0);
    }
}
