//! The origin of the numbers: the machine of each run, its failures and warnings, the method.

use indexmap::{IndexMap, IndexSet};
use knee_host::number::percent;
use maud::{Markup, html};

use crate::model::Run;
use crate::reading::Reading;

pub(super) fn machine(reading: &Reading) -> Markup {
    let runs = &reading.page.runs;
    html! {
        section #machine aria-labelledby="machine-title" {
            h2 #machine-title { "Machine and method" }
            (notes("Not measured", runs, |run| &run.failures))
            (notes("Measured, but not shown in any chart", runs, |run| &run.off_chart))
            (notes("Warnings", runs, |run| &run.warnings))
            (environments(runs))
            (method(reading))
        }
    }
}

fn notes(title: &str, runs: &[Run], of: fn(&Run) -> &[String]) -> Markup {
    let several = runs.len() > 1;
    html! {
        @if runs.iter().any(|run| !of(run).is_empty()) {
            h3 { (title) }
            ul.notes {
                @for run in runs {
                    @for note in of(run) {
                        li { @if several { strong { (run.label) } ": " } (note) }
                    }
                }
            }
        }
    }
}

/// The facts about each run side by side, with differences marked. An unknown fact does not count
/// as a difference.
fn environments(runs: &[Run]) -> Markup {
    let facts: Vec<IndexMap<&str, String>> = runs.iter().map(facts).collect();
    let names: IndexSet<&str> = facts.iter().flat_map(IndexMap::keys).copied().collect();
    let value =
        |run: &IndexMap<&str, String>, name: &str| run.get(name).cloned().unwrap_or_default();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Environment of the runs" {
            table.environment {
                thead {
                    tr {
                        th scope="col" { "environment" }
                        @for run in runs { th scope="col" { (run.label) } }
                    }
                }
                tbody {
                    @for name in names {
                        @let values: Vec<String> = facts.iter().map(|run| value(run, name)).collect();
                        @let known = || values.iter().filter(|value| !value.is_empty());
                        @let differs = known().any(|value| Some(value) != known().next());
                        tr.differs[differs] {
                            th scope="row" {
                                (name)
                                @if differs { " " span.shape title="differs" { "≠" } }
                            }
                            @for value in &values {
                                td { @if value.is_empty() { "–" } @else { (value) } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn facts(run: &Run) -> IndexMap<&str, String> {
    let seed = run.seed.map_or(String::new(), |seed| seed.to_string());
    let command = run.command_line.join(" ");
    let own = [
        ("started", &run.started_at),
        ("host", &run.hostname),
        ("kernel", &run.kernel),
        ("CPU", &run.cpu),
        ("virtualisation", &run.virtualisation),
        ("measured", &run.plan),
        ("placement", &run.placement),
        ("seed", &seed),
        ("command", &command),
        ("knee", &run.knee_version),
    ];
    own.into_iter()
        .filter(|(_, value)| !value.is_empty())
        .chain(run.facts.iter().map(|(name, value)| (name.as_str(), value)))
        .map(|(name, value)| (name, value.clone()))
        .collect()
}

fn method(reading: &Reading) -> Markup {
    let knee = percent(reading.page.knee_efficiency);
    html! {
        h3 { "Method" }
        dl.method {
            dt { "Rate" }
            dd {
                "Iterations per second of all tasks together. Each round is a fresh process that "
                "takes several samples. A point is the median of its rounds; its interval assumes "
                "no distribution."
            }
            dt { "Efficiency" }
            dd {
                "Throughput at n tasks divided by n times the throughput of one task. Without a point "
                "at one task, there is no efficiency and no knee. Points with more tasks than CPUs "
                "have no efficiency either: they show how tasks share CPUs."
            }
            dt { "Knee" }
            dd { "The first task count whose efficiency is below " (knee) ". The overview explains the verdicts." }
            @if reading.has(|curve| curve.disturbed().next().is_some()) {
                dt { "Disturbance" }
                dd {
                    "A point is disturbed if fewer than half of the requested rounds are free of \
                     disturbance by other work or the hypervisor. It counts in no efficiency, knee, \
                     peak, verdict or comparison, and a curve with such a point is not counted in the \
                     title."
                }
            }
            dt { "Fairness" }
            dd { "Jain's index of the tasks' rates: 1 if all rates are equal, 1/n if one task \
                does all the work." }
            dt { "Universal Scalability Law" }
            dd {
                "rate(n) = λn / (1 + σ(n−1) + κn(n−1)): σ is the contention and κ the cost of "
                "coherence. The peak is at n = √((1−σ)/κ)."
            }
            @if reading.compares() && !reading.page.comparison_method.is_empty() {
                dt { "Comparison" }
                dd { (reading.page.comparison_method) }
            }
        }
    }
}
