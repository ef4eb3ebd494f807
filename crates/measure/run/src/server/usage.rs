//! CPU time of a server in the measured part of its load.

use std::time::Instant;

use knee_results::Counts;

use super::places::Places;
use super::process::Process;
use crate::account::{Balance, CpuTimes, CpuUse, TICK};

/// If other work got more than this share of the CPUs of the server or of its load, it may have slowed them down.
const LOST_SHARE: f64 = 0.05;

/// CPU times at the start of the measured part.
pub(super) struct Window {
    begun: Instant,
    server_cpus: Watched,
    /// `None` if the load comes from another host.
    load_cpus: Option<Watched>,
    server: f64,
    load: f64,
}

/// CPU times of the measured part.
pub(super) struct Usage {
    /// Its length.
    pub(super) seconds: f64,
    /// CPU seconds of the server.
    pub(super) server: f64,
    /// CPU seconds of the command on this machine that put load on it; 0 if the load came from knee.
    pub(super) load: f64,
    /// The events of the server, if they are counted.
    pub(super) counts: Option<Counts>,
    pub(super) server_cpus: Spent,
    /// `None` if the load came from another host.
    pub(super) load_cpus: Option<Spent>,
}

/// CPUs at the start of the measured part.
struct Watched {
    count: usize,
    times: CpuTimes,
}

/// How some CPUs spent the measured part.
pub(super) struct Spent {
    count: usize,
    seconds: f64,
    pub(super) cpus: CpuUse,
}

impl Window {
    pub(super) fn open(places: &Places, server: &mut Process, load: Option<&Process>) -> Self {
        let load = load.map_or(0.0, Process::cpu_seconds);
        // What happened before does not count.
        server.counts_since_last();
        let server = server.cpu_seconds();
        let watch = |cpus: &[u32]| Watched { count: cpus.len(), times: CpuTimes::watch(cpus) };
        let server_cpus = watch(&places.server);
        let load_cpus = (!places.load.is_empty()).then(|| watch(&places.load));
        Self { begun: Instant::now(), server_cpus, load_cpus, server, load }
    }

    /// `None` if the part was shorter than a clock tick, or the times cannot be read.
    pub(super) fn close(mut self, server: &mut Process, load: Option<&Process>) -> Option<Usage> {
        // In the order of `open`, so that all of them cover the same length of time. The time of a process that has
        // ended is counted in whole clock ticks, so a sum may be less than before.
        let load = (load.map_or(0.0, Process::cpu_seconds) - self.load).max(0.0);
        let counts = server.counts_since_last();
        let server = (server.cpu_seconds() - self.server).max(0.0);
        let server_cpus = self.server_cpus.times.since_last()?;
        let load_cpus = match &mut self.load_cpus {
            Some(watched) => Some(watched.times.since_last()?),
            None => None,
        };
        let seconds = self.begun.elapsed().as_secs_f64();
        let load_count = self.load_cpus.map_or(0, |watched| watched.count);
        Some(Usage {
            seconds,
            server,
            load,
            counts,
            server_cpus: Spent { count: self.server_cpus.count, seconds, cpus: server_cpus },
            load_cpus: load_cpus.map(|cpus| Spent { count: load_count, seconds, cpus }),
        })
    }
}

impl Usage {
    /// Share of the time of the server's CPUs in which the server or interrupts ran, 0 to 1.
    pub(super) fn busy(&self) -> f64 {
        let had = self.server_cpus.count as f64 * self.seconds;
        ((self.server + self.server_cpus.cpus.taken) / had).clamp(0.0, 1.0)
    }

    /// The share of the server's CPUs that other work got.
    pub(super) fn lost(&self) -> f64 {
        self.server_cpus.balance(self.server).share()
    }
}

impl Spent {
    /// Whether other work got so much of the CPUs that it may have slowed down what used `own` CPU seconds of them.
    pub(super) fn is_disturbed(&self, own: f64) -> bool {
        self.balance(own).has_lost(LOST_SHARE, self.count, &self.cpus, TICK)
    }

    fn balance(&self, own: f64) -> Balance {
        Balance::of(self.count, self.seconds, &self.cpus, own)
    }
}
