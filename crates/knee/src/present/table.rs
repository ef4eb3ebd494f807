//! The table on the terminal: a line per curve, or in detail a line per point.

mod detail;
mod overview;

use std::fmt::Write;

use knee_host::number::{percent_beside, tasks, threshold};
use knee_run::record::{Record, RunRecord};
use knee_run::summary::{CONFIDENCE, CurveEntry, CurveSummary, PointSummary};
use knee_run::testcase::Mode;

use super::warnings::{all_disturbed, warnings};
use super::{View, failures, has_base};

/// Curves named in the closing sentence.
const WORST: usize = 3;

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();
const BAD: anstyle::Style =
    anstyle::Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));

/// What stands for a number that is not known.
const UNKNOWN: &str = "-";

/// The table, the failures, the warnings and a closing sentence.
pub(super) fn render(record: &Record, curves: &[CurveSummary], view: &View<'_>) -> String {
    let run = &record.run;
    let mut text = head(run, curves);
    if !curves.is_empty() {
        text += &if view.detail {
            detail::render(run, curves, view)
        } else {
            overview::render(record, curves, view)
        };
    }
    for line in failures::lines(&run.failures) {
        let _ = writeln!(text, "{BAD}not measured{BAD:#}  {line}");
    }
    if !run.failures.is_empty() {
        text.push('\n');
    }
    for warning in warnings(record, curves, view) {
        let _ = writeln!(text, "{DIM}note{DIM:#}  {warning}");
    }
    text + &closing(curves, view)
}

fn head(run: &RunRecord, curves: &[CurveSummary]) -> String {
    let request = &run.request;
    let points = || curves.iter().flat_map(|c| &c.points).map(|e| &e.point);
    let confidence = points().map(|p| p.confidence).fold(CONFIDENCE, f64::min);
    let intervals = if !curves.is_empty() && points().all(has_interval) {
        format!(", {:.1}% intervals", confidence * 100.0)
    } else {
        String::new()
    };
    format!(
        "{BOLD}{}{BOLD:#}\n{} of {} × {} s{intervals}, placement {}, seed {}\n\n",
        run.environment.summary(),
        rounds(points().map(|p| p.rounds.len()), request.rounds),
        request.samples,
        request.interval,
        request.placement,
        request.seed
    )
}

/// How many rounds the points have; before there are any, how many were `asked` for.
fn rounds(of_points: impl Iterator<Item = usize> + Clone, asked: u32) -> String {
    match (of_points.clone().min(), of_points.max()) {
        (Some(1), Some(1)) => "1 round".to_owned(),
        (Some(least), Some(most)) if least < most => format!("{least}–{most} rounds"),
        (Some(n), _) => format!("{n} rounds"),
        (None, _) if asked == 1 => "1 round".to_owned(),
        (None, _) => format!("{asked} rounds"),
    }
}

/// How threads compare with processes at the same number of tasks, unless it could be noise.
fn against_processes(
    curves: &[CurveSummary],
    curve: &CurveSummary,
    last: &CurveEntry,
    view: &View<'_>,
) -> Option<String> {
    if curve.mode != Mode::Threads {
        return None;
    }
    let processes = curves
        .iter()
        .find(|c| c.case == curve.case && c.mode == Mode::Processes)?
        .points
        .iter()
        .find(|e| e.point.point.tasks == last.point.point.tasks)?;
    let ratio = last.point.rate / processes.point.rate;
    let floor = view.floors.map_or(0.0, |floors| floors.of(&last.point.point));
    let known = has_interval(&last.point) && has_interval(&processes.point);
    let apart = last.point.high < processes.point.low || processes.point.high < last.point.low;
    let differs = ratio.is_finite() && known && apart && (ratio - 1.0).abs() > floor;
    differs.then(|| format!("{ratio:.2}× of processes"))
}

/// One round says nothing about its spread.
fn has_interval(point: &PointSummary) -> bool {
    point.rounds.len() > 1
}

/// `!` for points of which some samples are disturbed, `!!` where all of one are.
fn disturbed<'a>(points: impl Iterator<Item = &'a PointSummary> + Clone) -> &'static str {
    match (points.clone().any(|p| p.marked > 0), points.clone().any(all_disturbed)) {
        (_, true) => "!!",
        (true, false) => "!",
        (false, false) => "",
    }
}

/// The claim of the whole run in one sentence.
fn closing(curves: &[CurveSummary], view: &View<'_>) -> String {
    // A single point is no curve, and without one task there is no efficiency.
    let (disturbed, curves): (Vec<&CurveSummary>, Vec<&CurveSummary>) =
        curves.iter().filter(|c| c.points.len() > 1 && has_base(c)).partition(|c| is_disturbed(c));
    let most = curves.iter().flat_map(|c| c.points.last()).map(|e| e.point.point.tasks).max();
    let Some(most) = most else { return String::new() };
    let mut knees: Vec<(u32, f64, f64, &CurveSummary)> = curves
        .iter()
        .filter_map(|c| {
            let knee = c.knee?;
            let at = c.points.iter().find(|e| e.point.point.tasks == knee)?;
            let base = c.points.first()?;
            let at_most = at.point.high / (base.point.low * f64::from(knee));
            Some((knee, at.efficiency, at_most, *c))
        })
        .collect();
    knees.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let scaling = curves.len() - knees.len();
    let mut text = format!(
        "\n{BOLD}{scaling} of {} {} above {} efficiency up to {}.{BOLD:#}",
        curves.len(),
        if curves.len() == 1 { "curve stays" } else { "curves stay" },
        threshold(view.knee),
        tasks(most)
    );
    let worst: Vec<String> = knees
        .iter()
        .take(WORST)
        .map(|(knee, efficiency, at_most, c)| {
            let efficiency = percent_beside(*efficiency, view.knee);
            let doubt = if *at_most >= view.knee { ", uncertain" } else { "" };
            format!("{} {} (knee {knee}, {efficiency}{doubt})", c.case, c.mode)
        })
        .collect();
    if !worst.is_empty() {
        let _ = write!(text, " First to stop: {}.", worst.join(", "));
    }
    if !disturbed.is_empty() {
        let n = disturbed.len();
        let curves = if n == 1 { "curve is" } else { "curves are" };
        let _ = write!(text, " {n} disturbed {curves} not counted.");
    }
    text.push('\n');
    text
}

/// Whether all samples of one of its points are marked.
fn is_disturbed(curve: &CurveSummary) -> bool {
    curve.points.iter().any(|e| e.point.marked > 0 && e.point.marked == e.point.samples)
}
