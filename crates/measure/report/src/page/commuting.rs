//! When operations commute: a triangle of shares per interface, and the conditions of every pair.
//!
//! The triangle is a table of links to the conditions, which follow as text, so that everything is
//! readable without JavaScript. With it, the page shows the conditions of a cell beside the table.

use knee_host::number::plural;
use maud::{Markup, html};

use super::fragment::fragment;
use super::triangle::{COLOURS, heat, triangle};
use crate::matrix::{Matrix, MatrixOperation, Pair};

pub(super) fn section(matrices: &[Matrix]) -> Markup {
    html! {
        section #commute aria-labelledby="commute-title" {
            h2 #commute-title { "When operations commute" }
            p.lead {
                "Operations that commute have an implementation that scales. If they do not commute, "
                "cores must first agree on an order. A situation is a class of initial states and "
                "arguments for which a model of the interface behaves the same."
            }
            (legend())
            @for (nr, matrix) in matrices.iter().enumerate() {
                @let is_new = matrices[..nr].iter().all(|m| m.interface != matrix.interface);
                @let key = if is_new { matrix.interface.clone() } else { format!("{}-{nr}", matrix.interface) };
                (one(matrix, &fragment(&key)))
            }
        }
    }
}

fn legend() -> Markup {
    html! {
        div.heat-legend {
            p { "Share of situations in which a pair commutes, in per cent" }
            ul aria-hidden="true" {
                li { span.heat.never { "0" } " never" }
                li {
                    @for level in 0..COLOURS {
                        @let text = match level { 0 => "1", l if l + 1 == COLOURS => "99", _ => "" };
                        span class={ "heat heat" (level) } { (text) }
                    }
                }
                li { span.heat.always { "100" } " always" }
            }
            p.note {
                "Each situation counts once, however often real programs reach it."
            }
        }
    }
}

fn one(matrix: &Matrix, key: &str) -> Markup {
    let Matrix { interface, about, pairs, knee_version, .. } = matrix;
    let operations: Vec<(&str, &str)> = matrix
        .operations
        .iter()
        .map(|MatrixOperation { name, about }| (name.as_str(), about.as_str()))
        .collect();
    let cells = matrix.cells();
    let sum = |of: fn(&Pair) -> u32| pairs.iter().map(|pair| of(pair) as usize).sum::<usize>();
    html! {
        section.commute aria-labelledby={ "commute-" (key) } {
            h3 id={ "commute-" (key) } { (interface) }
            p.facts {
                (about) " · " (sum(|pair| pair.commuting)) " of "
                (plural(sum(|pair| pair.situations), "situation")) " of "
                (plural(pairs.len(), "pair")) " commute · model of knee " (knee_version)
            }
            (doubts(pairs))
            (triangle(interface, &operations, "Conditions of the chosen pair", |column, row| {
                cell(key, cells.get(&[column, row]).copied())
            }))
            details.data.conditions {
                summary { "Conditions of all pairs: " (plural(pairs.len(), "pair")) }
                @for pair in pairs { (conditions(matrix, key, pair)) }
            }
        }
    }
}

/// The pairs that were not fully explored.
fn doubts(pairs: &[Pair]) -> Markup {
    let names = |of: fn(&Pair) -> bool| {
        let names: Vec<String> = pairs
            .iter()
            .filter(|pair| of(pair))
            .map(|pair| format!("{} and {}", pair.operations[0], pair.operations[1]))
            .collect();
        names.join("; ")
    };
    let doubts = [
        (
            "Not all situations of these pairs were explored (--limit of knee commute matrix): ",
            names(|pair| pair.cut),
        ),
        (
            "Some situations of these pairs were abandoned, because the model takes too many \
             decisions in them: ",
            names(|pair| pair.given_up > 0),
        ),
    ];
    html! {
        @for (doubt, names) in doubts.iter().filter(|(_, names)| !names.is_empty()) {
            p.doubts { span.shape aria-hidden="true" { "⚠" } " " (doubt) (names) }
        }
    }
}

fn id(key: &str, pair: &Pair) -> String {
    let [a, b] = &pair.operations;
    format!("commute={key}.{}.{}", fragment(a), fragment(b))
}

fn cell(key: &str, pair: Option<&Pair>) -> Markup {
    let Some((pair, percent)) = pair.and_then(|pair| Some((pair, pair.percent()?))) else {
        return html! { td title="not explored" { "–" } };
    };
    let [a, b] = &pair.operations;
    html! {
        td {
            a class={ "heat " (heat(percent.into())) } href={ "#" (id(key, pair)) }
                aria-label={ (a) " and " (b) ": " (percent) " %" } { (percent) }
        }
    }
}

fn conditions(matrix: &Matrix, key: &str, pair: &Pair) -> Markup {
    let [a, b] = &pair.operations;
    let signature = |call: &str, name: &str| {
        let operation = matrix.operations.iter().find(|operation| operation.name == *name);
        let about = operation.map_or("", |operation| &operation.about);
        html! { div { (call) ": " strong { (name) } span.description { (about) } } }
    };
    html! {
        div.pair id=(id(key, pair)) {
            div.calls { (signature("a", a)) (signature("b", b)) }
            @match pair.commute_if_any_of.as_slice() {
                [] if pair.situations == 0 => p { "Not explored." },
                [] => p { "They never commute." },
                [always] if always.is_empty() => p { "They always commute." },
                some => {
                    p { "They commute if" }
                    ul { @for (nr, all_of) in some.iter().enumerate() { li { (either(nr)) (formulas(all_of)) } } }
                }
            }
            @match pair.differ.as_slice() {
                [] => {}
                [always] if always.all_of.is_empty() => p { (always.because) "." },
                some => {
                    @let elsewhere = !pair.commute_if_any_of.is_empty();
                    p { @if elsewhere { "Otherwise they do not:" } @else { "For these reasons:" } }
                    ul {
                        @for reason in some {
                            li {
                                (reason.because)
                                @if !reason.all_of.is_empty() {
                                    ", " span.because { "for example if " (formulas(&reason.all_of)) }
                                }
                                span.joint { " (" (plural(reason.situations as usize, "situation")) ")" }
                            }
                        }
                    }
                }
            }
            p.note {
                (pair.commuting) " of " (plural(pair.situations as usize, "situation")) " commute"
                @if let Some(percent) = pair.percent() { " (" (percent) "%)" } "."
            }
        }
    }
}

fn either(nr: usize) -> Markup {
    html! { @if nr > 0 { span.joint { "or " } } }
}

fn formulas(all_of: &[String]) -> Markup {
    html! {
        @if all_of.is_empty() { "always" }
        @for (nr, formula) in all_of.iter().enumerate() {
            @if nr > 0 { span.joint { " and " } }
            (formula)
        }
    }
}
