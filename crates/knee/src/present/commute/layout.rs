//! False sharing of the fields of structs, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use knee_host::number::plural;
use knee_host::text::and_list;
use knee_trace::LINE_BYTES;
use knee_trace::findings::{Separation, Separations, SharedField};

use super::explain::few;
use crate::present::style::{BOLD, DIM};

/// The fields that calls share falsely, and those to move apart. If a struct has `members`, also prints these. `most` is the
/// maximum number of structs.
pub(crate) fn layouts(separations: &Separations, title: &str, most: usize) -> String {
    let structs = &separations.structs;
    let mut text = format!("{BOLD}{title}{BOLD:#}\n");
    if structs.is_empty() {
        text += "No test shares different fields of one struct falsely.\n";
    }
    for of in structs.iter().take(most) {
        let (tests, freed) = (plural(of.tests, "test"), of.unlocks_tests);
        let _ = writeln!(text, "\n{BOLD}struct {}{BOLD:#}, {} bytes", of.name, of.bytes);
        let _ = writeln!(
            text,
            "falsely shared in {tests}; moving the fields apart would make {freed} of them conflict-free\n"
        );
        let shared = if of.members.is_empty() { "" } else { " *falsely shared" };
        let _ = writeln!(text, "{DIM}{:>8} {:>6}{shared}{DIM:#}", "offset", "bytes");
        text += &fields(of);
        text += &advice(of);
    }
    if structs.len() > most {
        let more = plural(structs.len() - most, "more struct");
        let _ = writeln!(text, "\n{DIM}and {more} (--top 0 shows all){DIM:#}");
    }
    text
}

/// A line for each shared field, with the operations that use it below. With the members, also a line for each of these,
/// and one where a cache line begins.
fn fields(of: &Separation) -> String {
    let is_all = !of.members.is_empty();
    let mark = if is_all { "*" } else { "" };
    let shared = of.fields.iter().map(|field| (field.offset, shared_field(field, mark)));
    let is_shared = |name: &str, offset| {
        of.fields.iter().any(|field| field.name == name && field.offset == offset)
    };
    let others = of.members.iter().filter(|member| !is_shared(&member.name, member.offset));
    let others = others.map(|member| {
        (member.offset, row(member.offset, member.bytes, &member.name, &member.of, ""))
    });
    // A field of a nested struct follows the member that contains it.
    let mut rows: Vec<(u64, String)> = others.chain(shared).collect();
    rows.sort_by_key(|(offset, _)| *offset);
    let (mut text, mut line) = (String::new(), None);
    for (offset, row) in rows {
        if is_all && line != Some(offset / LINE_BYTES) {
            line = Some(offset / LINE_BYTES);
            let _ = writeln!(text, "{DIM}{:>17}-- line {} --{DIM:#}", "", offset / LINE_BYTES);
        }
        text += &row;
    }
    if is_all {
        text += "\nLine numbers assume that the struct starts on a cache-line boundary.\n";
    }
    text
}

fn shared_field(field: &SharedField, mark: &str) -> String {
    let SharedField { name, of, offset, bytes, writers, readers } = field;
    let mut text = row(*offset, *bytes, name, of, mark);
    for (what, by) in [("written by", writers), ("read by", readers)] {
        if !by.is_empty() {
            let _ = writeln!(text, "{:>19}{DIM}{what} {}{DIM:#}", "", operations(by));
        }
    }
    text
}

/// A field.
fn row(offset: u64, bytes: u64, name: &str, of: &str, mark: &str) -> String {
    format!("{offset:>8} {bytes:>6} {mark:1}{name}  {DIM}{of}{DIM:#}\n")
}

/// Operations with their numbers of tests, the most frequent first.
fn operations(by: &BTreeMap<String, usize>) -> String {
    let mut by: Vec<(&String, &usize)> = by.iter().collect();
    by.sort_by_key(|(_, tests)| std::cmp::Reverse(*tests));
    let named: Vec<String> = by.iter().map(|(of, tests)| format!("{of} ({tests})")).collect();
    few(named.iter().map(String::as_str))
}

fn advice(of: &Separation) -> String {
    let mut text = String::from("\n");
    for group in &of.moved {
        let lines = match group.as_slice() {
            [_] => "a cache line of its own",
            _ => "cache lines of their own",
        };
        let _ = writeln!(text, "Move {} to {lines}.", and_list(group));
    }
    if of.moved.iter().flatten().any(|name| name.contains('.')) {
        text += "Fields of a nested struct can only move within it.\n";
    }
    if !of.moved.is_empty() {
        let _ = writeln!(text, "The struct then has at most {} bytes.", of.grown);
    }
    text
}
