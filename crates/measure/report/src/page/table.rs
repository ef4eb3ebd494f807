//! The points of a testcase in one mode as a table: the numbers of the charts.

use knee_host::number::{Prefix, change, p_value, percent, plural, si};
use knee_results::{PerTask, Point};
use maud::{Markup, html};

use super::words;
use crate::chart::Panel;
use crate::model::Missing;
use crate::reading::{CaseReading, CurveReading};
use crate::verdict::ChangeVerdict;

struct Columns {
    runs: bool,
    changes: bool,
    cpu: bool,
    per_task: bool,
    notes: bool,
    bytes: u64,
    total: Prefix,
    total_least: f64,
    task: Prefix,
    task_least: f64,
}

pub(super) fn points(panel: &Panel) -> Markup {
    let all = || panel.curves.iter().flat_map(|curve| curve.measured.points());
    let per_task = || all().filter_map(|point| point.per_task);
    let columns = Columns {
        runs: panel.reading.compares(),
        changes: panel.curves.iter().any(|curve| !curve.curve.changes.is_empty()),
        cpu: all().any(|point| point.cpu.is_some()),
        per_task: per_task().next().is_some(),
        notes: panel.curves.iter().any(|curve| {
            curve.measured.points().iter().any(|point| !note(curve, point).is_empty())
        }),
        bytes: panel.case.info.bytes,
        total: panel.prefix,
        total_least: least(all().map(|p| p.low)),
        task: Prefix::for_max(per_task().map(|t| t.max).fold(0.0, f64::max)),
        task_least: least(per_task().map(|t| t.min)),
    };
    let table = html! {
        table {
            (head(&columns, panel.case))
            tbody {
                @for curve in panel.curves {
                    @for (_, row) in rows(&columns, curve) { (row) }
                }
            }
        }
    };
    data(panel, "scroll", table)
}

/// The place of a table that the script creates from the data of a compressed testcase.
pub(super) fn place(panel: &Panel) -> Markup {
    data(panel, "scroll rows", html! {})
}

fn data(panel: &Panel, class: &str, table: Markup) -> Markup {
    let points: usize = panel.curves.iter().map(|curve| curve.measured.points().len()).sum();
    html! {
        details.data {
            summary { "Data: " (plural(points, "point")) }
            div class=(class) tabindex="0" role="region"
                aria-label={ "Data of " (panel.case.name) ", " (panel.mode.as_str()) } { (table) }
        }
    }
}

/// The smallest positive number; 1 if there is none.
fn least(numbers: impl Iterator<Item = f64>) -> f64 {
    let least = numbers.filter(|&x| x > 0.0).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 1.0 }
}

/// The rows of a curve with their task counts, in order.
fn rows(columns: &Columns, curve: &CurveReading) -> Vec<(u32, Markup)> {
    let points = curve.measured.points().iter();
    let points = points.map(|point| (point.tasks, point_row(columns, curve, point)));
    let gaps = curve.curve.missing.iter().map(|gap| (gap.tasks, gap_row(columns, curve, gap)));
    let mut rows: Vec<(u32, Markup)> = points.chain(gaps).collect();
    rows.sort_by_key(|(tasks, _)| *tasks);
    rows
}

fn head(columns: &Columns, case: &CaseReading) -> Markup {
    let (unit, axis) = (&case.info.unit, case.axis().as_str());
    let median = format!("median, {}", columns.total.unit(unit));
    let slowest = format!("slowest task, {}", columns.task.unit(unit));
    html! {
        thead {
            tr {
                @if columns.runs { th.text scope="col" { "run" } }
                @for name in [axis, &median, "low", "high"] { th scope="col" { (name) } }
                @if columns.bytes > 0 { th scope="col" { "bytes/s" } }
                th scope="col" { "efficiency" }
                @if columns.per_task {
                    @for name in [&slowest, "fastest", "fairness"] { th scope="col" { (name) } }
                }
                @if columns.cpu {
                    @for name in ["user", "system", "idle"] { th scope="col" { (name) } }
                }
                @for name in ["rounds", "samples"] { th scope="col" { (name) } }
                @if columns.changes {
                    @for name in ["change", "interval", "p"] { th scope="col" { (name) } }
                    th.text scope="col" { "verdict" }
                }
                @if columns.notes { th.text scope="col" { "note" } }
            }
        }
    }
}

