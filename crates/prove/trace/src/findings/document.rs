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
}

/// The test results for one set of operations.
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
        let set = |(operations, counts): (&Vec<String>, &Counts)| Set {
            operations: operations.clone(),
            counts: *counts,
        };
        let sets = tally.sets().iter().map(set).collect();
        Self { schema: SCHEMA, check: &findings.check, total: tally.total(), sets }
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
