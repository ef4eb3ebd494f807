//! The tests that a check runs.

use std::collections::BTreeSet;

use knee_commute::{Model, Wanted};
use knee_host::number::plural;
use knee_trace::findings::Ids;

use super::super::sets::{names, tests_of};
use super::super::test_lines::{Head, heads, read};
use super::args::Args;
use crate::exit::bail_usage;
use crate::stderr::tell;

/// Tests, one per line.
pub(super) struct Lines {
    lines: Vec<u8>,
    /// If these are the tests of a shard of sets: all sets.
    sets: Option<Ids>,
}

/// The tests of a check, with their ids.
pub(super) struct Selected<'t> {
    pub(super) tests: Vec<(String, &'t [u8])>,
    /// If these are the tests of a shard of sets: all sets.
    pub(super) sets: Option<Ids>,
}

impl Lines {
    /// The tests from the file that the user named, or generated. If `among` is not empty, generates only
    /// tests of the operations that it names.
    pub(super) fn of(args: &Args, model: &dyn Model, among: &[&str]) -> anyhow::Result<Self> {
        if let Some(file) = &args.tests {
            return Ok(Self { lines: read(file)?, sets: None });
        }
        let mut sets = args.sets.of(model, false)?;
        if !among.is_empty() {
            let is_missing = |name: &&String| !among.contains(&name.as_str());
            if let Some(missing) = args.sets.named().iter().find(is_missing) {
                let known = among.join(", ");
                bail_usage!("the kernel does not have the call {missing}; it has {known}");
            }
            sets.retain(|set| names(model, set).iter().all(|name| among.contains(name)));
        }
        let mut all = None;
        if args.sets.are_divided() {
            let id =
                |set: &Vec<usize>| format!("{}/{}", names(model, set).join(","), args.patterns);
            all = Some(Ids::of(sets.iter().map(id)));
            args.shard.retain(&mut sets);
        }
        let wanted = Wanted { patterns: args.patterns, ..Wanted::default() };
        Ok(Self { lines: tests_of(model, &sets, &wanted)?, sets: all })
    }

    /// The tests with their ids. Without `all`, only tests of several calls that commute. The scalable
    /// commutativity rule does not require other tests to be free of conflicts.
    pub(super) fn select(&self, all: bool) -> anyhow::Result<Selected<'_>> {
        let (mut tests, mut left_out) = (Vec::new(), 0);
        for (Head { id, commute, calls }, line) in heads(&self.lines)? {
            match all || (commute != Some(false) && calls.len() != 1) {
                true => tests.push((id, line)),
                false => left_out += 1,
            }
        }
        if left_out > 0 {
            let what = plural(left_out, "test");
            tell!("knee: left out {what} with a single call or with calls that do not commute");
        }
        // An empty check would look like a check without conflicts. A shard of sets may be empty.
        if tests.is_empty() && self.sets.is_none() {
            bail_usage!("there are no tests to run");
        }
        Ok(Selected { tests, sets: self.sets.clone() })
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
