//! How busy lines and locks are.

use super::engine::{Found, Tally};
use super::workload::{SHOOTDOWN, Workload};

/// What tasks wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Station {
    /// A line, by its index.
    Line(usize),
    /// A lock, by its index.
    Lock(usize),
    /// Interrupts of other CPUs.
    Shootdown,
}

/// How a station is used at a number of tasks.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// The station.
    pub station: Station,
    /// Name of the line or lock.
    pub name: String,
    /// How many of these lines or locks are in use.
    pub instances: usize,
    /// Share of the time during which the busiest of them is busy.
    pub utilisation: f64,
    /// Mean number of tasks that wait for the most wanted of them.
    pub waiting: f64,
    /// Transfers of the line, or sections of the lock, per iteration. Loads that copy a line at the
    /// same time as others do not count.
    pub visits: f64,
    /// Mean time in ns of a transfer or section, with passing the lock on.
    pub service_ns: f64,
    /// Share of the transfers that come from another socket.
    pub far: f64,
    /// Iterations per second at which the busiest would always be busy. With one of them, that is 1
    /// / ([`visits`](Self::visits) × [`service_ns`](Self::service_ns)).
    pub plateau: f64,
}

impl Usage {
    /// The stations in use, the busiest first.
    pub(super) fn of(workload: &Workload, found: &Found, tasks: usize) -> Vec<Self> {
        let lines = workload.lines.iter().enumerate();
        let lines = lines.map(|(nr, line)| (Station::Line(nr), &line.name));
        let locks = workload.locks.iter().enumerate();
        let locks = locks.map(|(nr, lock)| (Station::Lock(nr), &lock.name));
        let mut usages: Vec<Self> = locks
            .chain(lines)
            .zip(&found.tallies)
            .filter_map(|((station, name), tallies)| Self::new(station, name, tallies, 1, found))
            .collect();
        // Each task waits for the CPUs that it interrupts.
        let shootdowns = std::slice::from_ref(&found.shootdowns);
        usages.extend(Self::new(Station::Shootdown, SHOOTDOWN, shootdowns, tasks, found));
        // A lock comes before the lines that it protects, which cannot be busier.
        usages.sort_by(|a, b| b.utilisation.total_cmp(&a.utilisation));
        usages
    }

    /// How one station is used, each instance of which serves so many tasks at the same time.
    fn new(
        station: Station,
        name: &str,
        tallies: &[Tally],
        at_once: usize,
        found: &Found,
    ) -> Option<Self> {
        let most = |value: fn(&Tally) -> f64| tallies.iter().map(value).fold(0.0, f64::max);
        let sum = |value: fn(&Tally) -> f64| tallies.iter().map(value).sum::<f64>();
        let services = sum(|tally| tally.services as f64);
        let busy = sum(|tally| tally.busy);
        if services == 0.0 || busy == 0.0 {
            return None;
        }
        let utilisation = (most(|tally| tally.busy) / found.window / at_once as f64).min(1.0);
        Some(Self {
            station,
            name: name.to_owned(),
            instances: tallies.iter().filter(|tally| tally.services > 0).count(),
            utilisation,
            waiting: most(|tally| tally.waited) / found.window,
            visits: services / (found.rate * found.window),
            service_ns: busy / services,
            far: (sum(|tally| tally.far as f64) / services).min(1.0),
            plateau: found.rate / utilisation * 1e9,
        })
    }
}
