//! What is taken of a testcase, a command or a process: a capture, or lock waits.

use knee_profile::Capture;
use knee_profile::capture::Work;
use knee_profile::locks::LockWaits;
use knee_profile::sampling::{LockSampler, Options, SampleError, Sampler, Target};

use super::HowArgs;
use crate::stderr::tell;

/// A sampler of some kind.
pub(super) trait Watch: Sized {
    /// What it takes.
    type Taken;

    /// Readies all; what a thread does may be left out.
    fn open(target: &Target, how: &HowArgs, without: Option<i32>) -> Result<Self, SampleError>;

    fn enable(&mut self) -> Result<(), SampleError>;

    fn disable(&mut self) -> Result<(), SampleError>;

    /// What has been taken so far, in words.
    fn so_far(&self) -> String;

    /// Says what is watched, and what is not seen.
    fn tell_how(&self);

    fn finish(
        self,
        title: String,
        started_at: String,
        work: Option<Work>,
    ) -> Result<Self::Taken, SampleError>;
}

impl Watch for Sampler {
    type Taken = Capture;

    fn open(target: &Target, how: &HowArgs, without: Option<i32>) -> Result<Sampler, SampleError> {
        let options = Options { every: how.event.into(), frequency: how.frequency, without };
        Sampler::open(target, &options)
    }

    fn enable(&mut self) -> Result<(), SampleError> {
        Sampler::enable(self)
    }

    fn disable(&mut self) -> Result<(), SampleError> {
        Sampler::disable(self)
    }

    fn so_far(&self) -> String {
        format!("{} samples", self.seen())
    }

    fn tell_how(&self) {
        let clock = self.clock();
        let why = match clock.event.as_str() {
            "cpu-clock" => " (a timer: code with interrupts off is seen at its end)",
            "off-cpu" => " (the time that threads are without a CPU, once they have lost one)",
            _ => "",
        };
        tell!("knee: sampling {} at {} Hz{why}", clock.event, clock.frequency.unwrap_or(0));
        if !self.sees_kernel() {
            tell!(
                "knee: without the kernel, which takes kernel.perf_event_paranoid 1 or less, or \
                 root: sysctl kernel.perf_event_paranoid=1"
            );
        } else if !self.knows_kernel_names() {
            tell!("{NO_NAMES}");
        }
    }

    fn finish(
        self,
        title: String,
        started_at: String,
        work: Option<Work>,
    ) -> Result<Capture, SampleError> {
        Sampler::finish(self, title, started_at, work)
    }
}

impl Watch for LockSampler {
    type Taken = LockWaits;

    fn open(
        target: &Target,
        _: &HowArgs,
        without: Option<i32>,
    ) -> Result<LockSampler, SampleError> {
        LockSampler::open(target, without)
    }

    fn enable(&mut self) -> Result<(), SampleError> {
        LockSampler::enable(self)
    }

    fn disable(&mut self) -> Result<(), SampleError> {
        LockSampler::disable(self)
    }

    fn so_far(&self) -> String {
        format!("{} records of waits", self.seen())
    }

    fn tell_how(&self) {
        tell!(
            "knee: watching waits for locks of the kernel, each of them (some µs of each are for \
             writing down its stack)"
        );
        if !self.knows_kernel_names() {
            tell!("{NO_NAMES}");
        }
    }

    fn finish(
        self,
        title: String,
        started_at: String,
        work: Option<Work>,
    ) -> Result<LockWaits, SampleError> {
        LockSampler::finish(self, title, started_at, work)
    }
}

const NO_NAMES: &str = "knee: the kernel's functions have no names here: as root, sysctl \
    kernel.kptr_restrict=0 kernel.perf_event_paranoid=1";
