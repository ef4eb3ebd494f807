//! Locks of programs, which nobody passes on: a task that has released one may take it again before a waiter has noticed.
//! The throughput then lies between that of a lock that is passed on after each section, which is simulated, and that of
//! sections without anything in between, which is the bound.

use super::usage::{Station, Usage};
use super::workload::{LockKind, Step, Workload};

/// Sets the times of sections of such locks, and the rates at which the locks would always be busy, to those of the
/// instructions alone. An iteration of one task takes `iteration_ns`.
pub(super) fn without_handover(usages: &mut [Usage], workload: &Workload, iteration_ns: f64) {
    for usage in usages {
        let Station::Lock(lock) = usage.station else { continue };
        if workload.locks[lock].kind != LockKind::Futex {
            continue;
        }
        let share = instructions_inside(workload, lock) / workload.mean_instructions();
        let own = share * iteration_ns;
        if own > 0.0 && own < usage.service_ns {
            usage.plateau *= usage.service_ns / own;
            usage.service_ns = own;
        }
    }
}

/// Mean instructions of a section.
fn instructions_inside(workload: &Workload, of: usize) -> f64 {
    let (mut sections, mut instructions, mut is_held) = (0.0, 0.0, false);
    for step in workload.steps() {
        match *step {
            Step::Acquire { lock, .. } if lock == of => {
                sections += 1.0;
                is_held = true;
            }
            Step::Release { lock } if lock == of => is_held = false,
            Step::Compute { instructions: more } if is_held => instructions += more,
            _ => {}
        }
    }
    if sections > 0.0 { instructions / sections } else { 0.0 }
}
