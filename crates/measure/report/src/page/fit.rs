//! The fit of the Universal Scalability Law to each curve.

use knee_host::number::{coefficient, si};
use knee_stats::usl::{Estimate, Fit};
use maud::{Markup, html};

use super::words;
use crate::chart::Panel;
use crate::reading::CurveReading;

pub(super) fn fits(panel: &Panel) -> Markup {
    if !panel.case.is_curve() {
        return html! {};
    }
    let compares = panel.reading.compares();
    html! {
        div.scroll tabindex="0" role="region" aria-label={ "Fit, " (panel.mode.as_str()) } {
            table.fits {
                caption { "Universal Scalability Law" }
                @if panel.curves.iter().any(|curve| curve.curve.fit.is_ok()) {
                    thead {
                        tr {
                            @if compares { th scope="col" { "run" } }
                            @for name in ["λ, per s", "σ contention", "κ coherency", "peak, tasks", "R²"] {
                                th.n scope="col" { (name) }
                            }
                            th scope="col" { "note" }
                        }
                    }
                }
                tbody {
                    @for curve in panel.curves { (row(compares, curve)) }
                }
            }
        }
    }
}

fn row(compares: bool, curve: &CurveReading) -> Markup {
    let fit = curve.curve.fit.as_ref();
    html! {
        tr.guess[fit.is_ok_and(|fit| !fit.is_prediction)] {
            @if compares { th scope="row" { (curve.run.label) } }
            @match fit {
                Ok(fit) => {
                    td.n { (estimate(&fit.lambda, si)) }
                    td.n { (estimate(&fit.sigma, coefficient)) }
                    td.n { (estimate(&fit.kappa, coefficient)) }
                    td.n { (peak(fit)) }
                    td.n { (fit.r_squared.map_or("–".to_owned(), |r2| format!("{r2:.3}"))) }
                    td { (words::fit_note(fit)) }
                }
                Err(reason) => td colspan="6" { "– no fit: " (reason) },
            }
        }
    }
}

fn estimate(estimate: &Estimate, format: fn(f64) -> String) -> Markup {
    html! {
        (format(estimate.value))
        @match estimate.interval {
            Some((low, high)) if low.is_finite() && high.is_finite() => {
                " " span.range { "[" (format(low)) ", " (format(high)) "]" }
            }
            Some(_) => { " " span.range { "unbounded" } }
            None => {}
        }
    }
}

fn peak(fit: &Fit) -> Markup {
    match &fit.peak {
        None => html! { "none" },
        Some(peak) => estimate(peak, |tasks| format!("{tasks:.0}")),
    }
}
