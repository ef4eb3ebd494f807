//! The latencies of a testcase in one mode: a chart by percentile, and its numbers.

use knee_host::number::{si, time};
use knee_results::PointLatency;
use knee_stats::Quantiles;
use maud::{Markup, html};

use crate::chart::{self, Panel};

fn latencies<'p>(panel: &'p Panel<'_, '_>) -> impl Iterator<Item = &'p PointLatency> {
    let points = panel.curves.iter().flat_map(|reading| reading.measured.points());
    points.filter_map(|point| point.latency.as_ref())
}

/// The chart; nothing without latencies.
pub(super) fn figure(panel: &Panel) -> Markup {
    html! {
        @if panel.curves.iter().any(chart::has_latency) {
            figure {
                figcaption { "Latency by percentile" }
                (chart::latency(panel))
            }
        }
    }
}

/// The numbers of the chart, and what they are.
pub(super) fn table(panel: &Panel) -> Markup {
    let Some(first) = latencies(panel).next() else { return html! {} };
    let is_server = first.rate.is_some();
    html! {
        details.data {
            summary { "Latency in numbers" }
            p.note {
                @if is_server {
                    "Latency of requests sent on a schedule, at a share of the measured rate. It counts from \
                     when a request was due. “Sent late” is the 99th percentile of the delay that the load \
                     generator itself caused; this delay is part of the latency."
                } @else {
                    "Time of single iterations, without the cost of reading the clock. This cost \
                     does lower the rates."
                }
            }
            div.scroll tabindex="0" role="region"
                aria-label={ "Latency of " (panel.case.name) ", " (panel.mode.as_str()) } {
                table {
                    thead { tr {
                        @if panel.reading.compares() { th.text scope="col" { "run" } }
                        th scope="col" { (panel.case.axis().as_str()) }
                        @for name in Quantiles::NAMES { th scope="col" { (name) } }
                        @if is_server {
                            th scope="col" { "sent late" }
                            th scope="col" { "requests/s" }
                        } @else {
                            th scope="col" { "clock" }
                        }
                    } }
                    tbody {
                        @for reading in panel.curves {
                            @for point in reading.measured.points() {
                                @if let Some(latency) = &point.latency {
                                    tr class=[(!reading.is_sound(point)).then_some("unsound")] {
                                        @if panel.reading.compares() { td.text { (reading.run.label) } }
                                        th scope="row" { (point.tasks) }
                                        (cells(latency, is_server))
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn cells(latency: &PointLatency, is_server: bool) -> Markup {
    let or_dash = |text: Option<String>| text.unwrap_or_else(|| "–".to_owned());
    html! {
        @for value in latency.quantiles.values() { td { (time(value)) } }
        @if is_server {
            td { (or_dash(latency.lateness.map(|late| time(late.p99)))) }
            td { (or_dash(latency.rate.map(si))) }
        } @else {
            td { (or_dash(latency.clock.map(time))) }
        }
    }
}
