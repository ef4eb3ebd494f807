//! False sharing of the fields of structs, as text.

use std::collections::BTreeMap;
use std::fmt::Write;

use knee_host::number::plural;
use knee_host::text::and_list;
use knee_trace::findings::{Separation, Separations, SharedField};
use knee_trace::{Layout, Member};

use super::explain::few;
use crate::present::style::{BOLD, DIM};

/// Bytes of a cache line.
const LINE: u64 = 64;

/// The fields that calls share falsely, and those to move apart. `layout` is that of the only struct, whose other fields
/// are also printed. `most` limits the list of structs.
pub(crate) fn layouts(separations: &Separations, layout: Option<&Layout>, most: usize) -> String {
    let mut text = String::new();
    let structs = &separations.structs;
    if structs.is_empty() {
        return "In no test do the calls share only different fields of a struct.\n".to_owned();
    }
    for (nr, of) in structs.iter().take(most).enumerate() {
        text += if nr == 0 { "" } else { "\n" };
        let tests = plural(of.tests, "test");
        let _ = writeln!(text, "{BOLD}struct {}{BOLD:#}, {} bytes", of.name, of.bytes);
        let _ = writeln!(
            text,
            "falsely shared in {tests}; {} would be conflict-free with these fields apart\n",
            of.unlocks_tests
        );
        let _ = writeln!(text, "{DIM}{:>8} {:>6}{DIM:#}", "offset", "bytes");
        text += &fields(of, layout);
        text += &advice(of);
    }
    if structs.len() > most {
        let more = plural(structs.len() - most, "more struct");
        let _ = writeln!(text, "\n{DIM}and {more} (--top 0 shows all){DIM:#}");
    }
    text
}

/// A line for each shared field, with the operations that use it below. With a layout, also a line for each other
/// member, and one where a cache line ends.
fn fields(of: &Separation, layout: Option<&Layout>) -> String {
    let mut text = String::new();
    let members: &[Member] = layout.map_or(&[], |layout| &layout.members);
    let mut shared = of.fields.iter().peekable();
    let mut line = None;
    for member in members {
        let of_member = member.offset / LINE;
        if line.is_none_or(|line| line < of_member) {
            line = Some(of_member);
            let _ = writeln!(text, "{DIM}{:>17}-- line {of_member} --{DIM:#}", "");
        }
        // A field of a nested struct follows the member that contains it, or its part up to this field.
        while let Some(field) = shared.next_if(|field| field.offset < member.offset) {
            text += &shared_field(field);
        }
        match shared.next_if(|field| field.offset == member.offset && field.name == member.name) {
            Some(field) => text += &shared_field(field),
            None => text += &row(member.offset, member.bytes, &member.name, &member.of, ""),
        }
    }
    text.extend(shared.map(shared_field));
    if layout.is_some() {
        text += "\nThe lines are those of a struct that begins at a cache line.\n";
    }
    text
}

fn shared_field(field: &SharedField) -> String {
    let SharedField { name, of, offset, bytes, writers, readers } = field;
    let mut text = row(*offset, *bytes, name, of, "*");
    for (what, by) in [("written by", writers), ("read by", readers)] {
        if !by.is_empty() {
            let _ = writeln!(text, "{:>19}{DIM}{what} {}{DIM:#}", "", operations(by));
        }
    }
    text
}

/// A field; `mark` is `*` for a shared one.
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
    let bytes = |list: &[String]| -> u64 {
        of.fields.iter().filter(|field| list.contains(&field.name)).map(|field| field.bytes).sum()
    };
    let mut lists = of.moved.iter().map(|list| match list.as_slice() {
        [one] => format!("{one} to a cache line of its own"),
        few if bytes(few) <= LINE => format!("{} to a cache line of their own", and_list(few)),
        many => format!("{} to cache lines of their own", and_list(many)),
    });
    let Some(first) = lists.next() else { return String::new() };
    let rest: String = lists.map(|list| format!(", and {list}")).collect();
    format!("\nMove {first}{rest}: the struct then takes at most {} bytes.\n", of.grown)
}
