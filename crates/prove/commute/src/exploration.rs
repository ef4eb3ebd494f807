//! The result of an exploration.

use serde::{Deserialize, Serialize};

use crate::certificate::Certificate;
use crate::execution::Stop;
use crate::literal::Literal;

/// The labels of calls.
pub(crate) const LABELS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// The label of call `nr`: `a`, `b` …
pub fn call_label(nr: usize) -> &'static str {
    LABELS[nr]
}

/// Limits of an exploration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// The maximum number of questions in one execution.
    pub questions: usize,
    /// The maximum number of situations of one set of operations.
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
    /// The operations commute.
    Commute,
    /// The operations do not commute. The field is the first difference found between two orders.
    Differ(Difference),
}

/// A difference between two orders of the calls.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// A call has different results in the two orders.
    Result {
        /// The index of the call.
        call: usize,
        /// The field in which the results differ.
        field: String,
        /// The values of this field in the two orders.
        seen: [String; 2],
        /// The two orders.
        orders: [String; 2],
    },
    /// The final states differ.
    State {
        /// The values that one part of the state has after the two orders.
        seen: [String; 2],
        /// The two orders.
        orders: [String; 2],
    },
}

/// A class of initial states and arguments for which the model takes the same path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Situation {
    /// The path condition: literals with their answers. The conditions of any two situations exclude each
    /// other.
    pub condition: Vec<(Literal, bool)>,
    /// Whether the operations commute.
    pub verdict: Verdict,
    /// The data that an independent checker of the verdict needs.
    #[serde(rename = "grounds")]
    pub certificate: Certificate,
}

/// A path that contradicts an assumption of the model. Such a path does not define a situation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InfeasiblePath {
    /// The path condition.
    pub condition: Vec<(Literal, bool)>,
    /// The model's assumptions, which contradict `condition`.
    pub assumed: Vec<(Literal, bool)>,
}

/// All situations of a set of operations.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exploration {
    /// The situations, in a fixed order.
    pub situations: Vec<Situation>,
    /// The infeasible paths.
    #[serde(rename = "impossible")]
    pub infeasible: Vec<InfeasiblePath>,
    /// Whether the exploration is complete.
    pub extent: Extent,
}

/// Whether an exploration is complete: no path was abandoned, and no limit ended it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The number of paths that were abandoned because they had too many questions.
    pub too_deep: usize,
    /// Whether a limit ended the exploration.
    pub cut: bool,
}

/// Why a model cannot be explored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ModelError {
    /// The model broke the rules in an execution.
    Untrusted {
        /// The operations.
        operations: Vec<String>,
        /// The answers that the model got before it broke the rules.
        path: Vec<String>,
        /// How the model broke the rules.
        stop: Stop,
    },
    /// The program that contains the model broke the protocol of [`serve`](crate::serve).
    Program {
        /// The program.
        program: String,
        /// What the program did wrong.
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
