//! The data that an independent checker needs to find out whether a verdict is right.

use serde::{Deserialize, Serialize};

use crate::literal::{Literal, show_sum};

/// The proof of a verdict: all data that a checker needs in addition to the condition of the
/// situation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// The assumptions of the model.
    pub assumed: Vec<(Literal, bool)>,
    /// Fresh names. A fresh name differs from all other names of its sort, with one exception: two fresh
    /// names of different orders may be chosen to be equal.
    pub fresh: Vec<String>,
    /// The pairs of fresh names that were chosen to be equal.
    pub agreed: Vec<(String, String)>,
    /// Open integers: the explorer may choose their values so that the orders agree.
    pub open: Vec<String>,
    /// What must hold for the orders to agree. If the orders do not agree, the last claim is false.
    pub claims: Vec<Claim>,
}

/// A condition for two orders to agree on one part of a result or of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// These names are equal.
    Names(String, String),
    /// The first integer plus the constant equals the second integer. An empty label stands for
    /// zero.
    Ints(String, i64, String),
    /// The two values with these descriptions are equal. A claim of this kind is recorded only if
    /// the values differ, so it is always false.
    Things(String, String),
}

impl Certificate {
    pub(crate) fn has_assumed(&self, literal: &Literal, answer: bool) -> bool {
        self.assumed.iter().any(|(known, its)| known == literal && *its == answer)
    }

    pub(crate) fn claim(&mut self, claim: Claim) {
        if !self.claims.contains(&claim) {
            self.claims.push(claim);
        }
    }

    /// The two values that the last claim compares, as text.
    pub(crate) fn last_claim(&self) -> [String; 2] {
        match self.claims.last() {
            None => Default::default(),
            Some(Claim::Names(a, b) | Claim::Things(a, b)) => [a.clone(), b.clone()],
            Some(Claim::Ints(a, plus, b)) => [show_sum(a, *plus), show_sum(b, 0)],
        }
    }
}
