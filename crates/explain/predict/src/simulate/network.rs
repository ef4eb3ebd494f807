//! The closed network of a point, for mean value analysis.

use super::mva::Network;
use super::usage::{Station, Usage};
use super::workload::{Access, Hold, Scope, Step, Workload};

/// Where steps use a line or lock.
#[derive(Debug, Clone, Copy, Default)]
struct Place {
    /// While a lock is held, so that its time is part of that of the lock.
    is_inside: bool,
    /// While no lock is held.
    is_outside: bool,
    /// In a way that is not that of a queue with one server: reading at the same time, or storing
    /// without waiting.
    is_other: bool,
}

impl Place {
    fn add(&mut self, is_inside: bool, is_other: bool) {
        self.is_inside |= is_inside;
        self.is_outside |= !is_inside;
        self.is_other |= is_other;
    }
}

/// The network of stations with these usages, if all are queues with one server each: the lines
/// that are visited outside of locks, and the locks that are not taken inside others. `None` if a
/// line is visited both inside and outside of locks, only loaded or stored to, or one of several of
/// its kind, or if readers share a lock. `think_ns` is the time of an iteration without what locks
/// protect.
pub(super) fn network(workload: &Workload, usages: &[Usage], think_ns: f64) -> Option<Network> {
    let (lines, locks) = places(workload);
    let mut demands_ns = Vec::new();
    for usage in usages {
        let place = match usage.station {
            Station::Line(line) => lines[line],
            Station::Lock(lock) => locks[lock],
            Station::Shootdown => return None,
        };
        if place.is_other || place.is_inside && place.is_outside || usage.instances > 1 {
            return None;
        }
        if place.is_outside {
            demands_ns.push(usage.visits * usage.service_ns);
        }
    }
    Some(Network { think_ns, demands_ns })
}

/// Where each line and each lock is used.
fn places(workload: &Workload) -> (Vec<Place>, Vec<Place>) {
    let mut lines = vec![Place::default(); workload.lines.len()];
    let mut locks = vec![Place::default(); workload.locks.len()];
    for iteration in workload.iterations() {
        let mut held: Vec<usize> = Vec::new();
        for step in &iteration.steps {
            match *step {
                Step::Compute { .. } | Step::Shootdown => {}
                Step::Visit { line, access } => {
                    let is_other = matches!(access, Access::Load | Access::Store);
                    lines[line].add(!held.is_empty(), is_other);
                }
                // A lock that each task has for itself is not simulated.
                Step::Acquire { lock, .. } if workload.locks[lock].scope == Scope::Task => {}
                Step::Acquire { lock, hold } => {
                    let is_shared = hold == Hold::Shared;
                    locks[lock].add(!held.is_empty(), is_shared);
                    // What happens to the line is part of the lock, unless readers count
                    // themselves.
                    lines[workload.locks[lock].line].add(true, is_shared);
                    held.push(lock);
                }
                Step::Release { lock } => held.retain(|other| *other != lock),
            }
        }
    }
    (lines, locks)
}
