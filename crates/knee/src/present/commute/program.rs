//! Which functions of a program write lines that calls share.
//!
//! Most of what a library's calls share it has allocated, and is named by the type that writes it: the
//! functions say more.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use knee_host::number::plural;
use knee_trace::findings::TestLine;

use crate::present::style::DIM;

/// Functions that are named.
const MOST_NAMED: usize = 15;

/// In how many tests a function writes a shared line.
#[derive(Default)]
pub(crate) struct Writers(BTreeMap<String, usize>);

impl Writers {
    pub(crate) fn of(tests: &[TestLine]) -> Self {
        let mut writers = Self::default();
        tests.iter().for_each(|test| writers.add(test));
        writers
    }

    pub(crate) fn add(&mut self, test: &TestLine) {
        let sides = test.conflicts.iter().flat_map(|line| line.sides.values());
        for writer in sides.flat_map(|side| &side.writers).collect::<BTreeSet<_>>() {
            *self.0.entry(writer.clone()).or_default() += 1;
        }
    }

    /// For people, those in most tests first.
    pub(crate) fn text(&self) -> String {
        let mut ranked: Vec<(&String, usize)> = self.0.iter().map(|(name, n)| (name, *n)).collect();
        ranked.sort_by_key(|(name, tests)| (Reverse(*tests), *name));
        if ranked.is_empty() {
            return String::new();
        }
        let mut text = "\nWho writes shared lines, by the tests that it is in:\n".to_owned();
        for (name, tests) in ranked.iter().take(MOST_NAMED) {
            let _ = writeln!(text, "  {tests:>6}  {name}");
        }
        if let more @ 1.. = ranked.len().saturating_sub(MOST_NAMED) {
            let more = plural(more, "more function");
            let _ = writeln!(text, "  {DIM}and {more}; --json has all, by test{DIM:#}");
        }
        text
    }
}
