//! What knee records of a testcase, a command or a process: a capture or lock waits.

use knee_profile::sampling::{LockSampler, Sampler, Watch};

use crate::progress::{Amount, Progress};
use crate::stderr::tell;

/// A sampler of stacks or of lock waits, with messages for people.
pub(super) trait Recorder: Watch {
    /// The recording so far, in words.
    fn so_far(&self) -> String;

    /// Prints what the sampler records, and what it cannot see.
    fn describe(&self);

    /// Shows that `done` of `of` seconds are sampled; `of` is `None` if the end is unknown.
    fn show(&self, progress: &mut Progress, done: f64, of: Option<f64>) {
        let so_far = || format!("{} so far", self.so_far());
        match of {
            Some(seconds) => {
                let done = done.min(seconds) as u64;
                let amount = Amount { done, of: seconds.ceil() as u64, unit: "s" };
                progress.show_with(&amount, Some((amount.of - done) as f64), so_far);
            }
            None => progress.show_text(so_far),
        }
    }
}

impl Recorder for Sampler {
    fn so_far(&self) -> String {
        format!("{} samples", self.seen())
    }

    fn describe(&self) {
        let clock = self.clock();
        let why = match clock.event.as_str() {
            "cpu-clock" => " (a timer, which fires late while interrupts are disabled)",
            "off-cpu" => " (off-CPU time of each thread, from the first time it leaves a CPU)",
            _ => "",
        };
        tell!("knee: sampling {} at {} Hz{why}", clock.event, clock.frequency.unwrap_or(0));
        if !self.sees_kernel() {
            tell!(
                "knee: sampling user code only; to include the kernel, run as root: sysctl \
                 kernel.perf_event_paranoid=1"
            );
        } else if !self.knows_kernel_names() {
            tell!("{NO_NAMES}");
        }
    }
}

impl Recorder for LockSampler {
    fn so_far(&self) -> String {
        format!("{} lock wait records", self.seen())
    }

    fn describe(&self) {
        tell!(
            "knee: recording every kernel lock wait (recording the stack adds a few µs to each \
             wait)"
        );
        if !self.knows_kernel_names() {
            tell!("{NO_NAMES}");
        }
    }
}

const NO_NAMES: &str = "knee: the kernel hides the names of its functions; run as root: sysctl \
    kernel.kptr_restrict=0 kernel.perf_event_paranoid=1";
