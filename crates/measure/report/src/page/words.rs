//! Verdicts as shape, word and colour.

use std::collections::BTreeMap;

use knee_results::Verdict;
use maud::{Markup, html};

use crate::model::ChangeVerdict;
use crate::reading::Shown;

pub(super) fn scaling(verdict: Verdict) -> Markup {
    html! {
        span class={ "verdict " (verdict.as_str()) } {
            span.shape aria-hidden="true" { (verdict.shape()) } " " (verdict.words())
        }
    }
}

pub(super) fn change(verdict: ChangeVerdict) -> Markup {
    html! {
        span class={ "verdict " (verdict.word()) } {
            span.shape aria-hidden="true" { (verdict.shape()) } " " (verdict.word())
        }
    }
}

/// How many points of a curve have each verdict.
pub(super) fn changes(counts: &BTreeMap<ChangeVerdict, usize>) -> Markup {
    html! {
        @for (verdict, count) in counts {
            span class={ "verdict " (verdict.word()) } {
                span.shape aria-hidden="true" { (verdict.shape()) }
                " " (count) " " (verdict.word())
            }
            " "
        }
    }
}

/// `3 slower, 5 same`.
pub(crate) fn words_of_changes(counts: &BTreeMap<ChangeVerdict, usize>) -> String {
    let words: Vec<String> =
        counts.iter().map(|(verdict, count)| format!("{count} {}", verdict.word())).collect();
    words.join(", ")
}
