//! What an exploration finds.

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::execution::Stop;
use crate::literal::Literal;

/// What calls are called.
pub(crate) const LABELS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// What call `nr` is called: `a`, `b` …
pub fn call_label(nr: usize) -> &'static str {
    LABELS[nr]
}

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Questions of one execution.
    pub questions: usize,
    /// Situations of one set of operations.
    pub situations: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { questions: 200, situations: 100_000 }
    }
}

/// Whether operations commute in a situation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// They do.
    Commute,
    /// They do not: the first thing that tells the orders apart.
    Differ(Difference),
}

/// What tells two orders apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The result of a call.
    Result {
        /// Which call, from 0.
        call: usize,
        /// Which part of what it sees.
        field: String,
        /// What that is in each of the two orders.
        seen: [String; 2],
        /// The two orders.
        orders: [String; 2],
    },
    /// The state that is left.
    State {
        /// What is in the same place.
        seen: [String; 2],
        /// The two orders.
        orders: [String; 2],
    },
}

/// A class of initial states and arguments in which the model does not tell any difference.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Situation {
    /// What holds there, or its opposite; of no two situations all of it can hold.
    pub condition: Vec<(Literal, bool)>,
    /// Whether the operations commute.
    pub verdict: Verdict,
    /// What somebody needs who does not believe the verdict.
    #[serde(rename = "grounds")]
    pub certificate: Certificate,
}

/// A path that is no situation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InfeasiblePath {
    /// What was answered.
    pub condition: Vec<(Literal, bool)>,
    /// What the model took for granted: with the condition it does not hold.
    pub assumed: Vec<(Literal, bool)>,
}

/// All situations of some operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exploration {
    /// In a fixed order.
    pub situations: Vec<Situation>,
    /// Where what the model took for granted does not hold: no situations.
    #[serde(rename = "impossible")]
    pub infeasible: Vec<InfeasiblePath>,
    /// How far it went.
    pub extent: Extent,
}

/// How far an exploration went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// How many paths were cut off because they asked too much.
    pub too_deep: usize,
    /// Whether there is more than was allowed to be looked at.
    pub cut: bool,
}

/// A model that cannot be explored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelError {
    /// An execution that cannot be trusted.
    Untrusted {
        /// The operations.
        operations: Vec<String>,
        /// What had been answered.
        path: Vec<String>,
        /// What is wrong.
        stop: Stop,
    },
    /// The program that the model is in does not do what it should.
    Program {
        /// The program.
        program: String,
        /// What it did instead.
        what: String,
    },
}

impl std::fmt::Display for ModelError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Untrusted { operations, path, stop } => {
                let path = if path.is_empty() { "nothing".to_owned() } else { path.join(", ") };
                write!(f, "{}: {stop}, after: {path}", operations.join(" and "))
            }
            Self::Program { program, what } => write!(f, "{program}: {what}"),
        }
    }
}

impl std::error::Error for ModelError {}
