//! What commuting calls share in a kernel, as a matrix and by function.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use knee_agent::Outcome;
use knee_trace::{Checked, Functions, Verdict};

use super::number::plural;

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();
/// Functions that are named.
const MOST_FUNCTIONS: usize = 15;
/// Tests that are named whose results were not expected.
const MOST_UNEXPECTED: usize = 5;

/// Counts of tests.
#[derive(Default)]
pub(crate) struct Tally {
    tests: usize,
    verdicts: BTreeMap<Verdict, usize>,
    /// By operations: tests, and those that are conflict-free.
    pairs: BTreeMap<Vec<String>, (usize, usize)>,
    /// In the order in which they were met.
    operations: Vec<String>,
    /// By function that wrote a shared line: in how many tests.
    writers: BTreeMap<String, usize>,
    unexpected: Vec<String>,
}

impl Tally {
    pub(crate) fn add(&mut self, checked: &Checked, functions: &Functions) {
        self.tests += 1;
        let verdict = checked.verdict();
        *self.verdicts.entry(verdict).or_default() += 1;
        let names = checked.id.split_once('/').map_or(checked.id.as_str(), |(names, _)| names);
        let names: Vec<String> = names.split(',').map(str::to_owned).collect();
        for name in &names {
            if !self.operations.contains(name) {
                self.operations.push(name.clone());
            }
        }
        let (tests, free) = self.pairs.entry(names).or_default();
        *tests += 1;
        *free += usize::from(verdict == Verdict::ConflictFree);
        match &checked.outcome {
            Ok(Outcome::AsExpected) => {}
            Ok(other) => self.unexpected.push(format!("{}: {other:?}", checked.id)),
            Err(end) => self.unexpected.push(format!("{}: {end}", checked.id)),
        }
        let conflicts = checked.runs.last().into_iter().flat_map(|run| &run.conflicts);
        let writers = conflicts.flat_map(|conflict| &conflict.sides).flat_map(|side| &side.writers);
        let writers: BTreeSet<&str> =
            writers.map(|pc| functions.at(*pc).unwrap_or("an unknown function")).collect();
        for writer in writers {
            *self.writers.entry(writer.to_owned()).or_default() += 1;
        }
    }

    pub(crate) fn tests(&self) -> usize {
        self.tests
    }

    /// Tests whose results the model does not say.
    pub(crate) fn unexpected(&self) -> usize {
        self.unexpected.len()
    }

    fn of(&self, verdict: Verdict) -> usize {
        self.verdicts.get(&verdict).copied().unwrap_or(0)
    }

    /// Conflict-free tests and all tests of a pair, in either order.
    fn pair(&self, a: &str, b: &str) -> Option<(usize, usize)> {
        let either = [[a, b], [b, a]].map(|pair| pair.map(str::to_owned).to_vec());
        let (tests, free) = either.iter().find_map(|pair| self.pairs.get(pair))?;
        Some((*free, *tests))
    }
}

/// For people.
pub(crate) fn text(tally: &Tally, release: &str) -> String {
    let mut text = matrix(tally);
    let free = tally.of(Verdict::ConflictFree);
    let share = 100.0 * free as f64 / tally.tests.max(1) as f64;
    let tests = plural(tally.tests, "test");
    let _ = writeln!(
        text,
        "{BOLD}Linux {release}: {free} of {tests} are conflict-free ({share:.1} %).{BOLD:#}"
    );
    let others = [
        (Verdict::Sometimes, "conflict in some runs only, as a cache is refilled now and then"),
        (Verdict::Disturbed, "were disturbed by another task and say nothing"),
    ];
    for (verdict, what) in others {
        let n = tally.of(verdict);
        if n > 0 {
            let _ = writeln!(text, "{n} {what}.");
        }
    }
    let mut writers: Vec<(&String, &usize)> = tally.writers.iter().collect();
    writers.sort_by_key(|(name, tests)| (std::cmp::Reverse(**tests), *name));
    if !writers.is_empty() {
        let _ = writeln!(text, "\nWriters of shared lines, by the tests that they are in:");
    }
    for (name, tests) in writers.iter().take(MOST_FUNCTIONS) {
        let _ = writeln!(text, "  {tests:>6}  {name}");
    }
    if writers.len() > MOST_FUNCTIONS {
        let more = plural(writers.len() - MOST_FUNCTIONS, "more function");
        let _ = writeln!(text, "  {DIM}and {more}; --json has all, by test{DIM:#}");
    }
    if !tally.unexpected.is_empty() {
        let n = plural(tally.unexpected.len(), "test");
        let _ = writeln!(text, "\n{n} did not return what the model says:");
        for test in tally.unexpected.iter().take(MOST_UNEXPECTED) {
            let _ = writeln!(text, "  {test}");
        }
    }
    text
}

/// Shares of conflict-free tests, in per cent; nothing of a pair without tests.
fn matrix(tally: &Tally) -> String {
    let names = &tally.operations;
    if tally.pairs.keys().any(|operations| operations.len() != 2) {
        return String::new();
    }
    let width = names.iter().map(String::len).max().unwrap_or(0);
    let cell = |name: &str| name.len().max(4);
    let mut text = String::new();
    for (row, name) in names.iter().enumerate() {
        let _ = write!(text, "{name:width$}");
        for head in &names[..=row] {
            let share = match tally.pair(head, name) {
                None => String::new(),
                Some((free, all)) if free == all => "100%".to_owned(),
                // Never rounded to all.
                Some((free, all)) => format!("{}%", 100 * free / all),
            };
            let _ = write!(text, " {share:>0$}", cell(head));
        }
        text.push('\n');
    }
    let _ = write!(text, "{:width$}", "");
    for name in names {
        let _ = write!(text, " {name:>0$}", cell(name));
    }
    text + "\n\n"
}
