//! What came of a test, where it has been run: of a kernel, or of a library.

use serde::{Deserialize, Serialize};

/// What came of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// All calls returned what the model says.
    AsExpected,
    /// Some did not.
    Different(Vec<Finding>),
    /// It could not be run: there is no way to do what it asks for.
    NotRun(String),
    /// A step of its set-up failed.
    SetupFailed(String),
}

/// A call that returned something else than the model says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The order of the calls: `ab`.
    pub order: String,
    /// Which call: `a`.
    pub call: String,
    /// What the model says, as in the test.
    pub expected: String,
    /// What it returned.
    pub returned: String,
}
