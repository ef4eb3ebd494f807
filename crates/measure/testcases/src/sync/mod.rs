//! The crate knee-sync, primitive by primitive, each beside what it is to replace.
//!
//! All tasks use one object in the memory of their process, so these are for threads only: a process
//! would have an object of its own, and a curve that says nothing.

mod conn_lookup;
mod invalidation;
mod reclamation;
mod refcount;
mod rwlock;

use knee_results::Family;
use knee_run::task::{Outcome, Task};
use knee_run::testcase::{Need, Testcase};

pub(super) const TABLES: &[&[Testcase]] = &[
    reclamation::TESTCASES,
    rwlock::TESTCASES,
    refcount::TESTCASES,
    invalidation::TESTCASES,
    conn_lookup::TESTCASES,
];

/// A testcase whose tasks share an object of their process.
const fn shared(run: fn(&Task<'_>) -> Outcome) -> Testcase {
    Testcase { needs: &[Need::Threads], ..Testcase::new(Family::Sync, run) }
}

/// `operation` for ever. Once before the start, as a thread registers when it first takes part.
#[inline]
fn repeat(task: &Task<'_>, mut operation: impl FnMut()) -> Outcome {
    operation();
    task.repeat(|| {
        operation();
        Ok(())
    })
}
