//! A line per curve.

use std::fmt::Write;

use knee_host::number::{percent, percent_beside, si, spread, tasks};
use knee_results::{Curve, Family, Point};
use knee_run::record::{Record, RunRecord};

use super::{BAD, BOLD, DIM, UNKNOWN, View, against_processes, disturbed};
use crate::present::sparkline::sparkline;

/// Columns of rates that fit on a line; of more points the first, the last and some between are
/// shown, and `--detail` shows all.
const RATE_COLUMNS: usize = 6;

pub(super) fn render(record: &Record, curves: &[Curve], view: &View<'_>) -> String {
    let run = &record.run;
    let shown = shown_tasks(&run.request.tasks);
    let width = curves.iter().map(|c| c.case.to_string().len()).max().unwrap_or(0).max(15);
    let mut text = String::new();
    let mut family = None;
    let mut last = None;
    for curve in curves {
        let case = run.case(&curve.case);
        let of = case.map_or(Family::Plugin, |case| case.family);
        if family != Some(of) {
            let gap = if family.is_some() { "\n" } else { "" };
            let _ = write!(text, "{gap}{BOLD}{of:width$}{BOLD:#} {:9} ", "per second");
            for n in &shown {
                let _ = write!(text, " {:>9}", tasks(*n));
            }
            let _ = writeln!(
                text,
                "  {:>8} {:>6} {:>6}   {:>5}  curve",
                "speed-up", "effic.", "±", "knee"
            );
            family = Some(of);
            last = None;
        }
        let name = if last == Some(&curve.case) { String::new() } else { curve.case.to_string() };
        last = Some(&curve.case);
        let _ = write!(text, "{name:width$} {:10}", curve.mode.as_str());
        for n in &shown {
            let rate = curve.at(*n).map_or(UNKNOWN.to_owned(), |point| si(point.rate));
            let _ = write!(text, " {rate:>9}");
        }
        if let Some(last) = curve.last() {
            text += &verdict(curve, last, view);
            for remark in remarks(run, curves, curve, last, view) {
                let _ = write!(text, "  {DIM}{remark}{DIM:#}");
            }
        }
        text.push('\n');
    }
    if shown.len() < run.request.tasks.len() {
        let _ = writeln!(
            text,
            "{DIM}{} of {} task counts are shown; all: knee show {} --detail{DIM:#}",
            shown.len(),
            run.request.tasks.len(),
            record.dir.display()
        );
    }
    text.push('\n');
    text
}

/// What a curve comes to.
fn verdict(curve: &Curve, last: &Point, view: &View<'_>) -> String {
    let points = curve.points();
    let rates: Vec<f64> = points.iter().map(|p| p.rate).collect();
    let widest = if points.iter().all(Point::has_interval) {
        spread(points.iter().map(Point::relative_half_width).fold(0.0, f64::max))
    } else {
        UNKNOWN.to_owned()
    };
    let scaling = curve.scaling(last);
    let knee = curve.knee(view.knee).tasks();
    let mark = if knee.is_some() { BAD } else { anstyle::Style::new() };
    format!(
        "  {:>8} {mark}{:>6}{mark:#} {widest:>6} {BAD}{:2}{BAD:#}{mark}{:>5}{mark:#}  {}",
        scaling.map_or(UNKNOWN.to_owned(), |scaling| format!("{:.2}×", scaling.speedup)),
        scaling.map_or(UNKNOWN.to_owned(), |s| percent_beside(s.efficiency, view.knee)),
        disturbed(points),
        knee.map_or(UNKNOWN.to_owned(), |n| n.to_string()),
        sparkline(&rates),
    )
}

/// What a line has to say beside its numbers.
fn remarks(
    run: &RunRecord,
    curves: &[Curve],
    curve: &Curve,
    last: &Point,
    view: &View<'_>,
) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(case) = run.case(&curve.case) {
        if case.bytes > 0 {
            remarks.push(format!("{}B/s", si(last.rate * case.bytes as f64)));
        }
        // Long steps are real work, of which the kernel's share is the point.
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

fn shown_tasks(tasks: &[u32]) -> Vec<u32> {
    if tasks.len() <= RATE_COLUMNS {
        return tasks.to_vec();
    }
    let last = tasks.len() - 1;
    (0..RATE_COLUMNS).map(|i| tasks[i * last / (RATE_COLUMNS - 1)]).collect()
}
