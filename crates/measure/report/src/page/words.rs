//! Verdicts as shapes and words, and notes about comparisons and fits.

use std::collections::BTreeMap;

use knee_host::number::plural;
use knee_stats::usl::Fit;
use maud::{Markup, html};

use crate::model::Change;
use crate::reading::CurveReading;
use crate::verdict::{ChangeVerdict, Label, Labelled, meaning};

pub(super) fn verdict(verdict: impl Labelled) -> Markup {
    titled(verdict, None)
}

/// The verdict on a curve, explained where the reader points at it.
pub(super) fn explained(curve: &CurveReading, knee: f64) -> Markup {
    titled(curve.verdict, Some(meaning(curve.verdict, knee)))
}

fn titled(verdict: impl Labelled, title: Option<String>) -> Markup {
    let Label { class, shape, words } = verdict.label();
    html! {
        span class={ "verdict " (class) } title=[title] {
            span.shape aria-hidden="true" { (shape) } " " (words)
        }
    }
}

/// A remark about a comparison; may be empty.
pub(crate) fn change_note(change: &Change) -> String {
    match (change.comparison.ratio, change.comparison.rounds_needed) {
        _ if change.disturbed => "other work disturbed a side".to_owned(),
        (None, _) => "no ratio: a round of the first run completed no iteration".to_owned(),
        (Some(_), Some(n)) => format!("about {n} rounds needed"),
        (Some(_), None) => String::new(),
    }
}

/// The task count of [`knee_results::Curve::last_efficiency`], if there are points or gaps at more
/// tasks; may be empty.
pub(super) fn at_last(curve: &CurveReading) -> String {
    let highest = curve.curve.task_counts().max();
    match curve.measured.last() {
        Some(last) if last.tasks > 1 && Some(last.tasks) != highest => {
            format!(" at {}", last.tasks)
        }
        _ => String::new(),
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
pub(super) fn changes(counts: &BTreeMap<ChangeVerdict, usize>) -> Markup {
    html! {
        @for (verdict, count) in counts {
            span class={ "verdict " (verdict.as_str()) } {
                span.shape aria-hidden="true" { (verdict.label().shape) }
                " " (count) " " (verdict.label().words)
            }
            " "
        }
    }
}

/// `3 slower, 5 same`.
pub(crate) fn words_of_changes(counts: &BTreeMap<ChangeVerdict, usize>) -> String {
    let words: Vec<String> = counts
        .iter()
        .map(|(verdict, count)| format!("{count} {}", verdict.label().words))
        .collect();
    words.join(", ")
}
