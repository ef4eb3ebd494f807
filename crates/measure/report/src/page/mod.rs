//! The page as HTML: the finding, the overview, all testcases, predicted curves, when operations
//! commute, what they share, what it costs CPUs to communicate, machine and method.

mod case;
mod commuting;
mod counters;
mod cpus;
mod fit;
mod fragment;
mod head;
mod latency;
mod machine;
mod overview;
mod packed;
mod predictions;
mod profiles;
mod sharing;
mod table;
mod triangle;
mod words;

use head::STYLE;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::model::Page;
use crate::reading::Reading;
use crate::{chart, embed, finding};

pub(crate) use words::{change_note, fit_note, words_of_changes};

/// Scripts for runs, for tests, and for matrices. A page contains only those that it needs.
const RUNS_SCRIPT: &str = include_str!("../../assets/report.js");
const SHARED_SCRIPT: &str = include_str!("../../assets/shared.js");
const MATRICES_SCRIPT: &str = include_str!("../../assets/matrix.js");

pub(crate) fn html(reading: &Reading) -> String {
    let finding = finding::sentence(reading);
    let (runs, matrices) = (reading.shows_runs(), !reading.page.matrices.is_empty());
    let shared = !reading.page.shared.is_empty();
    let maps = !reading.page.cpu_maps.is_empty();
    let predictions = !reading.page.predictions.is_empty();
    let scripts: Vec<&str> = [
        runs.then_some(RUNS_SCRIPT),
        shared.then_some(SHARED_SCRIPT),
        (matrices || shared).then_some(MATRICES_SCRIPT),
    ]
    .into_iter()
    .flatten()
    .collect();
    // All flame graphs have the same script and style.
    let profile = reading.page.profiles.first();
    let allowed: Vec<&str> =
        scripts.iter().copied().chain(profile.map(|profile| profile.script)).collect();
    let styles: Vec<&str> =
        [STYLE].into_iter().chain(profile.map(|profile| profile.style)).collect();
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head::head(&finding, &allowed, &styles))
            body {
                @if runs || predictions { (chart::markers()) }
                @if runs {
                    a.skip href="#overview" { "Skip to the overview" }
                } @else {
                    a.skip href=(match () {
                        () if predictions => "#predictions",
                        () if matrices => "#commute",
                        () if shared => "#shared",
                        () => "#cpus",
                    }) { "Skip to the results" }
                }
                header {
                    h1 { (finding) }
                    @if runs {
                        (head::about(reading))
                        (sections(reading.page))
                    }
                }
                main {
                    @if runs {
                        (overview::overview(reading))
                        (case::cases(reading))
                    }
                    @if predictions { (predictions::section(reading)) }
                    @if matrices { (commuting::section(&reading.page.matrices)) }
                    @if shared { (sharing::section(&reading.page.shared)) }
                    @if maps { (cpus::section(&reading.page.cpu_maps)) }
                    @if runs { (machine::machine(reading)) }
                }
                @if runs { (embed::page(reading)) }
                @for script in scripts { script { (PreEscaped(script)) } }
            }
        }
    };
    page.into_string() + "\n"
}

fn sections(page: &Page) -> Markup {
    let Page { predictions, matrices, shared, cpu_maps, .. } = page;
    html! {
        nav aria-label="Sections" {
            a href="#overview" { "Overview" }
            a href="#testcases" { "Testcases" }
            @if !predictions.is_empty() { a href="#predictions" { "Predicted curves" } }
            @if !matrices.is_empty() { a href="#commute" { "When operations commute" } }
            @if !shared.is_empty() { a href="#shared" { "What commuting calls share" } }
            @if !cpu_maps.is_empty() { a href="#cpus" { "What it costs CPUs to communicate" } }
            a href="#machine" { "Machine and method" }
        }
    }
}
