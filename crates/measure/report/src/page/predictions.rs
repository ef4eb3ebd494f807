//! Predicted curves: charts beside what was measured, what limits them, and the numbers.

use knee_host::number::{percent, si};
use knee_results::prediction::{Curve, Point, Prediction, Predictions};
use maud::{Markup, html};

use crate::chart::{self, Predicted, predicted, predicted_ratios, run_class, swatch};
use crate::reading::{CurveReading, Reading};

pub(super) fn section(reading: &Reading) -> Markup {
    let all = reading.page.predictions.iter();
    let all =
        all.flat_map(|file| file.predictions.iter().map(move |prediction| (file, prediction)));
    html! {
        section #predictions aria-labelledby="predictions-title" {
            h2 #predictions-title { "Predicted curves" }
            p.lead {
                "knee predict traced an iteration, and simulated as many CPUs as the machine has. A "
                "band contains most of the simulations with figures "
                "drawn from their uncertain ranges. The class of a point says how far it can be "
                "trusted."
            }
            @for (nr, (file, prediction)) in all.enumerate() {
                (one(reading, file, prediction, nr))
            }
        }
    }
}

/// Links from a measured testcase to its predictions.
pub(super) fn links(reading: &Reading, measured: &[CurveReading]) -> Markup {
    let all = reading.page.predictions.iter().flat_map(|file| &file.predictions);
    let same = all
        .enumerate()
        .filter(|(_, prediction)| measured.first().is_some_and(|curve| is_of(prediction, curve)));
    html! {
        @for (nr, prediction) in same {
            p.note {
                a href={ "#prediction-" (nr + 1) } { "Predicted for " (prediction.machine.name) }
            }
        }
    }
}

fn is_of(prediction: &Prediction, curve: &CurveReading) -> bool {
    let measured = curve.measured;
    (&measured.case, measured.mode) == (&prediction.testcase, prediction.mode)
}

fn one(reading: &Reading, file: &Predictions, prediction: &Prediction, nr: usize) -> Markup {
    let all = reading.cases.iter().flat_map(|case| case.modes());
    let same = all.map(|(_, curves)| curves).find(|curves| is_of(prediction, &curves[0]));
    let all =
        Predicted { prediction, measured: same.unwrap_or_default(), runs: reading.page.runs.len() };
    let ratios = predicted_ratios(&all);
    let is_title = nr == 0 && !reading.shows_runs();
    html! {
        section.prediction id={ "prediction-" (nr + 1) } {
            h3 { (prediction.testcase) ", " (prediction.mode) ", on " (prediction.machine.title) }
            @if !is_title { p.finding { (prediction.sentence()) "." } }
            p.facts { (facts(file, prediction)) }
            div.charts {
                figure {
                    figcaption { "Throughput, iterations/s, both axes logarithmic" }
                    (predicted(&all))
                }
                @if let Some(ratios) = ratios {
                    figure {
                        figcaption { "Ratio to " (prediction.curves[0].kernel) }
                        (ratios)
                    }
                }
            }
            (legend(&all, file.confidence))
            (limits(&all))
            @for assumption in &file.assumptions { p.note { "Note: " (assumption) } }
            (numbers(&all, file.confidence))
        }
    }
}

fn facts(file: &Predictions, prediction: &Prediction) -> String {
    let Prediction { machine, alone, curves, .. } = prediction;
    let mut facts = vec![machine.name.clone()];
    if !file.changes.is_empty() {
        facts.push(file.changes.clone());
    }
    facts.push(format!("one task: {}/s ({})", si(alone.rate), alone.source()));
    let others = curves.iter().skip(1);
    facts.extend(others.map(|curve| format!("{}: {}", curve.kernel, curve.source())));
    facts.push(format!("knee {}", file.knee_version));
    facts.join(" · ")
}

