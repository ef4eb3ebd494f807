//! A line per curve.

use knee_host::number::{percent, percent_beside, si, spread, tasks};
use knee_host::text::{Cell, Column, Table};
use knee_results::{Curve, Family, Point};
use knee_run::record::RunRecord;

use super::remark::{self, against_processes, disturbed, doubtful};
use crate::present::sparkline::sparkline;
use crate::present::style::{BAD, DIM, PLAIN, UNKNOWN};
use crate::present::view::View;

/// How the table summarises the rates of a curve.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Summary {
    /// Not at all: single rounds show neither scaling nor precision.
    None,
    /// By its widest interval: a single point shows nothing about scaling.
    Precision,
    /// Also by its efficiency and its knee.
    Scaling,
}

pub(super) fn render(
    run: &RunRecord,
    curves: &[Curve],
    summary: Summary,
    view: &View<'_>,
) -> String {
    let shown = &run.request.tasks;
    let mut table = Table::new(columns(run, summary));
    let family_of = |curve: &Curve| run.case(&curve.case).map_or(Family::Plugin, |c| c.family);
    // A family has one heading, at its first curve.
    let mut families: Vec<Family> = Vec::new();
    for family in curves.iter().map(family_of) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    let mut sorted: Vec<&Curve> = curves.iter().collect();
    sorted.sort_by_key(|curve| families.iter().position(|family| *family == family_of(curve)));
    let mut family = None;
    let mut last = None;
    for curve in sorted {
        let of = family_of(curve);
        if family != Some(of) {
            if family.is_some() {
                table.text("");
            }
            table.titles_but(0, of.as_str());
            family = Some(of);
            last = None;
        }
        let name = if last == Some(&curve.case) { String::new() } else { curve.case.to_string() };
        last = Some(&curve.case);
        let mut row = vec![Cell::from(name), curve.mode.as_str().into()];
        row.extend(shown.iter().map(|n| rate(curve, *n)));
        row.extend(verdict(curve, view, summary));
        let remarks = curve.last().map(|last| remarks(run, curves, curve, last, view).join("  "));
        row.push(Cell::new(remarks.unwrap_or_default(), DIM));
        table.row(row);
    }
    table.render(&view.screen) + "\n"
}

/// The columns, with rates at the task counts of `run`. If the table is too wide, rates are dropped
/// before efficiency, knee and sparkline, which summarise them, and first the rates with more tasks
/// than CPUs, which have no part in the summary.
fn columns(run: &RunRecord, summary: Summary) -> Vec<Column> {
    let mut columns = vec![Column::left(""), Column::left("per second").gap(1)];
    let has_cpus = |n: u32| run.cases.iter().any(|case| !run.is_oversubscribed(case, n));
    let (own, sharing): (Vec<u32>, Vec<u32>) =
        run.request.tasks.iter().partition(|n| has_cpus(**n));
    let place = |counts: &[u32], n: &u32| counts.iter().position(|count| count == n);
    columns.extend(run.request.tasks.iter().map(|n| {
        let column = Column::right(tasks(*n));
        match (place(&own, n), place(&sharing, n)) {
            (Some(nr), _) => column.in_series(nr, own.len(), 10),
            // The last one of a series stays. Here, that is the last one with a CPU per task, if any.
            (None, Some(nr)) => column.in_series(nr, sharing.len() + own.len().min(1), 2),
            (None, None) => column,
        }
    }));
    if summary == Summary::Scaling {
        columns.extend([
            Column::right("speed-up").drops(19),
            Column::right("effic."),
            Column::left("").gap(0),
        ]);
    }
    if summary >= Summary::Precision {
        columns.push(Column::right("±").drops(18));
    }
    columns.push(Column::left("").gap(1));
    if summary == Summary::Scaling {
        columns.extend([Column::right("knee").gap(1), Column::left("curve").drops(20)]);
    }
    columns.push(Column::left("").drops(1));
    columns
}

/// The rate at a task count. Rates that are not sound are dimmed.
fn rate(curve: &Curve, tasks: u32) -> Cell {
    let point = curve.at(tasks);
    let style = if point.is_none_or(|point| curve.is_sound(point)) { PLAIN } else { DIM };
    Cell::new(point.map_or(UNKNOWN.to_owned(), remark::rate), style)
}

/// The summary of the sound points of a curve: the cells between the rates and the remarks.
fn verdict(curve: &Curve, view: &View<'_>, summary: Summary) -> Vec<Cell> {
    let disturbed = Cell::new(disturbed(curve.points()), BAD);
    if summary == Summary::None {
        return vec![disturbed];
    }
    let rates: Vec<f64> = curve.sound().map(|p| p.rate).collect();
    let widest = if !rates.is_empty() && curve.sound().all(Point::has_interval) {
        spread(curve.sound().map(Point::relative_half_width).fold(0.0, f64::max))
    } else {
        UNKNOWN.to_owned()
    };
    let precision = [widest.into(), disturbed];
    if summary == Summary::Precision {
        return precision.into();
    }
    // A single point shows nothing about scaling.
    let scaling = curve.last().and_then(|last| curve.scaling(last)).filter(|_| rates.len() > 1);
    let knee = curve.knee(view.knee).tasks();
    let mark = if knee.is_some() { BAD } else { PLAIN };
    let factors = [
        scaling.map_or(UNKNOWN.to_owned(), |scaling| format!("{:.2}×", scaling.speedup)).into(),
        Cell::new(
            scaling.map_or(UNKNOWN.to_owned(), |s| percent_beside(s.efficiency, view.knee)),
            mark,
        ),
        Cell::new(doubtful(scaling), BAD),
    ];
    let shape = [
        Cell::new(knee.map_or(UNKNOWN.to_owned(), |n| n.to_string()), mark),
        sparkline(&rates).into(),
    ];
    factors.into_iter().chain(precision).chain(shape).collect()
}

/// Remarks after the numbers of a line, which describe the point `last`.
fn remarks(
    run: &RunRecord,
    curves: &[Curve],
    curve: &Curve,
    last: &Point,
    view: &View<'_>,
) -> Vec<String> {
    let mut remarks = Vec::new();
    let is_highest = run.request.tasks.iter().all(|&n| n <= last.tasks);
    if !is_highest && last.tasks > 1 {
        remarks.push(format!("at {}", tasks(last.tasks)));
    }
    if let Some(case) = run.case(&curve.case) {
        if case.bytes > 0 {
            remarks.push(format!("{}B/s", si(last.rate * case.bytes as f64)));
        }
        // Testcases with long steps do real work, for which the kernel's share is of interest.
        if case.min_interval > 0.0
            && let Some(cpu) = last.cpu
        {
            let [user, system, idle] = [cpu.user, cpu.system, cpu.idle].map(percent);
            remarks.push(format!("user {user} system {system} idle {idle}"));
        }
    }
    remarks.extend(against_processes(curves, curve, last, view));
    remarks
}
