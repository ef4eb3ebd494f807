//! All testcases as small curves, the one that scales worst first, and as a table.

use std::collections::BTreeSet;

use knee_host::number::{change, coefficient, percent, plural, si};
use knee_results::{Axis, CurveVerdict, Mode};
use maud::{Markup, html};

use super::fragment::fragment;
use super::words;
use crate::chart::{SparkScale, spark, swatch};
use crate::model::Change;
use crate::reading::{CaseReading, CurveReading, Reading, tally};
use crate::verdict::{ChangeVerdict, Labelled as _, meaning};

pub(super) fn overview(reading: &Reading) -> Markup {
    let scale = SparkScale::of(reading);
    html! {
        section #overview aria-labelledby="overview-title" {
            h2 #overview-title { "Overview" }
            p.lead {
                (verdicts(reading))
                @if scale.is_some() {
                    "Speed-up against task count. Both axes are logarithmic and the same for all "
                    "testcases. "
                    "The dotted diagonal is perfect scaling, with its greatest speed-up beside it; a flat "
                    "line means no scaling, and a falling line is a loss. A bar across a curve marks its knee, the first task count \
                     with an \
                     efficiency below "
                    (percent(reading.page.knee_efficiency)) "."
                    @if reading.has(|curve| curve.measured.axis != Axis::Tasks) {
                        " A name with “@tasks” is a server with a fixed task count. Its curve is \
                         over connections instead of tasks."
                    }
                    @if reading.has(|curve| curve.oversubscribed().next().is_some()) {
                        " A dashed grey line continues a curve where there are more tasks than CPUs; \
                         it counts in no knee, peak or efficiency."
                    }
                    @if reading.has(|curve| curve.disturbed().next().is_some()) {
                        " ⊗ marks a point that other work disturbed; nothing is concluded from it."
                    }
                }
            }
            (meanings(reading))
            (filters(reading))
            ol.tiles.compared[reading.compares()] {
                @for case in &reading.cases { (tile(reading, case, scale.as_ref())) }
            }
            p.none hidden { "No testcase matches. " button type="button" data-clear { "Show all" } }
            details.summary-table {
                summary { "Show as a table" }
                (table(reading))
            }
        }
    }
}

/// Testcase counts by verdict. The verdict of a testcase is that of its worst curve that counts.
fn verdicts(reading: &Reading) -> Markup {
    let worst = reading.cases.iter().map(|case| {
        case.curves.iter().map(|curve| curve.verdict).min().unwrap_or(CurveVerdict::Missing)
    });
    let disturbed =
        reading.curves().filter(|(_, curve)| curve.verdict == CurveVerdict::Disturbed).count();
    html! {
        span.tally {
            @for (verdict, count) in tally(worst) {
                span class={ "chip verdict " (verdict.as_str()) } {
                    span.shape aria-hidden="true" { (verdict.label().shape) }
                    " " strong { (count) } " " (verdict.label().words)
                }
            }
            @if disturbed > 0 {
                span.excluded { "⊗ " (plural(disturbed, "disturbed curve")) " not counted" }
            }
        }
    }
}

/// An explanation of each verdict on the page.
fn meanings(reading: &Reading) -> Markup {
    let found: BTreeSet<CurveVerdict> = reading.curves().map(|(_, curve)| curve.verdict).collect();
    html! {
        ul.meanings aria-label="Verdicts" {
            @for verdict in found {
                li { (words::verdict(verdict)) ": " (meaning(verdict, reading.page.knee_efficiency)) "." }
            }
        }
    }
}

/// Filters, which the script shows and implements.
fn filters(reading: &Reading) -> Markup {
    let families: BTreeSet<&str> = reading.cases.iter().map(|case| case.family()).collect();
    let modes: BTreeSet<Mode> = reading.curves().map(|(_, curve)| curve.measured.mode).collect();
    let found: BTreeSet<CurveVerdict> = reading.curves().map(|(_, curve)| curve.verdict).collect();
    let select = |name: &str, label: &str, all: &str, options: Vec<(&str, &str)>| {
        html! {
            label {
                span { (label) }
                select name=(name) {
                    option value="" { (all) }
                    @for (value, text) in options { option value=(value) { (text) } }
                }
            }
        }
    };
    html! {
        form #filters role="search" aria-label="Filter testcases" hidden {
            label {
                span { "Search" }
                input type="search" name="q" placeholder="name or description" autocomplete="off";
            }
            (select("family", "Family", "all", families.iter().map(|f| (*f, *f)).collect()))
            @if modes.len() > 1 {
                (select("mode", "Mode", "both", Mode::ALL.map(|m| (m.as_str(), m.as_str())).to_vec()))
            }
            (select("verdict", "Scaling", "all",
                found.iter().map(|v| (v.as_str(), v.label().words)).collect()))
            @if reading.compares() {
                (select("change", "Change", "all",
                    ChangeVerdict::all().map(|v| (v.as_str(), v.label().words)).collect()))
            }
            label {
                span { "Order" }
                select name="sort" {
                    option value="" { "worst scaling first" }
                    @if reading.compares() { option value="change" { "largest change first" } }
                    option value="name" { "by name" }
                }
            }
            button type="button" data-clear { "Clear" }
            output aria-live="polite" {}
        }
    }
}

fn tile(reading: &Reading, case: &CaseReading, scale: Option<&SparkScale>) -> Markup {
    let name = &case.name;
    html! {
        li.tile data-case=(name) data-family=(case.family())
            data-change=[largest_change(case).map(|c| format!("{c:.4}"))] {
            h3 { a href={ "#case=" (fragment(name)) } { (name) } }
            span.family { (case.family()) }
            p.description { (case.info.description) }
            @if case.curves.is_empty() { p { (words::verdict(CurveVerdict::Missing)) } }
            div.modes {
                @for (mode, curves) in case.modes() {
                    (tile_mode(reading, case, mode, curves, scale))
                }
            }
        }
    }
}

