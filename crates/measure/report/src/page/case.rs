//! One testcase: its charts for each mode, what the fit says, the numbers.

use knee_host::number::{Prefix, percent, si, tasks};
use knee_results::{CaseInfo, Mode};
use maud::{Markup, html};

use super::fragment::fragment;
use super::packed::packed;
use super::{counters, fit, latency, predictions, profiles, table, words};
use crate::chart::{self, Panel, run_class, swatch};
use crate::embed;
use crate::reading::{CaseReading, CurveReading, Reading, max_rate};
use crate::verdict;

/// On a page with up to this many testcases, all of them are open from the start.
const ALL_OPEN: usize = 4;
/// If the page has more points than this, testcases that are not open from the start are
/// compressed.
const PLAIN_POINTS: usize = 2500;
/// Modes share the scale of throughput, so that a reader can compare them. A mode that would fill
/// less than this share of the scale has its own, because its shape would be lost.
const SHARED_SCALE: f64 = 0.4;

pub(super) fn cases(reading: &Reading) -> Markup {
    let all_open = reading.cases.len() <= ALL_OPEN;
    let points: usize = reading.page.curves.iter().map(|curve| curve.measured.points().len()).sum();
    let open = |nr: usize| nr == 0 || all_open;
    let packs = |nr: usize| points > PLAIN_POINTS && !open(nr);
    html! {
        section #testcases aria-labelledby="testcases-title" {
            h2 #testcases-title { "Testcases" }
            @if packs(reading.cases.len()) {
                p.note {
                    "To keep the page small, all testcases except the first are compressed. JavaScript "
                    "unpacks a testcase when you open it. Without JavaScript, and on paper, the page "
                    "lacks the charts and data of unopened testcases. The overview shows all testcases."
                }
            }
            (legend(reading))
            @for (nr, case) in reading.cases.iter().enumerate() {
                (one(reading, case, open(nr), packs(nr)))
            }
        }
    }
}

/// The legend of all charts.
fn legend(reading: &Reading) -> Markup {
    let points = || reading.page.curves.iter().flat_map(|curve| curve.measured.points());
    let fitted = |good: bool| {
        reading.curves().any(|(_, c)| c.curve.fit.as_ref().is_ok_and(|f| f.is_prediction == good))
    };
    html! {
        ul.legend aria-label="How to read the charts" {
            li { (chart::sample("median")) "median of the rounds and its interval" }
            li { (chart::sample("rounds")) "a round" }
            li { (chart::sample("gap")) "not measured" }
            @if reading.has(|curve| curve.disturbed().next().is_some()) {
                li { (chart::sample("disturbed")) "disturbed: nothing is concluded from the point" }
            }
            @if reading.cases.iter().any(CaseReading::is_curve) {
                @if reading.has(|curve| curve.oversubscribed().next().is_some()) {
                    li { (chart::sample("shared-cpus")) "more tasks than CPUs: no efficiency, knee or peak" }
                }
                @if reading.has(|curve| curve.implausible().next().is_some()) {
                    li { (chart::sample("implausible")) "implausible efficiency" }
                }
                li { (chart::sample("ideal")) "perfect scaling" }
                @if fitted(true) { li { (chart::sample("fit")) "Universal Scalability Law" } }
                @if fitted(false) {
                    li { (chart::sample("fit guess")) "Universal Scalability Law, fitted to too few \
                        points for a prediction" }
                }
                li {
                    (chart::sample("knee")) "knee: efficiency below "
                    (percent(reading.page.knee_efficiency))
                }
                @if points().any(|point| point.per_task.is_some()) {
                    li { (chart::sample("band")) "slowest to fastest task" }
                }
                @if points().any(|point| point.cpu.is_some()) {
                    li { (chart::sample("user")) "user" }
                    li { (chart::sample("system")) "system" }
                    li { (chart::sample("idle")) "idle" }
                }
            }
        }
    }
}

fn one(reading: &Reading, case: &CaseReading, open: bool, packs: bool) -> Markup {
    let name = &case.name;
    html! {
        details.case id={ "case=" (fragment(name)) } data-case=(name) open[open] {
            summary {
                h3 { (name) }
                span.family { (case.family()) }
                span.description { (case.info.description) }
                span.at-a-glance {
                    @for (mode, curves) in case.modes() {
                        span data-mode=(mode.as_str()) { (glance(reading, mode, curves)) }
                    }
                }
            }
            @if packs {
                (packed("content", &content(reading, case, packs).0))
                (packed("case-data", &embed::case_json(case).to_string()))
            } @else {
                (content(reading, case, packs))
                (embed::case(case))
            }
            (profiles::flames(reading.page, case.id))
        }
    }
}

/// The visible content of an open testcase.
fn content(reading: &Reading, case: &CaseReading, packs: bool) -> Markup {
    html! {
        p.facts { (facts(case)) }
        div.tools {}
        @for (mode, curves) in case.modes() { (mode_section(reading, case, mode, curves, packs)) }
    }
}

/// The verdict on a mode in the summary line of a testcase, from its last run.
fn glance(reading: &Reading, mode: Mode, curves: &[CurveReading]) -> Markup {
    html! {
        (mode.as_str()) " "
        @if let Some(curve) = curves.last() {
            @if let Some(efficiency) = curve.measured.last_efficiency() {
                strong { (percent(efficiency)) } (words::at_last(curve)) " "
            }
            (words::explained(curve, reading.page.knee_efficiency))
            @if !curve.changes.is_empty() { " " (words::changes(&curve.changes)) }
        }
    }
}

