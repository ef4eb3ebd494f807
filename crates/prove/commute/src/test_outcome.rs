//! The outcome of a test that was run on a kernel or a library.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// The outcome of a test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TestOutcome {
    /// All calls returned the expected results.
    AsExpected,
    /// These calls did not return the expected results.
    Different(Vec<Finding>),
    /// The runner does not support the test, for this reason.
    NotRun(String),
    /// A step of the set-up failed, for this reason.
    SetupFailed(String),
}

/// The outcome as text, such as `not run: …`.
impl Display for TestOutcome {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::AsExpected => f.write_str("as the model allows"),
            Self::Different(findings) => {
                let findings: Vec<String> = findings.iter().map(Finding::to_string).collect();
                f.write_str(&findings.join("; "))
            }
            Self::NotRun(why) => write!(f, "not run: {why}"),
            Self::SetupFailed(why) => write!(f, "set-up failed: {why}"),
        }
    }
}

/// A call with an unexpected result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The order of the calls, such as `ab`.
    pub order: String,
    /// The label of the call, such as `a`.
    pub call: String,
    /// The expected result, as in the test.
    pub expected: String,
    /// The result that the call returned.
    pub returned: String,
}

/// The finding as text, such as `a returned 1, expected {"result":0} (order ab)`.
impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Finding { order, call, expected, returned } = self;
        write!(f, "{call} returned {returned}, expected {expected} (order {order})")
    }
}
