//! The `--json` output for records, and its schemas.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Check, Counts, Diff, Findings, Ranking, SCHEMA, Tally, ToolChange};

/// What `knee commute matrix DIR --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Matrix")]
pub struct MatrixDocument<'f> {
    /// Version of this document: 1.
    pub schema: u32,
    /// The check. If several shards were read, this is the description of the first shard.
    pub check: &'f Check,
    /// The counts of all tests.
    pub total: Counts,
    /// The counts for each set of operations.
    pub sets: Vec<Set>,
    /// For each pair of operations: how often two calls of these operations share data with each other. A test
    /// with more than two calls counts once for each pair of its calls.
    pub pairs: Vec<Set>,
}

/// The test results for one set or pair of operations.
#[derive(Debug, Serialize, JsonSchema)]
pub struct Set {
    /// The operations, one for each call of a test; two for most tests.
    pub operations: Vec<String>,
    /// The number of tests with each verdict.
    #[serde(flatten)]
    pub counts: Counts,
}

impl<'f> MatrixDocument<'f> {
    /// The document for a record.
    pub fn of(findings: &'f Findings) -> Self {
        let tally = Tally::of(&findings.tests);
        let set = |operations: &[String], counts: &Counts| Set {
            operations: operations.to_vec(),
            counts: *counts,
        };
        let sets = tally.sets().iter().map(|(of, counts)| set(of, counts)).collect();
        let pairs = tally.pairs().iter().map(|(of, counts)| set(of, counts)).collect();
        Self { schema: SCHEMA, check: &findings.check, total: tally.total(), sets, pairs }
    }
}

/// What `knee commute diff --json` prints.
#[derive(Debug, Serialize, JsonSchema)]
#[schemars(title = "Diff")]
pub struct DiffDocument<'f> {
    /// The differences.
    #[serde(flatten)]
    pub diff: &'f Diff,
    /// The first check.
    pub before: &'f Check,
    /// The second check.
    pub after: &'f Check,
    /// Tracing tools that differ between the checks. Different tools may give different verdicts.
    pub tools: Vec<ToolChange>,
}

/// The JSON schema of what `knee commute matrix DIR --json` prints.
pub fn matrix_schema() -> serde_json::Value {
    schemars::schema_for!(MatrixDocument<'_>).to_value()
}

/// The JSON schema of what `knee commute diff --json` prints.
pub fn diff_schema() -> serde_json::Value {
    schemars::schema_for!(DiffDocument<'_>).to_value()
}

/// The JSON schema of what `knee commute explain --json` prints without `--test`.
pub fn explain_schema() -> serde_json::Value {
    schemars::schema_for!(Ranking).to_value()
}

#[cfg(test)]
mod tests {
    use snapbox::{assert_data_eq, file};

    use super::*;

    #[test]
    fn the_committed_schemas_match_the_code() {
        let text = |schema: serde_json::Value| format!("{schema:#}\n");
        let matrix = file!["../../schemas/check-matrix.schema.json"].raw();
        assert_data_eq!(text(matrix_schema()), matrix);
        let diff = file!["../../schemas/check-diff.schema.json"].raw();
        assert_data_eq!(text(diff_schema()), diff);
        let explain = file!["../../schemas/check-explain.schema.json"].raw();
        assert_data_eq!(text(explain_schema()), explain);
    }
}
