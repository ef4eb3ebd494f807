//! The causes of conflicts, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use knee_host::number::plural;
use knee_trace::findings::{Cause, DataOfCause, Datum, Fix, Ranking, SharedLine, TestLine, way};

use super::check::{conflict_free, in_bytes, share, words};
use crate::present::style::{BOLD, DIM};

/// Maximum functions to print for a datum, and operations for a function.
const MOST_NAMES: usize = 4;

/// The data that cause most conflicts, and the suggested order of fixes. `most` limits the list of data.
pub(crate) fn ranking(ranking: &Ranking, title: &str, most: usize) -> String {
    let mut text = String::new();
    let found = conflict_free(ranking.free, ranking.tests);
    let _ = writeln!(text, "{BOLD}{title}: {found}.{BOLD:#}");
    if let Some(in_bytes) = in_bytes(ranking.free, ranking.false_sharing, ranking.tests) {
        let _ = writeln!(text, "{in_bytes}.");
    }
    if ranking.data.is_empty() {
        let _ = writeln!(text, "In no test do the calls share the same data in every run.");
        return text;
    }
    let conflicting = plural(ranking.conflicting, "test");
    let _ = writeln!(
        text,
        "\nData shared in {conflicting}, ranked by how many tests would be conflict-free if only \
         that datum were fixed:\n"
    );
    let _ = writeln!(text, "{DIM}{:>7} {:>7}{DIM:#}", "frees", "tests");
    for datum in ranking.data.iter().take(most) {
        let _ = writeln!(
            text,
            "{:>7} {:>7}  {BOLD}{}{BOLD:#}{}",
            datum.unlocks_tests,
            datum.tests,
            datum.datum,
            datum.cause.map_or(String::new(), |cause| format!("  {DIM}{}{DIM:#}", kind(cause).0))
        );
        for (what, functions) in doers(datum) {
            let _ = writeln!(text, "{:>17}{DIM}{what} {functions}{DIM:#}", "");
        }
    }
    if ranking.data.len() > most {
        let more = plural(ranking.data.len() - most, "more datum").replace("datums", "data");
        let _ = writeln!(text, "{DIM}        and {more} (--top 0 shows all){DIM:#}");
    }
    text += &by_cause(&ranking.causes);
    let _ = writeln!(text, "\nSuggested order of fixes:\n");
    for (nr, sentence) in sentences(ranking).iter().enumerate() {
        let _ = writeln!(text, "{:>3}. {sentence}", nr + 1);
    }
    if ranking.fixes_cut {
        let _ = writeln!(
            text,
            "{DIM}knee computes no more steps, because the tests share too many different sets of data; \
             explain fewer tests with --set.{DIM:#}"
        );
    }
    text
}

/// What all data of each kind prevent, and the usual remedy.
fn by_cause(causes: &[DataOfCause]) -> String {
    if causes.is_empty() {
        return "\nThe record has no types of data, so knee cannot group them by kind.\n"
            .to_owned();
    }
    let mut text =
        "\nBy kind of data (frees: tests that are conflict-free once all data of this kind \
                    are fixed):\n\n"
            .to_owned();
    let _ = writeln!(text, "{DIM}{:>7} {:>7} {:>5}{DIM:#}", "frees", "tests", "data");
    for DataOfCause { cause, data, unlocks_tests, tests } in causes {
        let (name, remedy) = kind(*cause);
        let _ = writeln!(text, "{unlocks_tests:>7} {tests:>7} {data:>5}  {BOLD}{name}{BOLD:#}");
        let _ = writeln!(text, "{:>23}{DIM}{remedy}{DIM:#}", "");
    }
    text
}

/// The name of a kind of data, and the usual remedy.
fn kind(cause: Cause) -> (&'static str, &'static str) {
    match cause {
        Cause::ReferenceCount => {
            ("reference count", "look up under RCU without it, or use a per-CPU count")
        }
        Cause::Lock => ("lock", "use finer-grained locks, or let readers run without it (RCU)"),
        Cause::Links => ("list or tree", "partition it, or make it lock-free"),
        Cause::Counter => ("counter", "use a per-CPU counter, summed on read"),
        Cause::Allocator => ("allocator", "use per-CPU pools of objects or numbers"),
        Cause::Adjacent => ("adjacent data", "spread them, or let each CPU use its own range"),
        Cause::Layout => ("layout of a struct", "move the fields apart: --layout shows which"),
        Cause::State => {
            ("state of an object", "skip stores that change nothing; defer or batch others")
        }
        Cause::Unknown => ("unknown", "knee does not know the type of these data"),
    }
}

