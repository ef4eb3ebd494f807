//! The points of a testcase in one mode as a table: what the charts show, in numbers.

use maud::{Markup, html};

use super::words;
use crate::chart::Panel;
use crate::model::{Missing, Point};
use crate::number::{Prefix, change, count, p_value, percent, si};
use crate::reading::{CurveReading, Reading};

/// Rows that a curve has on a page of too many points, at most about.
const SOME_ROWS: usize = 40;

struct Columns {
    runs: bool,
    changes: bool,
    cpu: bool,
    bytes: u64,
    total: Prefix,
    total_least: f64,
    task: Prefix,
    task_least: f64,
}

pub(super) fn points(reading: &Reading, panel: &Panel, all_rows: bool) -> Markup {
    let all = || panel.curves.iter().flat_map(|curve| &curve.curve.points);
    let rows: usize = all().count();
    let shown = |curve: &CurveReading, n: u32| all_rows || is_shown(curve, n);
    let left_out = panel
        .curves
        .iter()
        .map(|curve| curve.curve.points.iter().filter(|p| !shown(curve, p.tasks)).count())
        .sum::<usize>();
    let task_max = all().map(|p| p.max).fold(0.0, f64::max);
    let columns = Columns {
        runs: reading.compares(),
        changes: all().any(|point| point.change.is_some()),
        cpu: all().any(|point| point.cpu.is_some()),
        bytes: panel.case.case.bytes_per_unit,
        total: panel.prefix,
        total_least: least(all().map(|p| p.low)),
        task: Prefix::for_max(task_max),
        task_least: least(all().map(|p| p.min)),
    };
    html! {
        details.data {
            summary { "Data: " (count(rows, "point")) }
            @if left_out > 0 {
                p.note {
                    (left_out) " of " (rows)
                    " rows are not in this table; all are in the downloads and in the charts."
                }
            }
            div.scroll tabindex="0" role="region"
                aria-label={ "Data of " (panel.case.case.name) ", " (panel.mode.as_str()) } {
                table {
                    (head(&columns, &panel.case.case.unit))
                    tbody {
                        @for curve in panel.curves {
                            @for row in rows_of(curve) {
                                @match row {
                                    Row::Point(point, efficiency) if shown(curve, point.tasks) => {
                                        (point_row(&columns, curve, point, efficiency))
                                    }
                                    Row::Point(..) => {}
                                    Row::Gap(gap) => (gap_row(&columns, curve, gap)),
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// The smallest number that is not zero.
fn least(numbers: impl Iterator<Item = f64>) -> f64 {
    let least = numbers.filter(|&x| x > 0.0).fold(f64::INFINITY, f64::min);
    if least.is_finite() { least } else { 1.0 }
}

enum Row<'p> {
    Point(&'p Point, f64),
    Gap(&'p Missing),
}

impl Row<'_> {
    fn tasks(&self) -> u32 {
        match self {
            Self::Point(point, _) => point.tasks,
            Self::Gap(gap) => gap.tasks,
        }
    }
}

fn rows_of<'p>(curve: &CurveReading<'p>) -> Vec<Row<'p>> {
    let mut rows: Vec<Row> =
        curve.points().map(|(p, efficiency)| Row::Point(p, efficiency)).collect();
    rows.extend(curve.curve.missing.iter().map(Row::Gap));
    rows.sort_by_key(Row::tasks);
    rows
}

/// Whether a long curve's row stays on a page of too many: the ends, the knee, the peak, powers
/// of two and evenly spaced ones between.
fn is_shown(curve: &CurveReading, n: u32) -> bool {
    let points = &curve.curve.points;
    let every = points.len().div_ceil(SOME_ROWS).max(1) as u32;
    let end = |point: Option<&Point>| point.is_some_and(|p| p.tasks == n);
    end(points.first())
        || end(points.last())
        || end(curve.peak())
        || curve.curve.knee == Some(n)
        || n.is_power_of_two()
        || n.is_multiple_of(every)
}

fn head(columns: &Columns, unit: &str) -> Markup {
    html! {
        thead {
            tr {
                @if columns.runs { th.text scope="col" { "run" } }
                th scope="col" { "tasks" }
                th scope="col" { "median, " (columns.total.unit(unit)) }
                th scope="col" { "low" }
                th scope="col" { "high" }
                @if columns.bytes > 0 { th scope="col" { "bytes/s" } }
                th scope="col" { "efficiency" }
                th scope="col" { "slowest task, " (columns.task.unit(unit)) }
                th scope="col" { "fastest" }
                th scope="col" { "fairness" }
                @if columns.cpu {
                    th scope="col" { "user" }
                    th scope="col" { "system" }
                    th scope="col" { "idle" }
                }
                th scope="col" { "rounds" }
                th scope="col" { "samples" }
                @if columns.changes {
                    th scope="col" { "change" }
                    th scope="col" { "interval" }
                    th scope="col" { "p" }
                    th.text scope="col" { "verdict" }
                }
            }
        }
    }
}

fn point_row(columns: &Columns, curve: &CurveReading, point: &Point, efficiency: f64) -> Markup {
    let total = |rate| columns.total.format(rate, columns.total_least);
    let task = |rate| columns.task.format(rate, columns.task_least);
    html! {
        tr data-n=(point.tasks) {
            @if columns.runs { td.text { (curve.run.label) } }
            th scope="row" { (point.tasks) }
            td { (total(point.rate)) }
            td { (total(point.low)) }
            td { (total(point.high)) }
            @if columns.bytes > 0 { td { (si(point.rate * columns.bytes as f64)) } }
            td { (percent(efficiency)) }
            td { (task(point.min)) }
            td { (task(point.max)) }
            td { (format!("{:.3}", point.fairness)) }
            @if columns.cpu {
                @match point.cpu {
                    Some(cpu) => @for share in [cpu.user, cpu.system, cpu.idle] {
                        td { (percent(share)) }
                    },
                    None => td colspan="3" { "not known" },
                }
            }
            td { (point.rounds.len()) }
            td { (point.samples) @if point.marked > 0 { " (" (point.marked) " disturbed)" } }
            @if columns.changes { (change_cells(point)) }
        }
    }
}

fn change_cells(point: &Point) -> Markup {
    html! {
        @if let Some(against) = &point.change {
            td { (change(against.ratio)) }
            td { (change(against.low)) " to " (change(against.high)) }
            td { (p_value(against.p)) }
            td.text {
                (words::change(against.verdict))
                @if !against.note.is_empty() { " (" (against.note) ")" }
            }
        } @else {
            td colspan="4" {}
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
