//! What commuting calls share in a kernel, as a matrix and by datum.

use std::fmt::Write;

use knee_commute::models;
use knee_host::number::plural;
use knee_host::text::Screen;
use knee_trace::findings::{Counts, Tally, TestLine, Tested, Verdict};

use super::list::list;
use super::program::Writers;
use super::triangle::triangle;
use crate::present::style::BOLD;

/// Maximum data to print.
const MOST_DATA: usize = 15;
/// Maximum operations of a matrix, which has a cell for each pair.
const MOST_OPERATIONS: usize = 1_000;
/// Maximum tests with unexpected results to print.
const MOST_UNEXPECTED: usize = 5;

/// A verdict in words.
pub(crate) fn words(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::ConflictFree => "conflict-free",
        Verdict::Conflict => "conflicts in every run",
        Verdict::Sometimes => "conflicts only in some runs, or with different data",
        Verdict::Disturbed => "inconclusive: disturbed by another task, or not run",
        Verdict::Died => "crashed the guest or the program",
    }
}

/// An inconclusive verdict in words, for several tests.
pub(super) fn inconclusive(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Sometimes => "conflict only in some runs, such as those that refill a cache",
        other => words(other),
    }
}

/// A part of `all` in per cent: `60.4%`. Only exact values are printed as 0% or 100%.
pub(crate) fn share(part: usize, all: usize) -> String {
    match (part, all) {
        (0, _) => "0%".to_owned(),
        (part, all) if part == all => "100%".to_owned(),
        _ => format!("{:.1}%", (100.0 * part as f64 / all as f64).clamp(0.1, 99.9)),
    }
}

/// `3 of 4 tests are conflict-free (75.0%)`.
pub(crate) fn conflict_free(free: usize, tests: usize) -> String {
    let are = if tests == 1 { "is" } else { "are" };
    let of = plural(tests, "test");
    format!("{free} of {of} {are} conflict-free ({})", share(free, tests))
}

/// What counts if the calls of a test may share lines, but no byte. `None` if this makes no difference.
pub(super) fn in_bytes(free: usize, false_sharing: usize, tests: usize) -> Option<String> {
    let (verb, lines) = match false_sharing {
        0 => return None,
        1 => ("shares", "a line"),
        _ => ("share", "lines"),
    };
    Some(format!(
        "In bytes, {}: {} {verb} {lines}, but no byte (false sharing)",
        conflict_free(free + false_sharing, tests),
        plural(false_sharing, "test")
    ))
}

/// The operations of the tests: those of `posix` in the order of the model, then the others by name.
pub(crate) fn operations(tally: &Tally) -> Vec<String> {
    let models = models();
    let known: Vec<&str> = models
        .iter()
        .find(|model| model.name() == "posix")
        .map_or(Vec::new(), |model| model.operations().iter().map(|(name, _)| *name).collect());
    let mut names: Vec<String> = tally.sets().keys().flatten().cloned().collect();
    names.sort_by_cached_key(|name| {
        let place = known.iter().position(|known| known == name);
        (place.unwrap_or(known.len()), name.clone())
    });
    names.dedup();
    names
}

/// The operations of the tests, for a matrix.
///
/// # Errors
/// There are too many.
pub(crate) fn operations_of_matrix(tally: &Tally) -> anyhow::Result<Vec<String>> {
    let operations = operations(tally);
    match operations.len() {
        ..=MOST_OPERATIONS => Ok(operations),
        n => anyhow::bail!(
            "the tests have {n} operations, and a matrix has at most {MOST_OPERATIONS}; generate \
             tests of the operations that matter (knee commute tests OP OP), or list the pairs (knee \
             commute matrix DIR --json)"
        ),
    }
}

/// The results of a check.
pub(crate) struct Results {
    pub(crate) tally: Tally,
    writers: Writers,
}

impl Results {
    pub(crate) fn of(tests: &[TestLine]) -> Self {
        Self { tally: Tally::of(tests), writers: Writers::of(tests) }
    }

    pub(crate) fn add(&mut self, test: &TestLine) {
        self.tally.add(test);
        self.writers.add(test);
    }

    /// Text of the results. In a kernel, data have names of their own, so only a program needs the
    /// names of functions.
    pub(crate) fn text(&self, tested: &Tested) -> String {
        let text = text(&self.tally, &tested.to_string());
        match tested {
            Tested::Kernel { .. } | Tested::GuestKernel { .. } => text,
            Tested::Program { .. } => text + &self.writers.text(),
        }
    }
}

fn text(tally: &Tally, title: &str) -> String {
    let mut text = matrix(tally);
    let Counts { tests, free, false_sharing, sometimes, disturbed, died, .. } = tally.total();
    let _ = writeln!(text, "{BOLD}{title}: {}.{BOLD:#}", conflict_free(free, tests));
    if let Some(in_bytes) = in_bytes(free, false_sharing, tests) {
        let _ = writeln!(text, "{in_bytes}.");
    }
    let inconclusives =
        [(Verdict::Sometimes, sometimes), (Verdict::Disturbed, disturbed), (Verdict::Died, died)];
    for (verdict, n) in inconclusives {
        if n > 0 {
            let _ = writeln!(text, "{n} {}.", inconclusive(verdict));
        }
    }
    let data = tally.data();
    if !data.is_empty() {
        let _ = writeln!(text, "\nData shared in every run, with the number of tests:");
    }
    let lines = data.iter().map(|(name, tests)| format!("{tests:>6}  {name}"));
    list(&mut text, lines, MOST_DATA, "; knee commute explain ranks all of a record (-o DIR)");
    let unexpected = tally.unexpected();
    if !unexpected.is_empty() {
        let n = plural(unexpected.len(), "test");
        let _ = writeln!(text, "\n{n} returned a result that the model does not allow:");
        for test in unexpected.iter().take(MOST_UNEXPECTED) {
            let _ = writeln!(text, "  {test}");
        }
    }
    text
}

/// Shares of conflict-free tests in per cent; empty for a pair without tests. In tests with more than two
/// calls, what counts is whether the two calls of the pair share data with each other.
fn matrix(tally: &Tally) -> String {
    let calls = || tally.sets().keys().map(Vec::len);
    if calls().any(|calls| calls < 2) {
        return String::new();
    }
    let names = match operations_of_matrix(tally) {
        Ok(names) => names,
        Err(too_many) => return format!("no matrix: {too_many}\n\n"),
    };
    let heading = match calls().max() {
        Some(3..) => "How often two calls of a test are conflict-free with each other:\n\n",
        _ => "",
    };
    heading.to_owned()
        + &triangle(&names, &Screen::of_stdout(), |column, row| {
            match tally.pair(&names[column], &names[row]) {
                None => String::new(),
                Some(Counts { free, tests, .. }) if free == tests => "100%".to_owned(),
                // Rounded down, so that only exact values are printed as 100%.
                Some(Counts { free, tests, .. }) => format!("{}%", 100 * free / tests),
            }
        })
}
