//! What came of a test, where it has been run: of a kernel, or of a library.

use std::fmt::{self, Display, Formatter};

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

/// In words: `not run: …`.
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

/// `a returned 1, expected {"result":0} (order ab)`.
impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Finding { order, call, expected, returned } = self;
        write!(f, "{call} returned {returned}, expected {expected} (order {order})")
    }
}
