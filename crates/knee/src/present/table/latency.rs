//! The latency of each point, if the run measured it.

use knee_host::number::{percent, si, time};
use knee_host::text::{Cell, Column, Table};
use knee_results::{Curve, LatencyRequest, Point, PointLatency};
use knee_run::record::RunRecord;
use knee_stats::Quantiles;

use super::remark::disturbed;
use crate::present::style::{BAD, BOLD, DIM, PLAIN, UNKNOWN};
use crate::present::view::View;

/// The percentile of the delays of the generator that the table shows.
const LATENESS: &str = "late p99";

/// Empty without latencies.
pub(super) fn render(run: &RunRecord, curves: &[Curve], view: &View<'_>) -> String {
    let points = curves.iter().flat_map(|curve| curve.points().iter().map(move |p| (curve, p)));
    let has_latency = |point: &Point| point.latency.is_some() || point.latency_gap.is_some();
    let points: Vec<_> = points.filter(|(_, point)| has_latency(point)).collect();
    if points.is_empty() {
        return String::new();
    }
    let has_gaps = points.iter().any(|(_, point)| point.latency_gap.is_some());
    let (heading, others) = heading(run.request.latency);
    let unknown = vec![UNKNOWN.to_owned(); others.len()];
    let mut columns = vec![Column::left("")];
    columns.extend(Quantiles::NAMES.map(|name| match name {
        "p90" => Column::right(name).drops(2),
        "p99.9" => Column::right(name).drops(3),
        "max" => Column::right(name).drops(4),
        name => Column::right(name),
    }));
    columns.push(Column::left("").gap(1));
    // A warning lists the missing rounds too.
    columns.extend(has_gaps.then(|| Column::right("rounds").drops(5)));
    columns.extend(others);
    let mut table = Table::new(columns);
    table.text(heading);
    table.titles();
    for (curve, point) in points {
        let style = if point.disturbed { DIM } else { PLAIN };
        let mut row = vec![Cell::from(format!("{} {} ×{}", curve.case, curve.mode, point.tasks))];
        row.extend(match &point.latency {
            Some(latency) => latency.quantiles.values().map(|value| Cell::new(time(value), style)),
            None => Quantiles::NAMES.map(|_| UNKNOWN.to_owned().into()),
        });
        row.push(Cell::new(disturbed(std::slice::from_ref(point)), BAD));
        row.extend(has_gaps.then(|| rounds(point)));
        let others = point.latency.as_ref().map_or(unknown.clone(), others_of);
        row.extend(others.into_iter().map(Cell::from));
        table.row(row);
    }
    table.render(&view.screen) + "\n"
}

/// How many rounds have a latency: `4 of 5`.
fn rounds(point: &Point) -> Cell {
    let missing = point.latency_gap.as_ref().map_or(0, |gap| gap.rounds);
    let (of, style) = (point.rounds.len(), if missing > 0 { BAD } else { PLAIN });
    Cell::new(format!("{} of {of}", of.saturating_sub(missing)), style)
}

/// The cells beside the quantiles.
fn others_of(latency: &PointLatency) -> Vec<String> {
    let others = match latency.clock {
        Some(clock) => vec![Some(time(clock))],
        None => vec![latency.lateness.map(|late| time(late.p99)), latency.rate.map(si)],
    };
    others.into_iter().map(|text| text.unwrap_or(UNKNOWN.to_owned())).collect()
}

/// The line above the table, and the columns beside the quantiles.
fn heading(request: Option<LatencyRequest>) -> (String, Vec<Column>) {
    let (what, columns) = match request {
        Some(LatencyRequest::Requests { share }) => (
            format!(
                "of requests sent on a schedule, at {} of the rate measured in the same round",
                percent(share)
            ),
            // It tells whether the percentiles are those of the server, so it stays longest.
            vec![Column::right(LATENESS).drops(6), Column::right("requests/s").drops(1)],
        ),
        Some(LatencyRequest::Iterations) | None => (
            "of single iterations, without the cost of reading the clock".to_owned(),
            vec![Column::right("clock").drops(1)],
        ),
    };
    (format!("{BOLD}latency{BOLD:#}  {what}"), columns)
}
