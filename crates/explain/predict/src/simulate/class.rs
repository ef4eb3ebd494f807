//! What a prediction can be trusted for.

use super::usage::{Station, Usage};
use super::workload::{Access, LockKind, Step, Workload};

/// A loss of throughput that is not considered as contention.
pub(super) const NEGLIGIBLE: f64 = 0.05;
/// More transfers than this share between sockets are not within a socket.
const BETWEEN_SOCKETS: f64 = 0.01;
/// With more waiters than this, more than one sleeps: the first one spins.
const SPINS_AND_SLEEPS: f64 = 2.0;
/// With more waiters than this, compare-and-swap often fails.
const OVERTAKES: f64 = 1.0;

/// What limits a point, and so how close a prediction can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing that tasks share: only the clock and the hardware threads. Expect an error of 5 to
    /// 10 %.
    A,
    /// A line or a spin lock within a socket. Expect 5 to 15 %, and more if the instructions inside
    /// a lock are unknown.
    B,
    /// A line or a spin lock over several sockets. Expect 10 to 25 % for locks, and a factor of 1.4
    /// for lines.
    C,
    /// Locks whose waiters sleep, a loop of compare-and-swap that often fails, or interrupts of other CPUs. Only the bound is
    /// known; the simulated rate can be wrong by a factor of 2 to 4.
    D,
}

impl std::fmt::Display for Class {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, out)
    }
}

impl Class {
    /// The class of a point with these usages, the busiest first. `share` is the part of the
    /// throughput without contention that remains.
    pub(super) fn of(workload: &Workload, usages: &[Usage], share: f64) -> Self {
        let sleeps = |usage: &&Usage| match usage.station {
            Station::Lock(lock) => {
                workload.locks[lock].kind != LockKind::Spin && usage.waiting > SPINS_AND_SLEEPS
            }
            _ => false,
        };
        let binding = match usages.first() {
            Some(binding) if share < 1.0 - NEGLIGIBLE => binding,
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
