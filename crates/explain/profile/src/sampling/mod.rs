//! Sampling by `perf_event_open(2)`.
//!
//! The kernel writes into one buffer per CPU: samples, mappings of code, and starts of processes. A thread of
//! knee empties the buffers and counts equal stacks together.
//!
//! Two events write into each buffer. One takes no samples and is always enabled, so that it misses no process.
//! The other one takes samples, also of processes that start later, and can be enabled and disabled at any
//! time.

mod access;
mod cpu_time;
mod drain;
mod event;
mod locks;
mod once;
mod opened;
mod options;
mod proc;
mod processes;
mod ring;
mod running;
mod session;
mod target;
mod tracefs;
mod watch;

use std::fs;

pub use access::SampleError;
use drain::Collected;
use event::{Chosen, Role, What};
pub use locks::LockSampler;
pub use options::{Every, FREQUENCY, Options};
use ring::Ring;
use session::Session;
pub use target::Target;
pub use watch::Watch;

use knee_host::CpuList;

use crate::capture::{Capture, Clock, Losses, Machine, Work};
use crate::kernel_symbols::KernelSymbols;
use crate::records::{OffCpu, Records};

/// A sampling. Dropping it ends the sampling.
#[derive(Debug)]
pub struct Sampler {
    session: Session<Collected>,
    clock: Clock,
    knows_kernel: bool,
}

impl Sampler {
    /// Prepares a sampling with a given configuration.
    fn with(
        target: &Target,
        options: &Options,
        mut chosen: Chosen,
    ) -> Result<Sampler, SampleError> {
        let Options { every, frequency, without, fixed_code } = *options;
        chosen.follows_code = !fixed_code;
        let clock = chosen.clock().expect("samples have a clock");
        let kernel = KernelSymbols::of_running();
        let knows_kernel = kernel.is_some();
        let off_cpu =
            (every == Every::OffCpu).then(|| OffCpu::new(1_000_000_000 / frequency.max(1)));
        let (of, of_cpus) = (target.clone(), chosen.of_cpus);
        let session = Session::open(target, chosen, move |running| {
            let mut records = Records::new(kernel);
            records.deepest = Some(deepest());
            records.without = without;
            records.family = if of_cpus { processes::family(&of, running) } else { None };
            records.off_cpu = off_cpu;
            processes::read(&mut records, &of, running);
            records
        })?;
        Ok(Sampler { session, clock, knows_kernel })
    }

    /// Whether the kernel is sampled; otherwise only user space is.
    pub fn sees_kernel(&self) -> bool {
        self.session.chosen.sees_kernel
    }

    /// Losses whose lost samples are distinguished from other lost records.
    fn losses(&self, losses: Losses) -> Losses {
        // The records of losses do not say what is lost, and any process can cause as many records of its names and
        // mappings as it likes. The counts of the events also include losses that a full buffer could not report.
        let lost = self.session.lost(self.session.chosen.roles());
        let lost = lost.unwrap_or_else(|| losses.lost.min(self.most_samples()));
        let untracked = self.session.lost(&[Role::Tracking]);
        let untracked = untracked.unwrap_or_else(|| losses.lost.saturating_sub(lost));
        Losses { lost, untracked, ..losses }
    }

    /// The most samples that the clock has triggered.
    fn most_samples(&self) -> u64 {
        let frequency = self.clock.frequency.filter(|_| self.session.chosen.is_of_cpu_time());
        let cpus = CpuList::online().map_or(0, |cpus| cpus.len());
        frequency.map_or(u64::MAX, |frequency| {
            (frequency as f64 * self.session.seconds * cpus as f64).ceil() as u64
        })
    }

    /// The clock that triggers samples.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Watch for Sampler {
    type Taken = Capture;

    /// Processes and their mappings are tracked from now on.
    fn open(target: &Target, options: &Options) -> Result<Sampler, SampleError> {
        let Options { every, frequency, .. } = *options;
        let chosen = event::choose(target, What::Clock { every, frequency }, Ring::BYTES)?;
        Sampler::with(target, options, chosen)
    }

    fn enable(&mut self) -> Result<(), SampleError> {
        self.session.enable()
    }

    fn disable(&mut self) -> Result<(), SampleError> {
        self.session.disable()
    }

    fn seen(&self) -> u64 {
        self.session.seen()
    }

    fn running(&self) -> usize {
        self.session.running
    }

    fn knows_kernel_names(&self) -> bool {
        self.knows_kernel
    }

    fn finish(
        mut self,
        title: impl Into<String>,
        started_at: impl Into<String>,
        work: Option<Work>,
    ) -> Result<Capture, SampleError> {
        self.disable()?;
        let Collected { stacks, losses, family } = self.session.collected();
        let losses = self.losses(losses);
        let cpu_seconds = self.session.cpu_seconds(family.as_ref());
        Ok(Capture {
            title: title.into(),
            machine: machine(started_at),
            clock: self.clock,
            seconds: Some(self.session.seconds),
            cpu_seconds,
            work,
            losses,
            ..stacks.finish()
        })
    }
}

/// This machine.
fn machine(started_at: impl Into<String>) -> Machine {
    Machine {
        kernel: knee_host::environment::kernel(),
        cpus: CpuList::online().map_or(0, |cpus| cpus.len() as u32),
        started_at: started_at.into(),
    }
}

/// Maximum addresses in a stack that the kernel records.
fn deepest() -> usize {
    let text = fs::read_to_string("/proc/sys/kernel/perf_event_max_stack").unwrap_or_default();
    // The kernel's own default, PERF_MAX_STACK_DEPTH.
    text.trim().parse().unwrap_or(127)
}

#[cfg(test)]
pub(crate) mod tests;
