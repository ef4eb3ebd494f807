//! Time that tasks waited for their CPUs.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Nanoseconds that threads spent runnable without running, from
/// `/proc/PID/task/TID/schedstat` (fields: on CPU, waiting, time slices;
/// Documentation/scheduler/sched-stats.rst).
pub(super) struct RunDelays {
    files: Vec<Option<File>>,
    before: Vec<u64>,
}

impl RunDelays {
    /// Watches (process, thread) pairs. If the kernel does not provide schedstat, the waiting time
    /// is 0.
    pub(super) fn watch(threads: impl Iterator<Item = (i32, i32)>) -> Self {
        let files: Vec<_> = threads
            .map(|(pid, tid)| File::open(format!("/proc/{pid}/task/{tid}/schedstat")).ok())
            .collect();
        let before = vec![0; files.len()];
        let mut delays = Self { files, before };
        delays.longest();
        delays
    }

    /// The longest time in seconds that any thread has waited since the last call.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{kernel_file as file, rewrite as write};

    #[test]
    fn the_longest_wait_since_the_last_call_counts() {
        let files = [file("9 1000000000 3\n"), file("9 4000000000 3\n")];
        let [one, other] = &files.each_ref().map(|file| file.try_clone().unwrap());
        let [first, second] = files;
        let mut delays =
            RunDelays { files: vec![Some(first), None, Some(second)], before: vec![0; 3] };
        assert_eq!(delays.longest(), 4.0);
        assert_eq!(delays.longest(), 0.0, "nothing new");
        write(one, "12 3500000000 5\n");
        write(other, "12 5000000000 5\n");
        assert_eq!(delays.longest(), 2.5);
        write(one, "not a number\n");
        assert_eq!(delays.longest(), 0.0);
    }

    #[test]
    fn a_thread_of_this_process_can_be_watched() {
        let pid = std::process::id() as i32;
        let delays = RunDelays::watch([(pid, pid)].into_iter());
        let has_schedstat = std::path::Path::new("/proc/self/schedstat").exists();
        assert_eq!(delays.files[0].is_some(), has_schedstat);
    }
}
