//! Events of the processors and the kernel at each point, as a table.

use knee_host::counters::Counter;
use knee_host::number::{count, si, three_digits, time};
use knee_results::PointCounters;
use maud::{Markup, html};

use crate::chart::Panel;

/// The numbers; nothing if no events were counted.
pub(super) fn table(panel: &Panel) -> Markup {
    let points = || panel.curves.iter().flat_map(|reading| reading.measured.points());
    let all: Vec<&PointCounters> = points().filter_map(|point| point.counters.as_ref()).collect();
    let is_counted =
        |counter: &Counter| all.iter().any(|counters| counters.per_second.contains_key(counter));
    let counted: Vec<Counter> = Counter::ALL.iter().copied().filter(is_counted).collect();
    let has_ipc = all.iter().any(|counters| counters.ipc.is_some());
    if counted.is_empty() {
        return html! {};
    }
    let is_server = points().any(|point| point.server.is_some());
    html! {
        details.data {
            summary { "Counters" }
            p.note {
                "Medians over the rounds, for each operation; in brackets per second, "
                @if is_server { "of the server without its load. " } @else { "over all tasks. " }
                "“task-clock” is CPU time. The cost of counting is part of the rates."
                @if all.iter().any(|counters| !counters.shares.is_empty()) {
                    " “~” marks an estimate, because the processor counted this event only part of the time."
                }
            }
            div.scroll tabindex="0" role="region"
                aria-label={ "Counters of " (panel.case.name) ", " (panel.mode.as_str()) } {
                table {
                    thead { tr {
                        @if panel.reading.compares() { th.text scope="col" { "run" } }
                        th scope="col" { (panel.case.axis().as_str()) }
                        @for counter in &counted { th scope="col" { (counter) } }
                        @if has_ipc { th scope="col" { "instructions/cycle" } }
                    } }
                    tbody {
                        @for reading in panel.curves {
                            @for point in reading.measured.points() {
                                @if let Some(counters) = &point.counters {
                                    tr class=[(!reading.is_sound(point)).then_some("unsound")] {
                                        @if panel.reading.compares() { td.text { (reading.run.label) } }
                                        th scope="row" { (point.tasks) }
                                        @for &counter in &counted { td { (cell(counters, counter)) } }
                                        @if has_ipc {
                                            td { (counters.ipc.map_or("–".to_owned(), three_digits)) }
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
}

/// `~1.2 k (3.4 M)`
fn cell(counters: &PointCounters, counter: Counter) -> String {
    let value = counters.per_operation.get(&counter);
    let per_second = counters.per_second.get(&counter);
    let (Some(&value), Some(&per_second)) = (value, per_second) else { return "–".to_owned() };
    let estimate = if counters.is_estimate(counter) { "~" } else { "" };
    match counter {
        Counter::TaskClock => format!("{} ({})", time(value / 1e9), time(per_second / 1e9)),
        _ => format!("{estimate}{} ({})", count(value), si(per_second)),
    }
}
