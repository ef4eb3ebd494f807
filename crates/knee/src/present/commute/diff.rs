//! The differences between two checks, as text.

use std::fmt::{Display, Write};

use knee_host::number::plural;
use knee_trace::findings::{DatumChange, Diff, PairChange, ToolChange};

use super::check::{inconclusive, share};
use super::list::list;
use crate::present::style::{BOLD, DIM};

/// Text of the differences. `most` is the maximum number of lines of each list.
pub(crate) fn text(
    diff: &Diff,
    [before, after]: [String; 2],
    tools: &[ToolChange],
    most: usize,
) -> String {
    let Diff { compared, free_before, free_after, .. } = diff;
    let mut text = String::new();
    let tests = plural(*compared, "test");
    let _ = writeln!(text, "before: {before}");
    let _ = writeln!(text, "after:  {after}");
    for change in tools {
        let _ = writeln!(text, "note:   {change}");
    }
    for (n, side) in [(diff.only_before, "before"), (diff.only_after, "after")] {
        if n > 0 {
            let _ = writeln!(text, "{DIM}{} only {side}, not compared{DIM:#}", plural(n, "test"));
        }
    }
    let _ = writeln!(
        text,
        "\n{BOLD}{free_before} of {tests} were conflict-free ({}), and {free_after} are now ({}).{BOLD:#}",
        share(*free_before, *compared),
        share(*free_after, *compared)
    );
    let in_bytes = [free_before + diff.false_sharing_before, free_after + diff.false_sharing_after];
    if in_bytes != [*free_before, *free_after] {
        let [before, after] = in_bytes;
        let _ = writeln!(
            text,
            "In bytes, without false sharing, {before} were conflict-free ({}), and {after} are now ({}).",
            share(before, *compared),
            share(after, *compared)
        );
    }
    let worse = match diff.worse.len() {
        1 => "1 test is no longer conflict-free:".to_owned(),
        n => format!("{n} tests are no longer conflict-free:"),
    };
    section(&mut text, &worse, diff.worse.iter(), most);
    let better = match diff.better.len() {
        1 => "1 test that conflicted is now conflict-free:".to_owned(),
        n => format!("{n} tests that conflicted are now conflict-free:"),
    };
    section(&mut text, &better, diff.better.iter(), most);
    for (verdict, ids) in &diff.unclear {
        let (tests, what) = (plural(ids.len(), "test"), inconclusive(*verdict));
        section(
            &mut text,
            &format!("{tests} conflict-free before, inconclusive now: {what}"),
            ids.iter(),
            most,
        );
    }
    let names: Vec<String> = diff.sets.iter().map(|set| set.operations.join(" ")).collect();
    let width = names.iter().take(most).map(String::len).max().unwrap_or(0);
    let pair = |(set, name): (&PairChange, &String)| {
        let (before, after) = (set.free_before, set.free_after);
        let of = plural(set.tests, "test");
        let change = after as i64 - before as i64;
        format!("{name:width$}  {before:>5} → {after:>5} of {of}  {change:>+5}")
    };
    let pairs = diff.sets.iter().zip(&names).map(pair);
    section(
        &mut text,
        "Sets of operations whose number of conflict-free tests changed:",
        pairs,
        most,
    );
    let changed = [("Newly shared", &diff.new_data), ("No longer shared", &diff.gone_data)];
    for (what, data) in changed {
        let lines = data.iter().map(|DatumChange { datum, tests }| format!("{tests:>6}  {datum}"));
        section(&mut text, &format!("{what} data, with the number of tests:"), lines, most);
    }
    text
}

/// A list with a heading, unless it is empty.
fn section(
    text: &mut String,
    heading: &str,
    lines: impl ExactSizeIterator<Item = impl Display>,
    most: usize,
) {
    if lines.len() > 0 {
        let _ = writeln!(text, "\n{heading}");
        list(text, lines, most, " (--top 0 shows all)");
    }
}
