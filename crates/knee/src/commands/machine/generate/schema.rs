//! The JSON schemas of files and of the output of --json.

#[cfg(feature = "explain")]
use knee_predict::machine;
#[cfg(feature = "explain")]
use knee_profile::{capture, locks};
#[cfg(feature = "explain")]
use knee_results::prediction;
use knee_run::{noise, record, server};
#[cfg(feature = "prove")]
use knee_trace::findings;
use serde_json::Value;

/// The schema of a document.
pub(super) struct Schema {
    pub(super) name: &'static str,
    /// The file, or the command that prints the document.
    pub(super) describes: &'static str,
    pub(super) of: fn() -> Value,
}

const fn schema(name: &'static str, describes: &'static str, of: fn() -> Value) -> Schema {
    Schema { name, describes, of }
}

const MEASURE: &[Schema] = &[
    schema("run", "run.json", record::run_schema),
    schema("sample", "A line of samples.jsonl", record::sample_schema),
    schema("noise", "noise.json", noise::noise_schema),
    schema("server", "A server description", server::schema),
];

#[cfg(feature = "explain")]
const EXPLAIN: &[Schema] = &[
    schema("capture", "A capture of knee profile", capture::schema),
    schema("prediction", "A file of knee predict, and its --json", prediction::schema),
    schema("machine", "A file of knee machine measure", machine::schema),
    schema("lock-waits", "Output of knee profile --locks --json", locks::schema),
];
#[cfg(not(feature = "explain"))]
const EXPLAIN: &[Schema] = &[];

#[cfg(feature = "prove")]
const PROVE: &[Schema] = &[
    schema("check", "check.json", findings::check_schema),
    schema("check-test", "A line of tests.jsonl", findings::test_schema),
    schema("check-matrix", "Output of knee commute matrix DIR --json", findings::matrix_schema),
    schema("check-diff", "Output of knee commute diff --json", findings::diff_schema),
    schema("check-explain", "Output of knee commute explain --json", findings::explain_schema),
    schema(
        "check-layout",
        "Output of knee commute explain --layout --json",
        findings::separation_schema,
    ),
];
#[cfg(not(feature = "prove"))]
const PROVE: &[Schema] = &[];

/// The schemas of all documents that this build can write.
pub(super) fn all() -> impl Iterator<Item = &'static Schema> {
    MEASURE.iter().chain(EXPLAIN).chain(PROVE)
}
