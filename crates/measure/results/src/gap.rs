//! What a comparison lacks.

use serde::Serialize;

use crate::Key;

/// A point of which the rate or the latency cannot be compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gap {
    /// The point.
    #[serde(flatten)]
    pub key: Key,
    /// Why there is no result before; `None` if there is one.
    #[serde(rename = "missing_before")]
    pub before: Option<String>,
    /// Why there is no result after; `None` if there is one.
    #[serde(rename = "missing_after")]
    pub after: Option<String>,
}
