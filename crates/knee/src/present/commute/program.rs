//! The functions of a program that write shared lines. Most memory that calls of a library share is
//! allocated by the library and named by the type that writes it; function names add detail.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use knee_trace::findings::TestLine;

use super::list::list;

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
        let lines = ranked.iter().map(|(name, tests)| format!("{tests:>6}  {name}"));
        list(&mut text, lines, MOST_NAMED, "; --json lists all, by test");
        text
    }
}
