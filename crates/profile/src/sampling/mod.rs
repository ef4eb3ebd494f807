//! Sampling what runs, by `perf_event_open(2)`.
//!
//! Each CPU has a buffer, in which the kernel writes samples and what is needed to understand them: which
//! code is mapped where, which process comes from which. A thread of ours empties the buffers and counts
//! equal stacks together as they come.
//!
//! Two events write into each buffer. One takes no samples and is on from the beginning, so that nothing
//! about processes is missed; the other samples, and can be switched on and off at any time, for what has
//! been started meanwhile as well.

mod access;
mod drain;
mod event;
mod ring;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;
use std::{fs, io};

use rustix::event::{EventfdFlags, eventfd};

pub use access::SampleError;
use drain::Drain;
use event::{Event, Role};
use ring::Ring;

use crate::capture::{About, Capture, Clock, Losses, Machine, Unit, Work};
use crate::kernel_symbols::KernelSymbols;

/// Samples per second and CPU unless the user says otherwise. No divisor of what programs do by the
/// clock, as Brendan Gregg has it.
pub const FREQUENCY: u64 = 997;

/// What to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// A process, all its threads, and whatever they start from now on.
    Process(i32),
    /// A process that is about to become a program: sampled from then on, with whatever it starts.
    Exec(i32),
    /// Everything on all CPUs.
    System,
}

/// What makes a sample due.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Every {
    /// Cycles where the machine counts them, else the CPU's clock.
    #[default]
    Best,
    /// Cycles of the CPU.
    Cycles,
    /// A timer that runs while the CPU does (`cpu-clock`).
    CpuClock,
}

/// How to sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// What makes a sample due.
    pub every: Every,
    /// Samples per second and CPU.
    pub frequency: u64,
    /// A thread whose samples are left out, such as one that watches the others.
    pub without: Option<i32>,
}

impl Default for Options {
    fn default() -> Options {
        Options { every: Every::Best, frequency: FREQUENCY, without: None }
    }
}

/// What is being sampled. Dropping it ends that.
#[derive(Debug)]
pub struct Sampler {
    events: Arc<Vec<Event>>,
    /// Written to when it is enough.
    enough: Arc<OwnedFd>,
    seen: Arc<AtomicU64>,
    drain: Option<JoinHandle<drain::Drained>>,
    clock: Clock,
    sees_kernel: bool,
    knows_kernel: bool,
    on_since: Option<Instant>,
    seconds: f64,
}