fn tile_mode(
    reading: &Reading,
    case: &CaseReading,
    mode: Mode,
    curves: &[CurveReading],
    scale: Option<&SparkScale>,
) -> Markup {
    let verdicts: BTreeSet<&str> = curves.iter().map(|curve| curve.verdict.as_str()).collect();
    let changes = tally(all_changes(curves).map(ChangeVerdict::of));
    let changed: Vec<&str> = changes.keys().map(|verdict| verdict.as_str()).collect();
    let verdicts: Vec<&str> = verdicts.into_iter().collect();
    html! {
        div.mode data-mode=(mode.as_str()) data-verdicts=(verdicts.join(" "))
            data-changes=(changed.join(" ")) {
            div.mode-name { (mode.as_str()) }
            @if let Some(scale) = scale {
                (spark(scale, &case.name, mode, curves))
            }
            @for curve in curves {
                div.result {
                    @if reading.compares() {
                        span title=(curve.run.label) { (swatch(curve.curve.run)) }
                    }
                    strong.number { (headline(case, curve)) }
                    @if scale.is_some() { (words::at_last(curve)) }
                    @if scale.is_some() || shows_without_curve(curve.verdict) {
                        " " (words::explained(curve, reading.page.knee_efficiency))
                    }
                    @else if let Some(against) = only_change(curve) {
                        " " (words::verdict(ChangeVerdict::of(against))) " "
                        (ratio(against))
                    }
                }
            }
            @if scale.is_some() && !changes.is_empty() { div.result.changes { (words::changes(&changes)) } }
        }
    }
}

/// Whether the verdict is shown on a page without any curve.
fn shows_without_curve(verdict: CurveVerdict) -> bool {
    matches!(verdict, CurveVerdict::Missing | CurveVerdict::Disturbed)
}

fn ratio(against: &Change) -> String {
    match against.comparison.ratio {
        Some(ratio) if !against.disturbed => change(ratio.ratio),
        _ => words::change_note(against),
    }
}

/// The number of a tile: the efficiency, or the rate if there is no curve.
fn headline(case: &CaseReading, curve: &CurveReading) -> String {
    match (curve.measured.last_efficiency(), curve.measured.last()) {
        (Some(efficiency), _) => percent(efficiency),
        (None, Some(point)) => format!("{} {}/s", si(point.rate), case.info.unit),
        (None, None) => String::new(),
    }
}

/// The change at the only point of a curve.
fn only_change<'p>(curve: &CurveReading<'p>) -> Option<&'p Change> {
    match curve.measured.points() {
        [point] => curve.curve.changes.get(&point.tasks),
        _ => None,
    }
}

fn all_changes<'p>(curves: &[CurveReading<'p>]) -> impl Iterator<Item = &'p Change> {
    curves.iter().flat_map(|curve| curve.curve.changes.values())
}

/// The size of the largest change from the first run, in either direction, for ordering.
fn largest_change(case: &CaseReading) -> Option<f64> {
    all_changes(&case.curves)
        .filter(|change| !change.disturbed && change.comparison.verdict.is_change())
        .filter_map(|change| Some(change.comparison.ratio?.ratio.max(1e-9).ln().abs()))
        .reduce(f64::max)
}

fn table(reading: &Reading) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Overview as a table" {
            table {
                thead {
                    tr {
                        th scope="col" { "testcase" }
                        th scope="col" { "mode" }
                        @if reading.compares() { th scope="col" { "run" } }
                        @for rate in [
                            "rate at the lowest usable task count, per s",
                            "rate at the highest one, per s",
                        ] {
                            th.n scope="col" { (rate) }
                        }
                        @for number in ["highest usable task count", "efficiency", "knee", "peak", "σ", "κ"] {
                            th.n scope="col" { (number) }
                        }
                        th scope="col" { "verdict" }
                        @if reading.compares() { th scope="col" { "against the first run" } }
                    }
                }
                tbody {
                    @for (case, curve) in reading.curves() { (row(reading, case, curve)) }
                }
            }
        }
    }
}

fn row(reading: &Reading, case: &CaseReading, curve: &CurveReading) -> Markup {
    let name = &case.name;
    let none = || "–".to_owned();
    let rate = |point: Option<&knee_results::Point>| point.map_or_else(none, |p| si(p.rate));
    let fit = curve.curve.fit.as_ref().ok().filter(|fit| fit.is_prediction);
    html! {
        tr data-case=(name) data-mode=(curve.measured.mode.as_str()) {
            th scope="row" { a href={ "#case=" (fragment(name)) } { (name) } }
            td { (curve.measured.mode.as_str()) }
            @if reading.compares() { td { (curve.run.label) } }
            td.n { (rate(curve.measured.sound().next())) }
            td.n { (rate(curve.measured.last())) }
            td.n { (curve.measured.last().map_or_else(none, |p| p.tasks.to_string())) }
            td.n { (curve.measured.last_efficiency().map_or_else(none, percent)) }
            td.n { (curve.knee.map_or_else(none, |knee| knee.to_string())) }
            td.n { (curve.measured.peak().map_or_else(none, |p| p.tasks.to_string())) }
            td.n { (fit.map_or_else(none, |fit| coefficient(fit.sigma.value))) }
            td.n { (fit.map_or_else(none, |fit| coefficient(fit.kappa.value))) }
            td { (words::explained(curve, reading.page.knee_efficiency)) }
            @if reading.compares() { td { (words::changes(&curve.changes)) } }
        }
    }
}