fn facts(case: &CaseReading) -> String {
    let CaseInfo { unit, bytes, .. } = case.info;
    if *bytes == 0 {
        return format!("Rates are {unit} per second.");
    }
    let best = case.max_rate() * *bytes as f64;
    format!(
        "Rates are {unit} per second, of {bytes} bytes each. The fastest round moved {}B/s.",
        si(best).replace(' ', "\u{a0}")
    )
}

fn mode_section(
    reading: &Reading,
    case: &CaseReading,
    mode: Mode,
    curves: &[CurveReading],
    packs: bool,
) -> Markup {
    let Some(tasks) = case.tasks_range() else { return html! {} };
    let (all, own) = (case.max_rate(), max_rate(curves));
    let has_own_scale = own < all * SHARED_SCALE;
    let panel = Panel {
        reading,
        case,
        mode,
        curves,
        prefix: Prefix::for_max(if has_own_scale { own } else { all }),
        max_rate: if has_own_scale { own } else { all },
        tasks,
    };
    let unit = panel.prefix.unit(&case.info.unit);
    let changed = curves.iter().any(|curve| !curve.changes.is_empty());
    html! {
        section.mode-section data-mode=(mode.as_str())
            id={ "case=" (fragment(&case.name)) "&mode=" (mode.as_str()) } {
            h4 { (mode.as_str()) }
            (verdicts(reading, curves))
            (profiles::beside_knee(reading.page, case.id, mode))
            div.charts {
                @if curves.iter().all(|curve| curve.measured.points().is_empty()) {
                } @else if case.is_curve() {
                    figure {
                        figcaption {
                            "Throughput, " (unit)
                            @if has_own_scale { " " span.own-scale { "(own scale)" } }
                        }
                        (chart::throughput(&panel))
                    }
                    figure {
                        figcaption {
                            "Efficiency"
                            @if !panel.boundaries().is_empty() {
                                " " span.own-scale { "(not with more tasks than CPUs)" }
                            }
                        }
                        (chart::efficiency(&panel))
                    }
                    figure {
                        figcaption { "Per " (case.axis().unit()) ", " (case.info.unit) "/s" } (chart::per_task(&panel))
                    }
                    @if changed {
                        figure {
                            figcaption { "Change against " (reading.page.runs[0].label) }
                            (chart::change(&panel))
                        }
                    }
                } @else {
                    figure { figcaption { "Rounds, " (unit) } (chart::rounds(&panel)) }
                }
                (latency::figure(&panel))
            }
            @if case.is_curve() && !curves.iter().all(chart::draws_rounds) {
                p.note { "There are too many rounds to draw each round; the band shows the \
                    interval of the median." }
            }
            (caveats(curves))
            (predictions::links(reading, curves))
            (fit::fits(&panel))
            (latency::table(&panel))
            (counters::table(&panel))
            @if packs { (table::place(&panel)) } @else { (table::points(&panel)) }
        }
    }
}

/// A verdict per run, with the points that could not be measured.
fn verdicts(reading: &Reading, curves: &[CurveReading]) -> Markup {
    html! {
        ul.verdicts {
            @for curve in curves {
                li class=(run_class(curve.curve.run)) {
                    @if reading.compares() {
                        (swatch(curve.curve.run)) strong { (curve.run.label) } " "
                    }
                    (words::explained(curve, reading.page.knee_efficiency))
                    @if let Some(knee) = curve.knee { " · knee " strong { (knee) } }
                    @if let (Some(peak), Some(_)) = (curve.measured.peak(), curve.measured.last_efficiency()) {
                        " · peak throughput at " strong { (peak.tasks) }
                    }
                    @if !curve.changes.is_empty() {
                        " · against " (reading.page.runs[0].label) ": " (words::changes(&curve.changes))
                    }
                    @let disturbed = list(curve.disturbed().map(|point| point.tasks));
                    @if !disturbed.is_empty() {
                        div.missing {
                            span.shape aria-hidden="true" { "⊗" }
                            " " (curve.measured.axis.as_str()) " " (disturbed) ": disturbed by other work, so nothing is concluded"
                        }
                    }
                    @for gap in &curve.curve.missing {
                        div.missing {
                            span.shape aria-hidden="true" { "✕" }
                            " " (gap.tasks) " not measured: " (gap.reason)
                        }
                    }
                }
            }
        }
    }
}

/// `2, 4, 8`
fn list(tasks: impl Iterator<Item = u32>) -> String {
    tasks.map(|n| n.to_string()).collect::<Vec<_>>().join(", ")
}

/// Notes on points that do not show how the testcase scales.
fn caveats(curves: &[CurveReading]) -> Markup {
    let shares_cpus = curves.iter().filter_map(|curve| curve.first_oversubscribed()).min();
    let implausible = curves.iter().any(|curve| curve.implausible().next().is_some());
    html! {
        @if let Some(n) = shares_cpus {
            p.note {
                "From " (tasks(n)) " on, there are more tasks than CPUs. These points show how tasks share \
                 CPUs: they have no efficiency and count in no knee or peak."
            }
        }
        @if implausible {
            p.note { "Implausible: " (verdict::implausible()) "." }
        }
    }
}
