//! What calls that commute share in a kernel: a triangle of pairs, and the tests of each.
//!
//! There may be tens of thousands of tests. They are compressed, with each distinct line and each
//! name once, and the script shows the tests of a pair when the reader selects its cell.

use std::collections::BTreeMap;

use indexmap::IndexSet;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::fragment::fragment;
use super::packed::packed;
use super::triangle::{COLOURS, heat, triangle};
use crate::shared::{Shared, SharedTest};

pub(super) fn section(checks: &[Shared]) -> Markup {
    html! {
        section #shared aria-labelledby="shared-title" {
            h2 #shared-title { "What commuting calls share" }
            p.lead {
                "Calls that commute do not need to wait for each other. A test is conflict-free if, in "
                "this kernel, no call of the test writes a cache line that another call accesses."
            }
            (legend())
            @for (nr, shared) in checks.iter().enumerate() { (one(shared, &format!("{}", nr + 1))) }
        }
    }
}

fn legend() -> Markup {
    html! {
        div.heat-legend {
            p { "Number of tests that are not conflict-free. The darker the cell, the larger \
                their share." }
            ul aria-hidden="true" {
                li { span.heat.always {} " none" }
                li { @for level in (0..COLOURS).rev() { span class={ "heat heat" (level) } {} } }
                li { span.heat.never {} " all" }
            }
        }
    }
}

fn one(shared: &Shared, key: &str) -> Markup {
    let operations: Vec<(&str, &str)> =
        shared.operations.iter().map(|name| (name.as_str(), "")).collect();
    html! {
        section.commute.shared aria-labelledby={ "shared-" (key) } {
            h3 id={ "shared-" (key) } { (shared.name) }
            p.facts { (shared.total().with_false_sharing()) @for fact in &shared.facts { " · " (fact) } }
            (triangle(&shared.name, &operations, "Tests of the chosen pair", |column, row| {
                cell(shared, key, column, row)
            }))
            @if !shared.fixes.is_empty() {
                details.data.fixes open {
                    summary { "What to fix first" }
                    ol { @for fix in &shared.fixes { li { (fix) } } }
                }
            }
            noscript { p.note { "This page needs JavaScript to show the tests of a pair." } }
            (packed("shared-data", &embedded(shared, key)))
        }
    }
}

fn address(shared: &Shared, key: &str, [a, b]: [usize; 2]) -> String {
    let [a, b] = [a, b].map(|nr| fragment(&shared.operations[nr]));
    format!("#shared={key}.{a}.{b}")
}

fn cell(shared: &Shared, key: &str, a: usize, b: usize) -> Markup {
    let Some(counts) = shared.counts(a, b) else {
        return html! { td title="no test" { "–" } };
    };
    let (percent, others) = (counts.percent(), counts.others());
    html! {
        td {
            a class={ "heat " (heat(percent)) } href=(address(shared, key, [a, b]))
                data-free=(percent)
                aria-label={ (shared.operations[a]) " and " (shared.operations[b]) ": " (counts.with_false_sharing()) } {
                // A space, so that the cell has the height of one with a number.
                @if others > 0 { (others) } @else { "\u{a0}" }
            }
        }
    }
}

/// The data for the script: `names`, `lines`, and in `pairs` the tests of two operations by
/// address.
///
/// A test has its id, its verdict, the indices of its lines, and a note. A line has the index of
/// its name, whether the calls touch the same bytes, and the calls. A call has its number, the
/// first and the last byte, and the indices of the functions that write and of those that read.
fn embedded<'s>(shared: &'s Shared, key: &str) -> String {
    let mut names: IndexSet<&str> = IndexSet::new();
    let mut lines: Vec<Value> = Vec::with_capacity(shared.lines.len());
    for line in &shared.lines {
        let mut sides: Vec<Value> = Vec::with_capacity(line.sides.len());
        for side in &line.sides {
            let [first, last] = side.bytes;
            let mut numbers = |functions: &'s [String]| -> Value {
                functions.iter().map(|name| names.insert_full(name).0).collect()
            };
            let (writers, readers) = (numbers(&side.writers), numbers(&side.readers));
            sides.push(json!([side.call, first, last, writers, readers]));
        }
        lines.push(json!([names.insert_full(&line.name).0, line.same_bytes, sides]));
    }
    let test = |test: &SharedTest| json!([test.id, test.verdict, test.lines, test.note]);
    let pairs: BTreeMap<String, Value> = shared
        .pairs
        .iter()
        .map(|(pair, tests)| (address(shared, key, *pair), tests.iter().map(test).collect()))
        .collect();
    let names: Value = names.into_iter().collect();
    json!({ "names": names, "lines": lines, "pairs": pairs }).to_string()
}
