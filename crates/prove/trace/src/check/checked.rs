//! The result of a test.

use knee_agent::Outcome;

use crate::datum::Layouts;
use crate::guest::End;
use crate::record::{TestResult, TracedAccess};

/// A test with its result.
#[derive(Debug, Clone)]
pub struct Checked {
    /// Its id.
    pub id: String,
    /// The outcome of the calls. If the guest or the program did not survive the test, `Err` says how the
    /// guest or the program ended.
    pub outcome: Result<Outcome, End>,
    /// What the plugin observed in each traced run.
    pub runs: Vec<TestResult>,
    /// With [`CheckOptions::trace`](crate::CheckOptions::trace), every access of the first test, which then runs
    /// only once. Otherwise empty.
    pub trace: Vec<TracedAccess>,
    /// The types of data that no earlier test of the guest had.
    pub layouts: Layouts,
}

impl Checked {
    /// A test none of whose runs was observed.
    pub(crate) fn unobserved(id: String, outcome: Result<Outcome, End>) -> Checked {
        Checked { id, outcome, runs: Vec::new(), trace: Vec::new(), layouts: Layouts::default() }
    }
}
