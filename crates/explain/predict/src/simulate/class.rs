//! What a prediction can be trusted for.

use knee_results::prediction::Class;

use super::usage::{Station, Usage};
use super::workload::{Hold, LockKind, Step, Workload};

/// A loss of throughput that is not considered as contention.
const NEGLIGIBLE: f64 = 0.05;
/// More transfers than this share between sockets are not within a socket.
const BETWEEN_SOCKETS: f64 = 0.01;
/// With more waiters than this, some sleep if there are readers.
const SLEEPS: f64 = 1.0;
/// With more waiters than this, a lock of a program mostly has one. It may sleep, or be overtaken.
const IS_WAITED_FOR: f64 = 0.5;

/// Whether contention explains that this share of the throughput remains.
pub(super) fn is_contention(share: f64) -> bool {
    share < 1.0 - NEGLIGIBLE
}

/// The class of a point with these usages, the busiest first. `share` is the
/// part of the throughput without contention that remains.
pub(super) fn class(workload: &Workload, usages: &[Usage], share: f64) -> Class {
    let sleeps = |usage: &Usage| match usage.station {
        Station::Lock(lock) if workload.locks[lock].kind == LockKind::Futex => {
            usage.waiting > IS_WAITED_FOR
        }
        Station::Lock(lock) => usage.waiting > SLEEPS && has_readers_and_writers(workload, lock),
        _ => false,
    };
    let binding = match usages.first() {
        Some(binding) if is_contention(share) => binding,
        _ => return Class::A,
    };
    match () {
        () if usages.iter().any(sleeps) => Class::D,
        () if binding.far > BETWEEN_SOCKETS => Class::C,
        () => Class::B,
    }
}

/// Whether a lock is a semaphore that some tasks share, and others have to themselves.
fn has_readers_and_writers(workload: &Workload, of: usize) -> bool {
    let is_held = |how: Hold| {
        workload
            .steps()
            .any(|step| matches!(step, Step::Acquire { lock, hold } if *lock == of && *hold == how))
    };
    let kind = workload.locks[of].kind;
    kind == LockKind::RwSemaphore && is_held(Hold::Shared) && is_held(Hold::Exclusive)
}
