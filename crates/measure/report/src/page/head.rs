//! The head element of the page, and the lines below its title.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use knee_host::number::plural;
use maud::{Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

use crate::chart::{run_class, swatch};
use crate::model::Run;
use crate::reading::Reading;

pub(super) const STYLE: &str = include_str!("../../assets/report.css");

/// `scripts` and `styles` are those of the page and of its drawings.
pub(super) fn head(title: &str, scripts: &[&str], styles: &[&str]) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta http-equiv="Content-Security-Policy" content=(policy(scripts, styles));
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · knee" }
            style { (PreEscaped(STYLE)) }
        }
    }
}

/// The page fetches nothing, and the browser applies only the page's own styles and scripts, so
/// that the name of a plug-in cannot become code.
fn policy(scripts: &[&str], styles: &[&str]) -> String {
    let hash = |text: &str| format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text)));
    let all = |texts: &[&str]| texts.iter().map(|text| hash(text)).collect::<Vec<_>>().join(" ");
    format!(
        "default-src 'none'; style-src {}; script-src {}; base-uri 'none'; form-action 'none'",
        all(styles),
        all(scripts)
    )
}

/// A description of each run, and reasons to doubt its numbers.
pub(super) fn about(reading: &Reading) -> Markup {
    let runs = &reading.page.runs;
    html! {
        @if let [run] = runs.as_slice() {
            p.about { (sentence(run)) }
        } @else {
            ul.runs {
                @for (i, run) in runs.iter().enumerate() {
                    li class=(run_class(i)) {
                        (swatch(i)) strong { (run.label) }
                        " " span { (sentence(run)) }
                    }
                }
            }
        }
        @let doubts = doubts(reading);
        @if !doubts.is_empty() {
            p.doubts {
                span.shape aria-hidden="true" { "⚠" } " "
                (doubts.join(" · ")) " · " a href="#machine" { "details" }
            }
        }
    }
}

fn sentence(run: &Run) -> String {
    let parts =
        [&run.kernel, &run.cpu, &run.virtualisation, &run.hostname, &run.plan, &run.started_at];
    let parts: Vec<&str> =
        parts.into_iter().map(String::as_str).filter(|part| !part.is_empty()).collect();
    parts.join(" · ")
}

fn doubts(reading: &Reading) -> Vec<String> {
    let sum = |of: fn(&Run) -> usize| reading.page.runs.iter().map(of).sum::<usize>();
    let guesses = reading
        .curves()
        .filter(|(_, curve)| curve.curve.fit.as_ref().is_ok_and(|fit| !fit.is_prediction))
        .count();
    let points = || reading.page.curves.iter().flat_map(|curve| curve.measured.points());
    let disturbed = points().filter(|point| point.disturbed).count();
    let single = points().filter(|point| !point.disturbed && point.rounds.len() == 1).count();
    let marked: u64 = points().map(|point| point.marked).sum();
    let implausible: usize = reading.curves().map(|(_, curve)| curve.implausible().count()).sum();
    let gaps: usize = reading.page.curves.iter().map(|curve| curve.missing.len()).sum();
    let doubts = [
        (sum(|run| run.warnings.len()), "warning", ""),
        (sum(|run| run.off_chart.len()), "result", " not shown in any chart"),
        (gaps, "point", " not measured"),
        (disturbed, "point", " too disturbed to use"),
        (implausible, "point", " with an implausible efficiency"),
        (marked as usize, "sample", " marked as disturbed"),
        (single, "point", " with one round and no interval"),
        (guesses, "fit", " with too few points for a prediction"),
    ];
    let doubts = doubts.into_iter().filter(|(count, ..)| *count > 0);
    doubts.map(|(count, what, why)| plural(count, what) + why).collect()
}
