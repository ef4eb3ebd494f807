//! The differences between two checks, as text.

use std::fmt::Write;

use knee_host::number::plural;
use knee_trace::findings::{DatumChange, Diff, ToolChange};

use super::check::{VERDICTS, share};
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
        "\n{BOLD}{free_before} of {tests} were conflict-free ({}), {free_after} are now ({}).{BOLD:#}",
        share(*free_before, *compared),
        share(*free_after, *compared)
    );
    let worse = match diff.worse.len() {
        1 => "1 test that was conflict-free no longer is:".to_owned(),
        n => format!("{n} tests that were conflict-free no longer are:"),
    };
    list(&mut text, &worse, &diff.worse, most);
    let better = match diff.better.len() {
        1 => "1 test that conflicted is now conflict-free:".to_owned(),
        n => format!("{n} tests that conflicted are now conflict-free:"),
    };
    list(&mut text, &better, &diff.better, most);
    for (verdict, ids) in &diff.unclear {
        let what = VERDICTS.iter().find(|(of, _)| of == verdict).map_or("", |(_, what)| what);
        let head = format!("{} conflict-free before, inconclusive now: {what}", ids.len());
        list(&mut text, &head, ids, most);
    }
    pairs(&mut text, diff, most);
    data(&mut text, "is shared now, and was not before", &diff.new_data, most);
    data(&mut text, "is not shared any more", &diff.gone_data, most);
    text
}

fn list(text: &mut String, head: &str, ids: &[String], most: usize) {
    if ids.is_empty() {
        return;
    }
    let _ = writeln!(text, "\n{head}");
    for id in ids.iter().take(most) {
        let _ = writeln!(text, "  {id}");
    }
    more(text, ids.len(), most);
}

fn more(text: &mut String, all: usize, most: usize) {
    if all > most {
        let _ = writeln!(text, "  {DIM}and {} more (--top 0 has all){DIM:#}", all - most);
    }
}

fn pairs(text: &mut String, diff: &Diff, most: usize) {
    if diff.sets.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nPairs whose number of conflict-free tests changed:");
    let named: Vec<String> = diff.sets.iter().map(|set| set.operations.join(" ")).collect();
    let width = named.iter().take(most).map(String::len).max().unwrap_or(0);
    for (set, name) in diff.sets.iter().zip(&named).take(most) {
        let (before, after) = (set.free_before, set.free_after);
        let of = plural(set.tests, "test");
        let change = after as i64 - before as i64;
        let _ = writeln!(text, "  {name:width$}  {before:>5} → {after:>5} of {of}  {change:>+5}");
    }
    more(text, diff.sets.len(), most);
}

fn data(text: &mut String, what: &str, data: &[DatumChange], most: usize) {
    if data.is_empty() {
        return;
    }
    let _ = writeln!(text, "\nWhat {what}, by the tests that it is in:");
    for DatumChange { datum, tests } in data.iter().take(most) {
        let _ = writeln!(text, "  {tests:>6}  {datum}");
    }
    more(text, data.len(), most);
}
