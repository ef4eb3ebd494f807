//! What an independent checker needs to decide whether a verdict is right.

use serde::{Deserialize, Serialize};

use crate::literal::Literal;

/// What has to hold for two orders to agree: a part of a result or of a state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Claim {
    /// These names are equal.
    Names(String, String),
    /// The first plus so much is the second. An empty label is zero.
    Ints(String, i64, String),
    /// These are the same; written down where they are not.
    Things(String, String),
}

/// On what a verdict rests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Certificate {
    /// What the model took for granted.
    pub assumed: Vec<(Literal, bool)>,
    /// New names, which equal no other of their sort, but may be chosen to be one with each other.
    pub fresh: Vec<String>,
    /// Those that were chosen to be one.
    pub agreed: Vec<(String, String)>,
    /// Integers that may be chosen so that orders agree.
    pub open: Vec<String>,
    /// What has to hold for the orders to agree. If they do not, the last of these is false.
    pub claims: Vec<Claim>,
}
