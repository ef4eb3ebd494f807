//! Verdicts as shapes and words, and notes about comparisons and fits.

use std::collections::BTreeMap;

use knee_host::number::plural;
use knee_stats::usl::Fit;
use knee_stats::{Comparison, Verdict};
use maud::{Markup, html};

use crate::reading::{Label, Labelled};

pub(super) fn verdict(verdict: impl Labelled) -> Markup {
    let Label { class, shape, words } = verdict.label();
    html! {
        span class={ "verdict " (class) } {
            span.shape aria-hidden="true" { (shape) } " " (words)
        }
    }
}

/// A remark about a comparison; may be empty.
pub(crate) fn change_note(comparison: &Comparison) -> String {
    match (comparison.ratio, comparison.rounds_needed) {
        (None, _) => "no ratio: a round of the first run completed no iteration".to_owned(),
        (Some(_), Some(n)) => format!("about {n} rounds needed"),
        (Some(_), None) => String::new(),
    }
}

/// A remark about a fit; may be empty.
pub(crate) fn fit_note(fit: &Fit) -> String {
    match fit.is_prediction {
        true => String::new(),
        false => format!("{}: not a prediction", plural(fit.residuals.len(), "point")),
    }
}

/// Point counts by verdict.
pub(super) fn changes(counts: &BTreeMap<Verdict, usize>) -> Markup {
    html! {
        @for (verdict, count) in counts {
            span class={ "verdict " (verdict.as_str()) } {
                span.shape aria-hidden="true" { (verdict.label().shape) }
                " " (count) " " (verdict.as_str())
            }
            " "
        }
    }
}

/// `3 slower, 5 same`.
pub(crate) fn words_of_changes(counts: &BTreeMap<Verdict, usize>) -> String {
    let words: Vec<String> =
        counts.iter().map(|(verdict, count)| format!("{count} {}", verdict.as_str())).collect();
    words.join(", ")
}
