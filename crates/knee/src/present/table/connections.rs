//! A block per curve over connections, with a line per number of connections.

use knee_host::number::{percent, percent_beside, plural, si, time};
use knee_host::text::{Cell, Column, Table};
use knee_results::{Curve, CurveVerdict, Knee, Point};
use knee_run::record::RunRecord;

use super::remark::{disturbed, knee_and_peak, rate};
use crate::present::style::{BAD, BOLD, DIM, PLAIN, UNKNOWN};
use crate::present::view::View;

/// The column of rates, whose title is the unit of the server.
const RATE: usize = 1;

pub(super) fn render(run: &RunRecord, sweeps: &[Curve], view: &View<'_>) -> String {
    let mut points = sweeps.iter().flat_map(Curve::points);
    let has_latency = points.any(|point| point.latency.is_some());
    let mut table = Table::new(columns(has_latency));
    for sweep in sweeps {
        let Some(first) = sweep.points().first() else { continue };
        let id = sweep.id(first.tasks);
        let case = run.case(&id.case);
        let (cpus, case_name) = (plural(id.tasks as usize, "CPU"), &sweep.case);
        table.text(format!(
            "{BOLD}{case_name}{BOLD:#} on {cpus}, over connections  {}",
            case.map_or("", |case| case.description.as_str())
        ));
        let unit = case.map_or("requests", |case| case.unit.as_str());
        table.titles_but(RATE, &format!("{unit}/s"));
        sweep.points().iter().for_each(|point| table.row(row(sweep, point, has_latency, view)));
        table.text(closing(sweep, view));
        table.text("");
    }
    table.render(&view.screen)
}

fn columns(has_latency: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::right("connections"),
        Column::right("requests/s"),
        Column::right("interval").drops(1),
        Column::left("").gap(1),
        Column::right("effic.").gap(1),
        Column::right("server busy"),
        Column::right("load busy").drops(3),
        Column::right("CPU/request"),
    ];
    if has_latency {
        columns.extend([Column::right("p50").drops(2), Column::right("p99").drops(4)]);
    }
    columns
}

fn row(sweep: &Curve, point: &Point, has_latency: bool, view: &View<'_>) -> Vec<Cell> {
    let style = if sweep.is_sound(point) { PLAIN } else { DIM };
    let at_knee = sweep.knee(view.knee) == Knee::At(point.tasks);
    let efficiency = sweep.scaling(point).map(|s| percent_beside(s.efficiency, view.knee));
    let interval = point.has_interval().then(|| format!("{} to {}", si(point.low), si(point.high)));
    let of_server = |text: fn(knee_results::Served) -> String| point.server.map(text);
    let quantiles = point.latency.as_ref().map(|latency| latency.quantiles);
    let cell = |text: Option<String>| Cell::new(text.unwrap_or(UNKNOWN.to_owned()), style);
    let mut row = vec![
        point.tasks.to_string().into(),
        cell(Some(rate(point))),
        cell(interval),
        Cell::new(disturbed(std::slice::from_ref(point)), BAD),
        Cell::new(efficiency.unwrap_or(UNKNOWN.to_owned()), if at_knee { BAD } else { PLAIN }),
        cell(of_server(|server| percent(server.server_busy))),
        cell(of_server(|server| percent(server.load_busy))),
        cell(of_server(|server| time(server.cpu_per_request))),
    ];
    if has_latency {
        row.extend([quantiles.map(|q| time(q.p50)), quantiles.map(|q| time(q.p99))].map(cell));
    }
    row
}

/// `knee at 64 connections, peak at 64 connections; 12% slower at 512`
fn closing(sweep: &Curve, view: &View<'_>) -> String {
    if sweep.points().iter().all(Point::shares_cpus) {
        return "the load shares cores with the server, so there is no efficiency, knee or peak"
            .to_owned();
    }
    if sweep.verdict(view.knee) == CurveVerdict::OnePoint {
        return "only one usable number of connections, so there is no knee or peak".to_owned();
    }
    let loss = match (sweep.verdict(view.knee), sweep.last(), sweep.peak()) {
        (CurveVerdict::Retrograde, Some(last), Some(peak)) => {
            format!("; {} slower at {}", percent(1.0 - last.rate / peak.rate), last.tasks)
        }
        _ => String::new(),
    };
    knee_and_peak(sweep, view.knee) + &loss
}
