//! Testcases whose tasks are the CPUs of one hosted machine.

use knee_run::{Family, Need, Outcome, Task, Testcase};

use super::choices::DESIGNS;

/// A testcase whose tasks are the CPUs of one machine.
pub(super) const fn hosted(run: fn(&Task<'_>) -> Outcome) -> Testcase {
    Testcase { needs: &[Need::Threads], ..Testcase::new(Family::Vm, run) }
}

/// One that older designs have as well.
pub(super) const fn of_any_design(run: fn(&Task<'_>) -> Outcome) -> Testcase {
    Testcase { parameters: DESIGNS, ..hosted(run) }
}