fn legend(all: &Predicted, confidence: f64) -> Markup {
    let curves = &all.prediction.curves;
    let has_bound = curves.iter().flat_map(|curve| &curve.points).any(|p| p.band().is_none());
    let (fitted, unfitted): (Vec<_>, Vec<_>) =
        all.measured.iter().partition(|reading| reading.curve.fit.is_ok());
    html! {
        ul.legend aria-label="How to read the charts" {
            @for (kernel, curve) in curves.iter().enumerate() {
                li { (swatch(all.runs + kernel)) "predicted, " (curve.kernel) }
            }
            li { (sample(&all.class(0), "band")) (percent(confidence)) " band" }
            @if has_bound {
                li { (sample(&all.class(0), "bound")) "only a bound is known (class D)" }
            }
            @for reading in all.measured {
                li { (swatch(reading.curve.run)) "measured here: " (reading.run.label) }
            }
            @for reading in fitted {
                li {
                    (sample(&run_class(reading.curve.run), "usl"))
                    "Universal Scalability Law of " (reading.run.label) ", extended"
                }
            }
            li { (chart::sample("ideal")) "perfect scaling" }
        }
        @for reading in unfitted {
            @if let Err(reason) = &reading.curve.fit {
                p.note {
                    (reading.run.label) ": no fit of the Universal Scalability Law: " (reason) "."
                }
            }
        }
        @if all.measured.is_empty() {
            p.note {
                "No run on this page measured " (all.prediction.testcase) " as "
                (all.prediction.mode) "; add one to see it beside the prediction."
            }
        }
    }
}

/// A sample of a chart element in the colour of a run or a kernel.
fn sample(colour: &str, element: &str) -> Markup {
    html! { span class=(colour) { (chart::sample(element)) } }
}

/// What limits each curve, by task count, and what comes next.
fn limits(all: &Predicted) -> Markup {
    html! {
        @for (kernel, curve) in all.prediction.curves.iter().enumerate() {
            div.scroll tabindex="0" role="region" aria-label={ "What limits " (curve.kernel) } {
                table.limits {
                    caption { (swatch(all.runs + kernel)) (curve.kernel) }
                    thead {
                        tr {
                            th scope="col" { "tasks" }
                            th scope="col" { "class" }
                            th scope="col" { "what limits the throughput" }
                        }
                    }
                    tbody {
                        @for limit in curve.limits() {
                            tr {
                                th scope="row" { (limit.range()) }
                                td title=(limit.class.meaning()) { (limit.class) }
                                td {
                                    @match (limit.station, limit.sentence()) {
                                        (Some(station), Some(how)) => {
                                            strong { (station.name) } ": " (how)
                                        }
                                        _ => (limit.class.meaning()),
                                    }
                                }
                            }
                        }
                    }
                }
            }
            @if let Some(next) = &curve.next {
                p.note { "What comes next: " (next.sentence()) "." }
            }
        }
        p.note {
            "Classes: "
            @for (nr, class) in all.prediction.classes().enumerate() {
                @if nr > 0 { "; " }
                strong { (class) } " " (class.meaning())
            }
            "."
        }
    }
}

fn numbers(all: &Predicted, confidence: f64) -> Markup {
    let curves = &all.prediction.curves;
    let band = format!("{} band", percent(confidence));
    html! {
        details.data {
            summary { "Numbers" }
            div.scroll tabindex="0" role="region" aria-label="Predicted numbers" {
                table {
                    thead {
                        tr {
                            th scope="col" { "tasks" }
                            @for curve in curves {
                                th scope="col" { (curve.kernel) ", per s" }
                                th scope="col" { (band) }
                                th scope="col" { "class" }
                            }
                            @for curve in curves.iter().skip(1) {
                                th scope="col" { (curve.kernel) ", ratio" }
                                th scope="col" { (band) }
                            }
                        }
                    }
                    tbody {
                        @for (row, point) in curves[0].points.iter().enumerate() {
                            tr {
                                th scope="row" { (point.tasks) }
                                @for point in at(curves, row) { (rate(point)) }
                                @for point in at(curves, row).skip(1) { (ratio(point)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The points of all curves in a row.
fn at(curves: &[Curve], row: usize) -> impl Iterator<Item = &Point> {
    curves.iter().filter_map(move |curve| curve.points.get(row))
}

fn rate(point: &Point) -> Markup {
    let band = point.band().map(|(_, low, high)| format!("{} to {}", si(low), si(high)));
    html! {
        td { (point.rate_in_words()) }
        td.range { (band.unwrap_or_default()) }
        td { (point.class) }
    }
}

fn ratio(point: &Point) -> Markup {
    let value = point.ratio.map_or("?".to_owned(), |ratio| format!("× {:.2}", ratio.value));
    let band = point.ratio.map(|ratio| format!("{:.2} to {:.2}", ratio.low, ratio.high));
    html! {
        td { (value) }
        td.range { (band.unwrap_or_default()) }
    }
}