/// Why a point does not show how the testcase scales; may be empty.
fn note(curve: &CurveReading, point: &Point) -> String {
    let is_implausible = curve.scaling(point).is_some_and(|scaling| scaling.is_implausible());
    let notes = [
        (point.disturbed, "⊗ disturbed"),
        (point.oversubscribed, "more tasks than CPUs"),
        (point.server.is_some_and(|server| server.shared), "shared with the load"),
        (point.is_lower_bound(), "at least: the server was not busy"),
        (is_implausible, "? implausible"),
    ];
    let notes = notes.into_iter().filter(|(applies, _)| *applies).map(|(_, note)| note);
    notes.collect::<Vec<_>>().join(", ")
}

fn point_row(columns: &Columns, curve: &CurveReading, point: &Point) -> Markup {
    let total = |rate| columns.total.format(rate, columns.total_least);
    let task = |rate| columns.task.format(rate, columns.task_least);
    html! {
        tr data-n=(point.tasks) class=[(!curve.is_sound(point)).then_some("unsound")] {
            @if columns.runs { td.text { (curve.run.label) } }
            th scope="row" { (point.tasks) }
            td { (total(point.rate)) }
            td { (total(point.low)) }
            td { (total(point.high)) }
            @if columns.bytes > 0 { td { (si(point.rate * columns.bytes as f64)) } }
            td { (curve.efficiency(point).map_or_else(|| "–".to_owned(), percent)) }
            @if columns.per_task {
                @match point.per_task {
                    Some(PerTask { min, max, fairness }) => {
                        td { (task(min)) }
                        td { (task(max)) }
                        td { (format!("{fairness:.3}")) }
                    }
                    None => td colspan="3" { "– not known" },
                }
            }
            @if columns.cpu {
                @match point.cpu {
                    Some(cpu) => @for share in [cpu.user, cpu.system, cpu.idle] {
                        td { (percent(share)) }
                    },
                    None => td colspan="3" { "– not known" },
                }
            }
            td {
                (point.rounds.len())
                @if point.measured != point.rounds.len() { " of " (point.measured) }
            }
            td { (point.samples) @if point.marked > 0 { " (" (point.marked) " disturbed)" } }
            @if columns.changes { (change_cells(curve, point)) }
            @if columns.notes { td.text { (note(curve, point)) } }
        }
    }
}

fn change_cells(curve: &CurveReading, point: &Point) -> Markup {
    html! {
        @match curve.curve.changes.get(&point.tasks) {
            Some(against) => {
                @match against.comparison.ratio {
                    Some(ratio) => {
                        td { (change(ratio.ratio)) }
                        td { (change(ratio.low)) " to " (change(ratio.high)) }
                    }
                    None => td colspan="2" { "–" },
                }
                td { (p_value(against.comparison.adjusted_p)) }
                td.text {
                    @let note = words::change_note(against);
                    (words::verdict(ChangeVerdict::of(against)))
                    @if !note.is_empty() { " (" (note) ")" }
                }
            }
            None if curve.curve.run == 0 => td colspan="4" {},
            None => td.text colspan="4" { "– not in the first run" },
        }
    }
}

fn gap_row(columns: &Columns, curve: &CurveReading, gap: &Missing) -> Markup {
    html! {
        tr.gap data-n=(gap.tasks) {
            @if columns.runs { td.text { (curve.run.label) } }
            th scope="row" { (gap.tasks) }
            td.text colspan="20" { "not measured: " (gap.reason) }
        }
    }
}
