//! Testcases whose tasks share an object of their process.

use knee_run::{Family, Need, Outcome, Task, Testcase};

/// A testcase whose tasks share an object of their process.
pub(super) const fn shared(run: fn(&Task<'_>) -> Outcome) -> Testcase {
    Testcase { needs: &[Need::Threads], ..Testcase::new(Family::Sync, run) }
}

/// Repeats `operation` forever. Calls it once before the start, because a thread registers when it
/// first takes part.
#[inline]
pub(super) fn repeat(task: &Task<'_>, mut operation: impl FnMut()) -> Outcome {
    operation();
    task.repeat(|| {
        operation();
        Ok(())
    })
}
