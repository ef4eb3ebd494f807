//! What a prediction can be trusted for.

use super::usage::{Station, Usage};
use super::workload::{Access, LockKind, Step, Workload};

/// A loss of throughput that is not considered as contention.
const NEGLIGIBLE: f64 = 0.05;
/// More transfers than this share between sockets are not within a socket.
const BETWEEN_SOCKETS: f64 = 0.01;
/// With more waiters than this, more than one sleeps: the first one spins.
const SPINS_AND_SLEEPS: f64 = 2.0;
/// With more waiters than this, compare-and-swap often fails.
const OVERTAKES: f64 = 1.0;

/// What limits a point, and so which parts of the model its prediction depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing that tasks share: only the clock and the hardware threads.
    A,
    /// A line or a lock within a socket.
    B,
    /// A line or a lock over several sockets.
    C,
    /// Locks whose waiters may sleep, a loop of compare-and-swap that often fails, or interrupts of
    /// other CPUs. Only the bound is known.
    D,
}

/// Whether contention explains that this share of the throughput remains.
pub(super) fn is_contention(share: f64) -> bool {
    share < 1.0 - NEGLIGIBLE
}

impl std::fmt::Display for Class {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, out)
    }
}

impl Class {
    /// The class of a point with so many tasks and these usages, the busiest first. `share` is the
    /// part of the throughput without contention that remains.
    pub(super) fn of(workload: &Workload, tasks: u32, usages: &[Usage], share: f64) -> Self {
        if workload.interrupts && tasks > 1 {
            return Self::D;
        }
        let sleeps = |usage: &&Usage| match usage.station {
            Station::Lock(lock) => {
                workload.locks[lock].kind != LockKind::Spin && usage.waiting > SPINS_AND_SLEEPS
            }
            _ => false,
        };
        let binding = match usages.first() {
            Some(binding) if is_contention(share) => binding,
            _ => return Self::A,
        };
        let retries = match binding.station {
            Station::Line(line) => binding.waiting > OVERTAKES && is_compared(workload, line),
            _ => false,
        };
        match () {
            () if retries || usages.iter().any(|usage| sleeps(&usage)) => Self::D,
            () if binding.far > BETWEEN_SOCKETS => Self::C,
            () => Self::B,
        }
    }
}

/// Whether a line is changed by loops of compare-and-swap.
fn is_compared(workload: &Workload, of: usize) -> bool {
    let iterations = workload.recorded.iter().flat_map(|recorded| &recorded.iterations);
    iterations.flat_map(|iteration| &iteration.steps).any(
        |step| matches!(step, Step::Visit { line, access: Access::CompareExchange } if *line == of),
    )
}
