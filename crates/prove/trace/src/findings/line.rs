//! A line of `tests.jsonl`: a test, and what its calls shared.

use std::borrow::Cow;
use std::collections::BTreeSet;

use knee_agent::{Finding, Outcome};
use knee_host::json::{Head, fault, with_one_line_strings};
use knee_host::text::{cut, escape_json, one_line};
use knee_plan::CALLS;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::SCHEMA;
use super::shared_line::SharedLine;
use super::verdict::{self, Verdict};
use crate::check::Checked;
use crate::datum::Layouts;
use crate::functions::Functions;
use crate::record::TestResult;

/// Maximum length of a text about a result or the end of a test, in characters: that of messages.
const MAX_TEXT: usize = 8_000;

/// A line of `tests.jsonl`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Test")]
pub struct TestLine {
    /// Version of this format: 1.
    pub schema: u32,
    /// Id of the test: the operations, a slash, then the situation and the pattern.
    pub test: String,
    /// The verdict.
    pub verdict: Verdict,
    /// What the calls returned, if the model does not allow it: `{"different": […]}` with the calls.
    /// If the calls were not made: `{"not_run": "…"}` or `{"setup_failed": "…"}`, with the reason.
    #[schemars(with = "Option<serde_json::Value>")]
    pub unexpected: Option<Outcome>,
    /// If the guest or the program did not survive the test: how it ended.
    pub died: Option<String>,
    /// The cache lines that the calls share. The verdict tells whether the calls share these lines in every
    /// run.
    pub conflicts: Vec<SharedLine>,
    /// The types of the data that no earlier test of the guest shared, and the layouts of their structs.
    #[serde(default, skip_serializing_if = "Layouts::is_empty")]
    pub layouts: Layouts,
}

impl TestLine {
    /// The line of a checked test.
    pub fn of(checked: &Checked, functions: &Functions) -> Self {
        let counted =
            || checked.runs.iter().filter(|run| !run.is_disturbed() && !run.is_incomplete());
        let last = counted().next_back();
        let lines = |run: &TestResult, all: bool| -> Vec<SharedLine> {
            run.conflicts.iter().map(|c| SharedLine::of(c, functions, all)).collect()
        };
        // Finding functions takes longer than everything else here. The verdict compares cache lines by the names
        // of their data. So if these names are known, the functions are needed only if the record lists the cache
        // line. With the verdict `conflict`, the record lists only cache lines of the last run. So the functions
        // of the other runs are found only if the verdict is `sometimes`.
        let runs = |all: bool| -> Vec<Vec<SharedLine>> {
            let is_last = |run| last.is_some_and(|last| std::ptr::eq(last, run));
            counted().map(|run| lines(run, all || is_last(run))).collect()
        };
        let (verdict, conflicts) = match checked.outcome {
            Ok(_) => match verdict::verdict(runs(false)) {
                (Verdict::Sometimes, _) => verdict::verdict(runs(true)),
                other => other,
            },
            Err(_) => (Verdict::Died, Vec::new()),
        };
        let (unexpected, died) = match &checked.outcome {
            Ok(Outcome::AsExpected) => (None, None),
            Ok(other) => (Some(on_one_line(other)), None),
            Err(end) => (None, Some(short(&end.to_string()))),
        };
        let test = checked.id.clone();
        let layouts = checked.layouts.clone();
        Self { schema: SCHEMA, test, verdict, unexpected, died, conflicts, layouts }
    }

    /// The names of the operations that the test calls.
    pub fn operations(&self) -> Vec<&str> {
        operations(&self.test).collect()
    }

    /// The verdict on two of the calls, which are given by their numbers. If the test has the verdict
    /// `conflict`, but these two calls share none of its data with each other, their verdict is
    /// `conflict-free`. Otherwise, it is the verdict of the test.
    pub fn verdict_of(&self, calls: [usize; 2]) -> Verdict {
        match self.verdict {
            Verdict::Conflict if !self.conflicts.iter().any(|line| line.is_between(calls)) => {
                Verdict::ConflictFree
            }
            verdict => verdict,
        }
    }

    /// Whether the calls conflict by false sharing only: they share lines in every run, but no byte.
    pub fn is_false_sharing(&self) -> bool {
        self.verdict == Verdict::Conflict
            && !self.conflicts.is_empty()
            && !self.conflicts.iter().any(|line| line.same_bytes)
    }

    /// Whether two of the calls, which are given by their numbers, conflict by false sharing only.
    pub fn is_false_sharing_of(&self, calls: [usize; 2]) -> bool {
        self.verdict_of(calls) == Verdict::Conflict
            && !self.conflicts.iter().any(|line| line.overlaps_between(calls))
    }

    /// The names of the data that the test's calls share in every run; empty unless the verdict is
    /// `conflict`.
    pub fn data(&self) -> BTreeSet<Cow<'_, str>> {
        match self.verdict {
            Verdict::Conflict => self.conflicts.iter().flat_map(SharedLine::names).collect(),
            _ => BTreeSet::new(),
        }
    }

    /// The test as a line, with its newline.
    pub fn to_line(&self) -> String {
        let json = serde_json::to_string(self).expect("all keys of plain data are text");
        format!("{}\n", escape_json(&json))
    }

    /// Parses a line. Newlines in its strings are marked; see [`with_one_line_strings`].
    ///
    /// # Errors
    /// Returns the reason. The caller reports the number of the line.
    pub fn parse(line: &[u8]) -> Result<Self, String> {
        let fault = |error| {
            let fault = fault("the line", &error);
            format!("{fault}; delete the line, then run its test again with --resume")
        };
        let line = &*with_one_line_strings(line);
        let read: Result<Self, _> = serde_json::from_slice(line);
        match Head::of(line) {
            Ok(Head { schema: Some(schema), .. }) if schema != u64::from(SCHEMA) => {
                Err(format!("it has schema {schema}, but this version of knee reads {SCHEMA}"))
            }
            _ => {
                let test = read.map_err(fault)?;
                require_operations(&test.test)?;
                Ok(test)
            }
        }
    }
}

