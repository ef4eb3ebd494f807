//! The part that all recordings share: events on all CPUs, their buffers, and a thread that empties them.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Instant;

use knee_host::limits::raise_open_files;
use rustix::event::{EventfdFlags, eventfd};

use super::access::SampleError;
use super::cpu_time::{CpuTime, parents};
use super::drain::{Code, Collector, Drain};
use super::event::{Chosen, Event, Role};
use super::once::Once;
use super::opened::Opened;
use super::running::Running;
use super::target::Target;
use crate::records::{Family, read_maps};

/// Events, and a thread that collects their records into a `T`.
#[derive(Debug)]
pub(super) struct Session<T> {
    pub(super) chosen: Chosen,
    events: Vec<Event>,
    /// The target process; `None` for the whole system.
    root: Option<i32>,
    /// How many processes of the target were running when the events were opened.
    pub(super) running: usize,
    /// CPU time, if no events count it.
    cpu_time: Option<CpuTime>,
    /// Sends mappings to the thread.
    codes: Sender<Code>,
    /// A write to it stops the thread.
    enough: Arc<OwnedFd>,
    seen: Arc<AtomicU64>,
    drain: Option<JoinHandle<T>>,
    on_since: Option<Instant>,
    /// Seconds for which the events were enabled.
    pub(super) seconds: f64,
}

impl<T: Send + 'static> Session<T> {
    /// Opens events and starts the thread. The thread calls `collector` with the sampled processes that run
    /// already, before any record arrives.
    pub(super) fn open<C: Collector<Collected = T>>(
        target: &Target,
        chosen: Chosen,
        collector: impl FnOnce(&[i32]) -> C + Send + 'static,
    ) -> Result<Session<T>, SampleError> {
        // Each thread has at least two events on each CPU.
        raise_open_files();
        let mut running = Running::default();
        let mut opened = Opened::new(target, &chosen)?;
        let first = running.update(target)?;
        if chosen.of_cpus {
            opened.open(&[-1])?;
            // What has started since the first list, before the events recorded it.
            running.update(target)?;
        } else {
            opened.open(&first)?;
        }
        let root = target.pid();
        let counts_cpu_time = root.is_some() && chosen.is_of_cpu_time() && chosen.sees_kernel;
        let mut once = None;
        if !chosen.of_cpus {
            if counts_cpu_time {
                opened.count_cpu_time(&first)?;
            }
            if opened.open_late(&mut running, target)? {
                once = Some(Once::new(opened.kinds()));
            }
        }
        let Opened { rings, events, .. } = opened;
        let enough = eventfd(0, EventfdFlags::CLOEXEC).map_err(|e| SampleError::Cpus(e.into()))?;
        let enough = Arc::new(enough);
        let seen = Arc::new(AtomicU64::new(0));
        let info = chosen.parse_info();
        let processes: Vec<i32> = running.processes.into_iter().collect();
        let running = processes.len();
        let (ready, is_ready) = channel();
        let (codes, codes_sent) = channel();
        let drain = {
            let (enough, seen) = (Arc::clone(&enough), Arc::clone(&seen));
            std::thread::Builder::new()
                .name("drain".into())
                .spawn(move || {
                    let collector = collector(&processes);
                    let drain = Drain::new(rings, info, once, codes_sent, collector);
                    let _ = ready.send(());
                    drain.run(&enough, &seen)
                })
                .map_err(SampleError::Cpus)?
        };
        // The running processes are read before anything is sampled.
        let _ = is_ready.recv();
        let is_begun = matches!(target, Target::Exec(_));
        let begins_here = is_begun && chosen.of_cpus;
        let mut session = Session {
            cpu_time: (counts_cpu_time && chosen.of_cpus).then(CpuTime::default),
            chosen,
            events,
            root,
            running,
            codes,
            enough,
            seen,
            drain: Some(drain),
            on_since: is_begun.then(Instant::now),
            seconds: 0.0,
        };
        if begins_here {
            // An event of a CPU cannot be enabled by an exec.
            session.enable()?;
        }
        Ok(session)
    }

    /// Enables the events.
    pub(super) fn enable(&mut self) -> Result<(), SampleError> {
        if let Some(root) = self.root.filter(|_| !self.chosen.follows_code) {
            let maps = read_maps(root).unwrap_or_default();
            let started = Family::of(root, []).adopt(parents());
            // This fails only if the thread has panicked, which is reported when it is joined.
            let _ = self.codes.send(Code { pid: root, maps, started });
        }
        self.cpu_time.iter_mut().for_each(CpuTime::begin);
        self.switchable().try_for_each(Event::enable)?;
        self.on_since = Some(Instant::now());
        Ok(())
    }

    /// Disables the events, in the reverse order of enabling.
    pub(super) fn disable(&mut self) -> Result<(), SampleError> {
        let events: Vec<&Event> = self.switchable().collect();
        events.into_iter().rev().try_for_each(Event::disable)?;
        self.cpu_time.iter_mut().for_each(CpuTime::end);
        if let Some(since) = self.on_since.take() {
            self.seconds += since.elapsed().as_secs_f64();
        }
        Ok(())
    }

    /// The events that are enabled and disabled, in the order of enabling.
    fn switchable(&self) -> impl Iterator<Item = &Event> {
        let roles = self.chosen.roles().iter().chain(&[Role::CpuTime]);
        roles.flat_map(|role| self.events.iter().filter(move |event| event.role == *role))
    }

    /// Samples so far, up to some tenths of a second ago.
    pub(super) fn seen(&self) -> u64 {
        self.seen.load(Ordering::Relaxed)
    }

    /// Lost records of the events with these roles; `None` if the kernel does not count them.
    pub(super) fn lost(&self, roles: &[Role]) -> Option<u64> {
        let writers = self.events.iter().filter(|event| roles.contains(&event.role));
        writers.map(Event::lost).sum::<Option<u64>>().filter(|_| self.chosen.counts_lost)
    }

    /// CPU seconds of the sampled processes, if known.
    pub(super) fn cpu_seconds(&self, family: Option<&Family>) -> Option<f64> {
        if let Some(time) = &self.cpu_time {
            return time.seconds(family?);
        }
        let clocks = self.events.iter().filter(|event| event.role == Role::CpuTime);
        let times: Vec<u64> = clocks.filter_map(Event::cpu_time).collect();
        (!times.is_empty()).then(|| times.iter().sum::<u64>() as f64 / 1e9)
    }

    /// Stops the thread, and returns its result.
    pub(super) fn collected(&mut self) -> T {
        self.stop().expect("the thread is stopped once")
    }
}

impl<T> Session<T> {
    fn stop(&mut self) -> Option<T> {
        let drain = self.drain.take()?;
        let _ = rustix::io::write(self.enough.as_fd(), &1_u64.to_ne_bytes());
        Some(drain.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    }
}

impl<T> Drop for Session<T> {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}