impl Sampler {
    /// Readies all for sampling, which [`Sampler::enable`] begins; an [`Target::Exec`] begins it by itself.
    /// What happens to processes is watched from now on.
    ///
    /// # Errors
    /// What is missing, and how to get it.
    pub fn open(target: &Target, options: &Options) -> Result<Sampler, SampleError> {
        let cpus = online_cpus().map_err(SampleError::Cpus)?;
        let threads = match target {
            Target::System => vec![-1],
            Target::Exec(pid) => vec![*pid],
            Target::Process(pid) => threads(*pid)?,
        };
        let chosen = event::choose(target, options)?;
        let mut rings = Vec::new();
        let mut events = Vec::new();
        for (place, &cpu) in cpus.iter().enumerate() {
            for &thread in &threads {
                let Some(tracking) = Event::open(&chosen, Role::Tracking, thread, cpu)? else {
                    continue;
                };
                match rings.get(place) {
                    None => rings.push(Ring::map(&tracking)?),
                    Some(ring) => tracking.write_into(ring)?,
                }
                let Some(sampling) = Event::open(&chosen, Role::Sampling, thread, cpu)? else {
                    continue;
                };
                sampling.write_into(&rings[place])?;
                events.extend([tracking, sampling]);
            }
            if rings.len() <= place {
                return Err(gone(target));
            }
        }
        if *target != Target::System {
            for &thread in &threads {
                events.extend(Event::open(&chosen, Role::CpuTime, thread, -1)?);
            }
        }
        let enough = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| SampleError::Cpus(e.into()))?;
        let enough = Arc::new(enough);
        let events = Arc::new(events);
        let seen = Arc::new(AtomicU64::new(0));
        let (info, sees_kernel) = (chosen.parse_info(), chosen.sees_kernel());
        let clock = chosen.clock(options.frequency);
        let kernel = KernelSymbols::of_running().ok().filter(KernelSymbols::are_known);
        let knows_kernel = kernel.is_some();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let drain = {
            let (target, without) = (target.clone(), options.without);
            let (enough, seen) = (Arc::clone(&enough), Arc::clone(&seen));
            std::thread::Builder::new()
                .name("drain".into())
                .spawn(move || {
                    let mut drain = Drain::new(rings, info, kernel, without);
                    drain.read_processes(&target, &threads);
                    let _ = ready.send(());
                    drain.run(&enough, &seen)
                })
                .map_err(SampleError::Cpus)?
        };
        // What is there already is known before anything is sampled.
        let _ = is_ready.recv();
        Ok(Sampler {
            events,
            enough,
            seen,
            drain: Some(drain),
            clock,
            sees_kernel,
            knows_kernel,
            on_since: matches!(target, Target::Exec(_)).then(Instant::now),
            seconds: 0.0,
        })
    }

    /// Begins to sample.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn enable(&mut self) -> Result<(), SampleError> {
        self.switchable().try_for_each(Event::enable)?;
        self.on_since = Some(Instant::now());
        Ok(())
    }

    /// Ceases to sample.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn disable(&mut self) -> Result<(), SampleError> {
        self.switchable().try_for_each(Event::disable)?;
        if let Some(since) = self.on_since.take() {
            self.seconds += since.elapsed().as_secs_f64();
        }
        Ok(())
    }

    fn switchable(&self) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(|event| event.role() != Role::Tracking)
    }

    /// Samples so far, some tenths of a second late.
    pub fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Whether the kernel's functions are seen; if not, only what user space does is sampled.
    pub fn sees_kernel(&self) -> bool {
        self.sees_kernel
    }

    /// Whether functions of the kernel have names for us.
    pub fn knows_kernel_names(&self) -> bool {
        self.knows_kernel
    }

    /// What makes a sample due.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Ends sampling, and gives names to what was seen.
    ///
    /// # Errors
    /// The kernel refuses to stop.
    pub fn finish(
        mut self,
        title: impl Into<String>,
        started_at: impl Into<String>,
        work: Option<Work>,
    ) -> Result<Capture, SampleError> {
        self.disable()?;
        let lost = self.events.iter().map(Event::lost).sum::<Option<u64>>();
        let cpu_time: Vec<u64> = self.events.iter().filter_map(Event::cpu_time).collect();
        let drained = self.stop().expect("it is stopped once");
        let losses = drained.losses;
        let about = About {
            title: title.into(),
            machine: Machine {
                kernel: kernel_release(),
                cpus: online_cpus().map_or(0, |cpus| cpus.len() as u32),
                started_at: started_at.into(),
            },
            clock: self.clock.clone(),
            seconds: Some(self.seconds),
            cpu_seconds: (!cpu_time.is_empty()).then(|| cpu_time.iter().sum::<u64>() as f64 / 1e9),
            work,
            // What the events count includes what the buffers could not say for want of room.
            losses: Losses { lost: lost.unwrap_or(losses.lost), ..losses },
        };
        Ok(drained.stacks.finish(about))
    }

    fn stop(&mut self) -> Option<drain::Drained> {
        let drain = self.drain.take()?;
        let _ = rustix::io::write(self.enough.as_fd(), &1_u64.to_ne_bytes());
        Some(drain.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Online CPUs, by number.
fn online_cpus() -> io::Result<Vec<i32>> {
    let text = fs::read_to_string("/sys/devices/system/cpu/online")?;
    let mut cpus = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let number = |digits: &str| digits.parse::<i32>().map_err(io::Error::other);
        cpus.extend(number(first)?..=number(last)?);
    }
    Ok(cpus)
}

fn threads(pid: i32) -> Result<Vec<i32>, SampleError> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    let tasks = tasks.map_err(|_| SampleError::NoProcess { pid })?;
    let number = |entry: io::Result<fs::DirEntry>| entry.ok()?.file_name().to_str()?.parse().ok();
    Ok(tasks.filter_map(number).collect())
}

fn gone(target: &Target) -> SampleError {
    match target {
        Target::Process(pid) | Target::Exec(pid) => SampleError::NoProcess { pid: *pid },
        Target::System => SampleError::Cpus(io::ErrorKind::NotFound.into()),
    }
}

fn kernel_release() -> String {
    let uname = rustix::system::uname();
    format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy())
}

/// The unit of a clock's weights.
fn unit(every: Every) -> Unit {
    if every == Every::CpuClock { Unit::Nanoseconds } else { Unit::Cycles }
}

#[cfg(test)]
pub(crate) mod tests;