/// An outcome whose texts are short and on one line, like those of a line that is read; see
/// [`with_one_line_strings`]. A guest or a program makes some of these texts.
fn on_one_line(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::AsExpected => Outcome::AsExpected,
        Outcome::Different(findings) => {
            Outcome::Different(findings.iter().map(finding_on_one_line).collect())
        }
        Outcome::NotRun(why) => Outcome::NotRun(short(why)),
        Outcome::SetupFailed(why) => Outcome::SetupFailed(short(why)),
    }
}

fn finding_on_one_line(Finding { order, call, expected, returned }: &Finding) -> Finding {
    Finding {
        order: short(order),
        call: short(call),
        expected: short(expected),
        returned: short(returned),
    }
}

fn short(text: &str) -> String {
    one_line(&cut(text, MAX_TEXT)).into_owned()
}

/// The names of the operations in the id of a test.
fn operations(id: &str) -> impl Iterator<Item = &str> {
    id.split_once('/').map_or(id, |(names, _)| names).split(',')
}

/// Checks the operations in the id of a test. Their number is limited, because the evaluation of a record
/// takes time and memory for each pair of them.
///
/// # Errors
/// Returns the reason. The caller reports the number of the line.
pub fn require_operations(id: &str) -> Result<(), String> {
    let count = operations(id).count();
    if operations(id).any(str::is_empty) {
        return Err(format!("{id:?} contains no operations"));
    }
    match count > CALLS {
        true => Err(format!("the test has {count} operations; a test has at most {CALLS}")),
        false => Ok(()),
    }
}

/// The JSON schema of a line of `tests.jsonl`.
pub fn test_schema() -> serde_json::Value {
    schemars::schema_for!(TestLine).to_value()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use snapbox::assert_data_eq;

    use super::super::samples::{any_line, conflicting, free};
    use super::*;
    use crate::guest::End;

    #[test]
    fn the_committed_schema_matches_the_code() {
        let schema = format!("{:#}\n", test_schema());
        assert_data_eq!(schema, snapbox::file!["../../schemas/check-test.schema.json"].raw());
    }

    #[test]
    fn texts_from_a_guest_are_short_and_on_one_line() {
        let line = |outcome| {
            let checked = Checked::unobserved("open,close/0.0".to_owned(), outcome);
            let line = TestLine::of(&checked, &Functions::default());
            assert_eq!(TestLine::parse(line.to_line().as_bytes()).as_ref(), Ok(&line));
            let unexpected = line.unexpected.as_ref().map(Outcome::to_string);
            unexpected.or(line.died).expect("an unexpected end")
        };
        let text = || "no\nLinux:\t9 of 9".to_owned();
        let finding =
            Finding { order: "ab".into(), call: text(), expected: text(), returned: text() };
        for outcome in [
            Ok(Outcome::SetupFailed(text())),
            Ok(Outcome::NotRun(text())),
            Ok(Outcome::Different(vec![finding])),
            Err(End::Panicked(text())),
        ] {
            let text = line(outcome);
            assert!(!text.contains(['\n', '\t']), "{text:?}");
        }
        let long = line(Ok(Outcome::SetupFailed("é".repeat(MAX_TEXT + 1))));
        assert_eq!(long, format!("set-up failed: {}…", "é".repeat(MAX_TEXT)));
    }

    #[test]
    fn a_line_is_named_by_its_datum_or_its_writers() {
        let line = conflicting("open,close/0.0", &["file.f_count", "?fput fget"]);
        let names: Vec<Cow<'_, str>> = line.data().into_iter().collect();
        assert_eq!(names, ["file.f_count", "line written by fget, fput"]);
        assert_eq!(line.operations(), ["open", "close"]);
        assert!(free("open,close/0.1").data().is_empty());
    }

    #[test]
    fn the_schema_of_a_line_is_checked_before_its_content() {
        let error = TestLine::parse(br#"{"schema":2,"tests":[]}"#).unwrap_err();
        assert_eq!(error, "it has schema 2, but this version of knee reads 1");
        let error = TestLine::parse(br#"{"schema":1,"test":"a,b/0"}"#).unwrap_err();
        assert!(error.contains("verdict"), "{error}");
        let nameless = free("open,/0.0").to_line();
        assert_eq!(
            TestLine::parse(nameless.as_bytes()).unwrap_err(),
            "\"open,/0.0\" contains no operations"
        );
    }

    #[test]
    fn a_test_has_at_most_four_operations() {
        let parse = |names: &[&str]| {
            TestLine::parse(free(&format!("{}/0.0", names.join(","))).to_line().as_bytes())
        };
        assert!(parse(&["a"; 4]).is_ok());
        let error = parse(&["a"; 2000]).unwrap_err();
        assert_eq!(error, "the test has 2000 operations; a test has at most 4");
    }

    #[test]
    fn a_line_of_an_older_version_without_data_is_read() {
        let line = conflicting("open,close/0.0", &["?fput"]).to_line();
        let without = line.replace("\"data\":[],", "");
        assert_ne!(without, line);
        assert_eq!(TestLine::parse(without.as_bytes()).unwrap().to_line(), line);
    }

    proptest! {
        #[test]
        fn a_line_is_read_as_it_was_written(line in any_line()) {
            let text = line.to_line();
            prop_assert_eq!(text.find('\n'), Some(text.len() - 1));
            prop_assert_eq!(TestLine::parse(text.as_bytes()), Ok(line));
        }
    }
}
