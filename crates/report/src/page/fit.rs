//! What the Universal Scalability Law makes of a curve.

use maud::{Markup, html};

use crate::chart::Panel;
use crate::model::{Estimate, Fit};
use crate::number::{coefficient, si};
use crate::reading::Reading;

pub(super) fn fits(reading: &Reading, panel: &Panel) -> Markup {
    let fitted = || panel.curves.iter().filter_map(|r| Some((r, r.curve.fit.as_ref()?)));
    if fitted().next().is_none() {
        return html! {};
    }
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Fit, " (panel.mode.as_str()) } {
            table.fits {
                caption { "Universal Scalability Law" }
                thead {
                    tr {
                        @if reading.compares() { th scope="col" { "run" } }
                        th.n scope="col" { "λ, per s" }
                        th.n scope="col" { "σ contention" }
                        th.n scope="col" { "κ coherency" }
                        th.n scope="col" { "peak, tasks" }
                        th.n scope="col" { "R²" }
                        th scope="col" { "note" }
                    }
                }
                tbody {
                    @for (curve, fit) in fitted() {
                        tr.guess[!fit.is_prediction] {
                            @if reading.compares() { th scope="row" { (curve.run.label) } }
                            td.n { (estimate(&fit.lambda, si)) }
                            td.n { (estimate(&fit.sigma, coefficient)) }
                            td.n { (estimate(&fit.kappa, coefficient)) }
                            td.n { (peak(fit)) }
                            td.n { (format!("{:.3}", fit.r2)) }
                            td { (fit.note) }
                        }
                    }
                }
            }
        }
    }
}

fn estimate(estimate: &Estimate, format: fn(f64) -> String) -> Markup {
    html! {
        (format(estimate.value)) " "
        span.range { "[" (format(estimate.low)) ", " (format(estimate.high)) "]" }
    }
}

fn peak(fit: &Fit) -> Markup {
    match &fit.peak {
        None => html! { "none" },
        Some(peak) if !(peak.low.is_finite() && peak.high.is_finite()) => {
            html! { (whole(peak.value)) " " span.range { "unbounded" } }
        }
        Some(peak) => estimate(peak, whole),
    }
}

fn whole(value: f64) -> String {
    format!("{value:.0}")
}
