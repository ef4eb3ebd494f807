//! What calls that commute share in a kernel: a triangle of pairs, and the tests of each.
//!
//! There may be tens of thousands of tests. They are packed, each different line and each name once,
//! and the script shows those of a pair when its cell is chosen.

use std::collections::{BTreeMap, HashMap};

use maud::{Markup, html};
use serde::Serialize;

use super::fragment::fragment;
use super::packed::packed;
use super::triangle::{COLOURS, heat, triangle};
use crate::shared::{Shared, SharedVerdict};

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
            p { "Number of tests that are not conflict-free; darker cells have a greater share" }
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
            p.facts { (shared.total().sentence()) @for fact in &shared.facts { " · " (fact) } }
            div.matrix-and-pair {
                div.scroll role="region" aria-label={ "Matrix of " (shared.name) } {
                    (triangle(&operations, |column, row| cell(shared, key, column, row)))
                }
                div.chosen-pair hidden {
                    p.note { "Point at a cell, or move with the arrow keys; a click pins it." }
                    div.shown-pair tabindex="0" role="region" aria-label="Tests of the chosen pair" {}
                }
            }
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
                aria-label={ (shared.operations[a]) " and " (shared.operations[b]) ": " (counts.sentence()) } {
                // A space that holds the line of the text, as numbers do.
                @if others > 0 { (others) } @else { "\u{a0}" }
            }
        }
    }
}

/// What the script reads. Numbers in `lines` are places in `names`, those of a test places in
/// `lines`.
#[derive(Serialize)]
struct Embedded<'s> {
    names: Vec<&'s str>,
    lines: Vec<EmbeddedLine>,
    /// By address.
    pairs: BTreeMap<String, Vec<EmbeddedTest<'s>>>,
}

/// Name, whether the same bytes are touched, and the calls.
#[derive(Serialize)]
struct EmbeddedLine(usize, bool, Vec<EmbeddedSide>);

/// Number of the call, first and last byte, functions that write, functions that read.
#[derive(Serialize)]
struct EmbeddedSide(usize, u32, u32, Vec<usize>, Vec<usize>);

/// Id, verdict, lines, and a note.
#[derive(Serialize)]
struct EmbeddedTest<'s>(&'s str, SharedVerdict, &'s [usize], &'s str);

#[derive(Default)]
struct Names<'s> {
    numbers: HashMap<&'s str, usize>,
    names: Vec<&'s str>,
}

impl<'s> Names<'s> {
    fn number(&mut self, name: &'s str) -> usize {
        let names = &mut self.names;
        *self.numbers.entry(name).or_insert_with(|| {
            names.push(name);
            names.len() - 1
        })
    }

    fn all(&mut self, names: &'s [String]) -> Vec<usize> {
        names.iter().map(|name| self.number(name)).collect()
    }
}

fn embedded(shared: &Shared, key: &str) -> String {
    let mut names = Names::default();
    let mut lines = Vec::with_capacity(shared.lines.len());
    for line in &shared.lines {
        let mut sides = Vec::with_capacity(line.sides.len());
        for side in &line.sides {
            let [first, last] = side.bytes;
            let (writers, readers) = (names.all(&side.writers), names.all(&side.readers));
            sides.push(EmbeddedSide(side.call, first, last, writers, readers));
        }
        lines.push(EmbeddedLine(names.number(&line.name), line.same_bytes, sides));
    }
    let pairs = shared.pairs.iter().map(|(pair, tests)| {
        let tests = tests
            .iter()
            .map(|test| EmbeddedTest(&test.id, test.verdict, &test.lines, &test.note))
            .collect();
        (address(shared, key, *pair), tests)
    });
    let pairs = pairs.collect();
    serde_json::to_string(&Embedded { names: names.names, lines, pairs })
        .expect("plain data has no keys that are not text")
}
