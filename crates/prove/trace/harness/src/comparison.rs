//! Compares the results of a run with those that the test expects.

use std::fmt::Display;

use knee_commute::{Expect, Finding, Test, TestCall};
use serde_json::Value;

/// The calls of a run whose results differ from those that the test expects.
///
/// `calls` lists the numbers of the calls in the order in which they were made, and `returned` lists the
/// results in the same order. `agrees` returns whether a result is as expected. A call without a result is
/// also a finding.
pub fn findings<'t, R: Display>(
    test: &'t Test,
    expect: &'t Expect,
    calls: &[usize],
    returned: &[R],
    mut agrees: impl FnMut(&'t TestCall, &'t Value, &R) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (place, &nr) in calls.iter().enumerate() {
        let (Some(call), Some(expected)) = (test.calls.get(nr), expect.results.get(nr)) else {
            continue;
        };
        let returned = returned.get(place);
        if returned.is_some_and(|returned| agrees(call, expected, returned)) {
            continue;
        }
        let labels = calls.iter().filter_map(|&nr| test.calls.get(nr));
        findings.push(Finding {
            order: labels.map(|call| call.label.as_str()).collect(),
            call: call.label.clone(),
            expected: expected.to_string(),
            returned: returned.map_or_else(|| "nothing".to_owned(), R::to_string),
        });
    }
    findings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_result_that_disagrees_or_is_missing_is_a_finding() {
        let call = |label| {
            json!({ "label": label, "operation": "inc", "process": 0, "thread": 0, "cpu": 0,
                    "arguments": {} })
        };
        let test: Test = serde_json::from_value(json!({
            "schema": 1, "id": "inc,inc/0.0", "interface": "counter", "commute": false,
            "condition": [], "pattern": [], "setup": [], "calls": [call("a"), call("b")],
            "expect": [{ "order": "ba", "results": [2, 1] }],
        }))
        .unwrap();
        let expect = &test.expect[0];
        let found = |returned: &[i64]| {
            let agrees = |_: &TestCall, expected: &Value, returned: &i64| *expected == *returned;
            findings(&test, expect, &[1, 0], returned, agrees)
        };
        let finding = |call: &str, expected: &str, returned: &str| Finding {
            order: "ba".to_owned(),
            call: call.to_owned(),
            expected: expected.to_owned(),
            returned: returned.to_owned(),
        };
        assert_eq!(found(&[1, 2]), []);
        assert_eq!(found(&[1, 7]), [finding("a", "2", "7")]);
        assert_eq!(found(&[2]), [finding("b", "1", "2"), finding("a", "2", "nothing")]);
    }
}