/// The suggested order of fixes, one sentence each.
pub(crate) fn sentences(ranking: &Ranking) -> Vec<String> {
    let mut now = ranking.free;
    let sentence = |(nr, fix): (usize, &Fix)| {
        now += fix.unlocks_tests;
        let first = if nr == 0 { "fixing" } else { "after that, fixing" };
        let more = match fix.unlocks_tests {
            1 => "1 more test".to_owned(),
            n => format!("{n} more tests"),
        };
        let data: Vec<String> = fix.data.iter().map(|datum| format!("`{datum}`")).collect();
        let (data, would) = match data.as_slice() {
            [one] => (one.clone(), "would make"),
            several => (several.join(" and "), "together would make"),
        };
        let share = share(now, ranking.tests);
        format!("{first} {data} {would} {more} conflict-free: {now} in all ({share})")
    };
    ranking.fixes.iter().enumerate().map(sentence).collect()
}

/// A line with the functions that write a datum, and a line with those that read it.
fn doers(datum: &Datum) -> impl Iterator<Item = (&'static str, String)> {
    let both = [("written by", &datum.writers), ("read by", &datum.readers)];
    both.into_iter()
        .filter(|(_, by)| !by.is_empty())
        .map(|(what, by)| (what, functions(by, &datum.callers)))
}

/// Functions, each with its most frequent caller and the operations that call it, the most frequent
/// function first.
fn functions(
    by_operation: &BTreeMap<String, BTreeMap<String, usize>>,
    callers: &BTreeMap<String, BTreeMap<String, Vec<String>>>,
) -> String {
    let mut operations: BTreeMap<String, (usize, Vec<&str>)> = BTreeMap::new();
    for (operation, functions) in by_operation {
        for (function, times) in functions {
            let callers = callers.get(operation).and_then(|callers| callers.get(function));
            let way = way(function, callers.and_then(|callers| callers.first()));
            let (in_all, operations) = operations.entry(way).or_default();
            *in_all += times;
            operations.push(operation);
        }
    }
    let mut functions: Vec<(String, (usize, Vec<&str>))> = operations.into_iter().collect();
    functions.sort_by_key(|(_, (times, _))| std::cmp::Reverse(*times));
    let named = functions.iter().map(|(function, (_, operations))| {
        format!("{function} ({})", few(operations.iter().copied()))
    });
    few(named.collect::<Vec<_>>().iter().map(String::as_str))
}

/// The first few names, and how many more there are.
pub(super) fn few<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = names.len().saturating_sub(MOST_NAMES);
    let mut named: Vec<String> = names.take(MOST_NAMES).map(str::to_owned).collect();
    if more > 0 {
        named.push(format!("{more} more"));
    }
    named.join(", ")
}

/// What happened in a test, apart from its verdict.
pub(super) fn notes(test: &TestLine) -> Vec<String> {
    let died = test.died.iter().map(|how| format!("the guest crashed in this test: {how}"));
    let unexpected = test.unexpected.iter();
    let unexpected = unexpected.map(|is| format!("the model does not allow this result: {is:?}"));
    died.chain(unexpected).collect()
}

/// Everything that a test shares, and the functions that access it.
pub(crate) fn test(test: &TestLine) -> String {
    let mut text = String::new();
    let verdict = words(test.verdict);
    let _ = writeln!(text, "{BOLD}{}{BOLD:#}: {verdict}", test.test);
    for note in notes(test) {
        let _ = writeln!(text, "{note}");
    }
    let operations = test.operations();
    for shared in &test.conflicts {
        let SharedLine { line, same_bytes, sides, .. } = shared;
        let how = if *same_bytes { "" } else { ", different bytes (false sharing)" };
        let _ = writeln!(text, "\n{BOLD}{}{BOLD:#}\n  {DIM}line {line}{how}{DIM:#}", shared.name());
        for (&side, touched) in sides {
            let operation = operations.get(side).copied().unwrap_or("?");
            let [first, last] = touched.bytes;
            let does = if touched.wrote { "writes" } else { "reads" };
            let _ = writeln!(text, "  call {side} ({operation}) {does} bytes {first} to {last}");
            for (what, functions) in [("written", &touched.writers), ("read", &touched.readers)] {
                let mut what = format!("{what} by");
                for way in touched.ways(functions) {
                    let _ = writeln!(text, "      {what} {way}");
                    what = " ".repeat(what.len());
                }
            }
        }
    }
    text
}
