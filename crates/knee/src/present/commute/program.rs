//! The functions of a program that write shared lines. Most memory that calls of a library share is
//! allocated by the library and named by the type that writes it; function names add detail.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use knee_host::number::plural;
use knee_trace::findings::TestLine;

use crate::present::style::DIM;

/// Maximum functions to print.
const MOST_NAMED: usize = 15;

/// For each function, the number of tests in which it writes a shared line.
#[derive(Default)]
pub(super) struct Writers(BTreeMap<String, usize>);

impl Writers {
    pub(super) fn of(tests: &[TestLine]) -> Self {
        let mut writers = Self::default();
        tests.iter().for_each(|test| writers.add(test));
        writers
    }

    pub(super) fn add(&mut self, test: &TestLine) {
        let sides = test.conflicts.iter().flat_map(|line| line.sides.values());
        for writer in sides.flat_map(|side| &side.writers).collect::<BTreeSet<_>>() {
            *self.0.entry(writer.clone()).or_default() += 1;
        }
    }

    /// Text, with the functions in most tests first.
    pub(super) fn text(&self) -> String {
        let mut ranked: Vec<(&String, usize)> = self.0.iter().map(|(name, n)| (name, *n)).collect();
        ranked.sort_by_key(|(name, tests)| (Reverse(*tests), *name));
        if ranked.is_empty() {
            return String::new();
        }
        let mut text =
            "\nFunctions that write shared lines, with the number of tests:\n".to_owned();
        for (name, tests) in ranked.iter().take(MOST_NAMED) {
            let _ = writeln!(text, "  {tests:>6}  {name}");
        }
        if let more @ 1.. = ranked.len().saturating_sub(MOST_NAMED) {
            let more = plural(more, "more function");
            let _ = writeln!(text, "  {DIM}and {more}; --json lists all, by test{DIM:#}");
        }
        text
    }
}
