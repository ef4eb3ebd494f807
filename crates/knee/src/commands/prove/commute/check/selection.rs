//! The tests that a check runs.

use std::collections::BTreeSet;

use knee_host::number::plural;

use super::super::test_lines::{Head, heads};
use crate::exit::bail_usage;
use crate::stderr::tell;

/// The tests in `lines`, with their ids. Without `all`, only tests of several calls that commute. The
/// scalable commutativity rule does not require other tests to be free of conflicts.
pub(super) fn listed(lines: &[u8], all: bool) -> anyhow::Result<Vec<(String, &[u8])>> {
    let (mut tests, mut left_out) = (Vec::new(), 0);
    for (Head { id, commute, calls }, line) in heads(lines)? {
        match all || (commute != Some(false) && calls.len() != 1) {
            true => tests.push((id, line)),
            false => left_out += 1,
        }
    }
    if left_out > 0 {
        let what = plural(left_out, "test");
        tell!("knee: left out {what} with a single call or with calls that do not commute");
    }
    match tests.is_empty() {
        // An empty check would look like a check without conflicts.
        true => bail_usage!("there are no tests to run"),
        false => Ok(tests),
    }
}

/// Fails if a test occurs twice.
pub(super) fn distinct(tests: &[(String, &[u8])]) -> anyhow::Result<()> {
    let mut seen = BTreeSet::new();
    match tests.iter().position(|(id, _)| !seen.insert(id)) {
        None => Ok(()),
        Some(nr) => {
            let id = &tests[nr].0;
            let nr = nr + 1;
            bail_usage!(
                "test {id} occurs twice; the second occurrence is at position {nr} in the list"
            )
        }
    }
}
