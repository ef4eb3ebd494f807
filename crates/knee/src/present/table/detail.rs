//! A block per curve with a line per point.

use knee_host::number::{percent, percent_beside, si};
use knee_host::text::{Cell, Column, Table};
use knee_results::{Curve, CurveVerdict, Knee, Point, Served};
use knee_run::record::RunRecord;

use super::remark::{against_processes, disturbed, doubtful, knee_and_peak, rate};
use crate::present::style::{BAD, BOLD, PLAIN, UNKNOWN};
use crate::present::view::View;

/// Length of the bar for 100% efficiency, in characters.
const BAR: f64 = 20.0;
/// Efficiency with the longest bar. Higher efficiencies say nothing about scaling.
const LONGEST_BAR: f64 = 1.2;

/// The column of rates, whose title is the unit of the testcase.
const RATE: usize = 1;

/// Which columns can say something.
#[derive(Clone, Copy)]
struct Shown {
    scaling: bool,
    /// Between several tasks.
    fairness: bool,
}

/// Without `scales`, there are no columns about scaling.
pub(super) fn render(run: &RunRecord, curves: &[Curve], scales: bool, view: &View<'_>) -> String {
    let mut points = curves.iter().flat_map(Curve::points);
    let shown = Shown { scaling: scales, fairness: points.any(|point| point.tasks > 1) };
    let mut table = Table::new(columns(shown));
    for curve in curves {
        let case = run.case(&curve.case);
        let description = case.map_or("", |case| case.description.as_str());
        table.text(format!("{BOLD}{} {}{BOLD:#}  {description}", curve.case, curve.mode));
        let unit = case.map_or("iterations", |case| case.unit.as_str());
        table.titles_but(RATE, &format!("{unit}/s"));
        let (sharing, own): (Vec<&Point>, Vec<&Point>) =
            curve.points().iter().partition(|point| point.shares_cpus());
        let bytes = case.map_or(0, |case| case.bytes);
        own.iter().for_each(|point| table.row(row(curve, point, bytes, shown, view)));
        let closing = closing(curves, curve, scales, view);
        if !closing.is_empty() {
            table.text(closing);
        }
        if !sharing.is_empty() {
            let is_server = sharing.iter().any(|point| point.server.is_some());
            table.text(match is_server {
                true => {
                    "the load shares cores with the server, so there is no efficiency".to_owned()
                }
                false => sharing_heading(case.map_or(1, |case| case.cpus_per_task)),
            });
            sharing.iter().for_each(|point| table.row(row(curve, point, bytes, shown, view)));
        }
        table.text("");
    }
    table.render(&view.screen)
}

fn columns(shown: Shown) -> Vec<Column> {
    let mut columns = vec![
        Column::right("tasks"),
        Column::right("iterations/s"),
        Column::right("interval").drops(4),
        Column::left("").gap(1),
    ];
    if shown.scaling {
        columns.extend([
            Column::right("speed-up").gap(1),
            Column::right("effic."),
            Column::left("").gap(0),
        ]);
    }
    if shown.fairness {
        columns.push(Column::right("fairness").drops(3));
    }
    columns.extend([
        Column::right("user").drops(2),
        Column::right("sys").drops(2),
        Column::right("idle").drops(2),
    ]);
    if shown.scaling {
        columns.push(Column::left("").drops(1));
    }
    columns.push(Column::right("").drops(5));
    columns
}

/// `knee at 2 tasks, peak at 3 tasks`
fn closing(curves: &[Curve], curve: &Curve, scales: bool, view: &View<'_>) -> String {
    let judged = scales.then(|| match curve.verdict(view.knee) {
        CurveVerdict::OnePoint => {
            "only one usable task count, so there is no knee or peak".to_owned()
        }
        _ => knee_and_peak(curve, view.knee),
    });
    let against = curve.last().and_then(|last| {
        Some(format!("{} at {}", against_processes(curves, curve, last, view)?, last.tasks))
    });
    judged.into_iter().chain(against).collect::<Vec<String>>().join(", ")
}

/// The heading of the points with more tasks than CPUs.
fn sharing_heading(cpus_per_task: u64) -> String {
    let needed = if cpus_per_task > 1 { " (each task takes two)" } else { "" };
    format!("more tasks than CPUs{needed}: tasks share CPUs, so there is no efficiency")
}

/// A line of a testcase that moves `bytes` per iteration.
fn row(curve: &Curve, p: &Point, bytes: u64, shown: Shown, view: &View<'_>) -> Vec<Cell> {
    let cpu = p.cpu.map(|c| [c.user, c.system, c.idle].map(percent));
    let interval = if p.has_interval() {
        format!("{} to {}", si(p.low), si(p.high))
    } else {
        UNKNOWN.to_owned()
    };
    let mut row: Vec<Cell> = vec![
        p.tasks.to_string().into(),
        rate(p).into(),
        interval.into(),
        Cell::new(disturbed(std::slice::from_ref(p)), BAD),
    ];
    let at_knee = curve.knee(view.knee) == Knee::At(p.tasks);
    let mark = if at_knee { BAD } else { PLAIN };
    let scaling = curve.scaling(p);
    if shown.scaling {
        let (speedup, efficiency) = match scaling {
            Some(scaling) => {
                (format!("{:.2}×", scaling.speedup), percent_beside(scaling.efficiency, view.knee))
            }
            None => (UNKNOWN.to_owned(), UNKNOWN.to_owned()),
        };
        row.extend([
            speedup.into(),
            Cell::new(efficiency, mark),
            Cell::new(doubtful(scaling), BAD),
        ]);
    }
    if shown.fairness {
        let fairness = p.per_task.map(|tasks| format!("{:.3}", tasks.fairness));
        row.push(fairness.unwrap_or(UNKNOWN.to_owned()).into());
    }
    row.extend(cpu.unwrap_or([UNKNOWN; 3].map(str::to_owned)).map(Cell::from));
    if shown.scaling {
        let length = scaling.map_or(0.0, |s| s.efficiency.min(LONGEST_BAR) * BAR);
        row.push(Cell::new("■".repeat(length.round() as usize), mark));
    }
    let bandwidth = (bytes > 0).then(|| format!("{}B/s", si(p.rate * bytes as f64)));
    row.extend(bandwidth.or_else(|| p.server.map(served)).map(Cell::from));
    row
}

/// `server 99% load 43% busy, 12.3 µs/request`
fn served(server: Served) -> String {
    let [server_busy, load_busy] = [server.server_busy, server.load_busy].map(percent);
    let micros = server.cpu_per_request * 1e6;
    format!("server {server_busy} load {load_busy} busy, {micros:.1} µs/request")
}
