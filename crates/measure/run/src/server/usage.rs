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
    cpus: usize,
    times: CpuTimes,
    load_cpus: usize,
    load_times: CpuTimes,
    server: f64,
    load: f64,
}

/// CPU times of the measured part.
pub(super) struct Usage {
    /// Its length.
    pub(super) seconds: f64,
    /// CPU seconds of the server.
    pub(super) server: f64,
    /// CPU seconds of the command that put load on it; 0 if the load came from knee.
    pub(super) load: f64,
    /// The events of the server, if they are counted.
    pub(super) counts: Option<Counts>,
    /// How the server's CPUs spent their time.
    pub(super) cpus: CpuUse,
    balance: Balance,
    count: usize,
    /// How the CPUs of the load spent their time.
    load_cpus: CpuUse,
    load_count: usize,
}

impl Window {
    pub(super) fn open(places: &Places, server: &mut Process, load: Option<&Process>) -> Self {
        let (cpus, load_cpus) = (&places.server, &places.load);
        let load = load.map_or(0.0, Process::cpu_seconds);
        // What happened before does not count.
        server.counts_since_last();
        let server = server.cpu_seconds();
        let times = CpuTimes::watch(cpus);
        let load_times = CpuTimes::watch(load_cpus);
        Self {
            begun: Instant::now(),
            cpus: cpus.len(),
            times,
            load_cpus: load_cpus.len(),
            load_times,
            server,
            load,
        }
    }

    /// `None` if the part was shorter than a clock tick, or the times cannot be read.
    pub(super) fn close(mut self, server: &mut Process, load: Option<&Process>) -> Option<Usage> {
        // In the order of `open`, so that all of them cover the same length of time. The time of a process that has
        // ended is counted in whole clock ticks, so a sum may be less than before.
        let load = (load.map_or(0.0, Process::cpu_seconds) - self.load).max(0.0);
        let counts = server.counts_since_last();
        let server = (server.cpu_seconds() - self.server).max(0.0);
        let cpus = self.times.since_last()?;
        let load_cpus = self.load_times.since_last()?;
        let seconds = self.begun.elapsed().as_secs_f64();
        let balance = Balance::of(self.cpus, seconds, &cpus, server);
        Some(Usage {
            seconds,
            server,
            load,
            counts,
            cpus,
            balance,
            count: self.cpus,
            load_cpus,
            load_count: self.load_cpus,
        })
    }
}

impl Usage {
    /// Share of the time of the server's CPUs in which the server or interrupts ran, 0 to 1.
    pub(super) fn busy(&self) -> f64 {
        let had = self.count as f64 * self.seconds;
        ((self.server + self.cpus.taken) / had).clamp(0.0, 1.0)
    }

    /// The share of the server's CPUs that other work got.
    pub(super) fn lost(&self) -> f64 {
        self.balance.share()
    }

    /// Whether other work got so much of the server's CPUs that it may have slowed down the server. The load
    /// may have used `load` CPU seconds of them.
    pub(super) fn is_disturbed(&self, load: f64) -> bool {
        let balance = Balance { lost: self.balance.lost - load, ..self.balance };
        balance.has_lost(LOST_SHARE, self.count, &self.cpus, TICK)
    }

    /// Whether other work got so much of the load's own CPUs that the load, which used `load` CPU seconds of them,
    /// may have been too slow for the server.
    pub(super) fn is_load_disturbed(&self, load: f64) -> bool {
        let balance = Balance::of(self.load_count, self.seconds, &self.load_cpus, load);
        balance.has_lost(LOST_SHARE, self.load_count, &self.load_cpus, TICK)
    }
}
