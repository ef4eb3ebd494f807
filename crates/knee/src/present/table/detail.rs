//! A block per curve with a line per point.

use std::fmt::Write;

use knee_host::number::{percent, percent_beside, si, tasks};
use knee_run::record::RunRecord;
use knee_run::summary::{CurveEntry, CurveSummary};

use super::{BAD, BOLD, UNKNOWN, View, against_processes, disturbed, has_interval};
use crate::present::has_base;

/// Width of a bar of a hundred per cent.
const BAR: f64 = 20.0;
/// Where a bar ends: more than this has no meaning for scaling.
const LONGEST_BAR: f64 = 1.2;

pub(super) fn render(run: &RunRecord, curves: &[CurveSummary], view: &View<'_>) -> String {
    let mut text = String::new();
    for curve in curves {
        let case = run.case(&curve.case);
        let description = case.map_or("", |case| case.description.as_str());
        let unit = case.map_or("iterations", |case| case.unit.as_str());
        let bytes = case.map_or(0, |case| case.bytes);
        let _ = writeln!(
            text,
            "{BOLD}{} {}{BOLD:#}  {description}\n{:>7} {:>12} {:>19} {:>10} {:>6} {:>8}  {:>4} {:>4} {:>4}",
            curve.case,
            curve.mode,
            "tasks",
            format!("{unit}/s"),
            "interval",
            "speed-up",
            "effic.",
            "fairness",
            "user",
            "sys",
            "idle"
        );
        for entry in &curve.points {
            text += &line(curve, entry, view);
            if bytes > 0 {
                let _ = write!(text, "  {}B/s", si(entry.point.rate * bytes as f64));
            }
            text.push('\n');
        }
        let knee = match curve.knee {
            _ if !has_base(curve) => "unknown without a point at 1 task".to_owned(),
            Some(n) => format!("at {}", tasks(n)),
            None => "none so far".to_owned(),
        };
        let _ = write!(text, "   knee {knee}, peak at {}", tasks(curve.peak));
        if let Some(last) = curve.points.last()
            && let Some(ratio) = against_processes(curves, curve, last, view)
        {
            let _ = write!(text, ", {ratio} at {}", last.point.point.tasks);
        }
        text += "\n\n";
    }
    text
}

fn line(curve: &CurveSummary, entry: &CurveEntry, view: &View<'_>) -> String {
    let p = &entry.point;
    let cpu = p.cpu.map(|c| [c.user, c.system, c.idle].map(percent));
    let [user, system, idle] = cpu.unwrap_or([UNKNOWN; 3].map(str::to_owned));
    let interval = if has_interval(p) {
        format!("{} to {}", si(p.low), si(p.high))
    } else {
        UNKNOWN.to_owned()
    };
    let at_knee = has_base(curve) && curve.knee == Some(p.point.tasks);
    let mark = if at_knee { BAD } else { anstyle::Style::new() };
    let (speedup, efficiency, bar) = if has_base(curve) {
        let length = entry.efficiency.min(LONGEST_BAR) * BAR;
        (
            format!("{:.2}×", entry.speedup),
            percent_beside(entry.efficiency, view.knee),
            format!("  {mark}{}{mark:#}", "█".repeat(length.round() as usize)),
        )
    } else {
        (UNKNOWN.to_owned(), UNKNOWN.to_owned(), String::new())
    };
    format!(
        "{:>7} {:>12} {interval:>19} {BAD}{:2}{BAD:#}{speedup:>8} {mark}{efficiency:>6}{mark:#} {:>8.3}  {user:>4} {system:>4} {idle:>4}{bar}",
        p.point.tasks,
        si(p.rate),
        disturbed(std::iter::once(p)),
        p.fairness,
    )
}
