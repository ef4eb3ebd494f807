//! The path of an execution: the decisions that it has taken, in order.

use std::rc::Rc;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::facts::{Facts, Question};
use crate::literal::Literal;
use crate::watch::Progress;

/// The reason why an execution ended early. A model passes the reason on with `?`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stop {
    /// The model asked more questions than the limit allows.
    TooDeep,
    /// An assumption of the model contradicts the path.
    Infeasible,
    /// The orders agreed so far only because of a chosen value, but an assumption of the model rules out
    /// every such value. So the orders do not agree.
    NoChoice {
        /// The index of the comparison that chose this value, among the comparisons that chose a value.
        choice: usize,
    },
    /// The model asked a different question after the same answers.
    NotDeterministic {
        /// The question in the earlier execution, as a formula.
        before: String,
        /// The question in this execution, as a formula.
        now: String,
    },
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::TooDeep => f.write_str("the model asks more questions than the limit allows"),
            Self::Infeasible => f.write_str("an assumption of the model does not hold"),
            Self::NoChoice { .. } => f.write_str("no choice makes the orders agree"),
            Self::NotDeterministic { before, now } => write!(
                f,
                "the model is not deterministic: it asked about {now}, but about {before} in an \
                 earlier execution"
            ),
        }
    }
}

/// A question, and the answer with which an execution continued.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The question, with this execution's terms.
    pub question: Question,
    /// The answer.
    pub answer: bool,
    /// The question with labels in place of terms, so that the literal is the same in every execution.
    pub literal: Literal,
}

impl Decision {
    /// The question as a formula or, if the answer is no, its negation.
    pub fn show(&self) -> String {
        self.literal.show(self.answer)
    }
}

/// The decisions of an execution. The first decisions come from a script, which leads to the part
/// of the tree that this execution explores. The execution takes the other decisions itself.
pub(super) struct Path {
    script: Rc<[Decision]>,
    decisions: Vec<Decision>,
    max_questions: usize,
    progress: Arc<Progress>,
}

impl Path {
    pub(super) fn new(
        script: Rc<[Decision]>,
        max_questions: usize,
        progress: Arc<Progress>,
    ) -> Self {
        progress.start();
        Self { script, decisions: Vec::new(), max_questions, progress }
    }

    pub(super) fn decisions(&self) -> &[Decision] {
        &self.decisions
    }

    /// Returns the answer to a question. If the facts imply the answer, there is nothing to decide. Otherwise
    /// the script gives the answer, which is then added to the facts; past the end of the script, the answer
    /// is yes.
    pub(super) fn decide(&mut self, question: Question, facts: &mut Facts) -> Result<bool, Stop> {
        if let Some(known) = facts.answer(&question) {
            return Ok(known);
        }
        let nr = self.decisions.len();
        if nr >= self.max_questions {
            return Err(Stop::TooDeep);
        }
        let answer = match self.script.get(nr) {
            None => true,
            Some(before) if before.question == question => before.answer,
            Some(before) => {
                return Err(Stop::NotDeterministic {
                    before: before.show(),
                    now: facts.show(&question, before.answer),
                });
            }
        };
        let literal = facts.literal(&question);
        let is_possible = facts.assume(&question, answer);
        debug_assert!(is_possible, "the answer was open");
        self.progress.decided(&literal, answer);
        self.decisions.push(Decision { question, answer, literal });
        Ok(answer)
    }
}
