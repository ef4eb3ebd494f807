//! A block per curve with a line per point.

use std::fmt::Write;

use knee_host::number::{percent, percent_beside, si, tasks};
use knee_results::{Curve, Knee, Point};
use knee_run::record::RunRecord;

use super::{BAD, BOLD, UNKNOWN, View, against_processes, disturbed};

/// Width of a bar of a hundred per cent.
const BAR: f64 = 20.0;
/// Where a bar ends: more than this has no meaning for scaling.
const LONGEST_BAR: f64 = 1.2;

pub(super) fn render(run: &RunRecord, curves: &[Curve], view: &View<'_>) -> String {
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
        for point in curve.points() {
            text += &line(curve, point, view);
            if bytes > 0 {
                let _ = write!(text, "  {}B/s", si(point.rate * bytes as f64));
            }
            text.push('\n');
        }
        let knee = match curve.knee(view.knee) {
            Knee::Unknown => "unknown without a point at 1 task".to_owned(),
            Knee::At(n) => format!("at {}", tasks(n)),
            Knee::NotReached => "none so far".to_owned(),
        };
        let _ =
            write!(text, "   knee {knee}, peak at {}", tasks(curve.peak().map_or(0, |p| p.tasks)));
        if let Some(last) = curve.last()
            && let Some(ratio) = against_processes(curves, curve, last, view)
        {
            let _ = write!(text, ", {ratio} at {}", last.tasks);
        }
        text += "\n\n";
    }
    text
}

fn line(curve: &Curve, p: &Point, view: &View<'_>) -> String {
    let cpu = p.cpu.map(|c| [c.user, c.system, c.idle].map(percent));
    let [user, system, idle] = cpu.unwrap_or([UNKNOWN; 3].map(str::to_owned));
    let interval = if p.has_interval() {
        format!("{} to {}", si(p.low), si(p.high))
    } else {
        UNKNOWN.to_owned()
    };
    let at_knee = curve.knee(view.knee) == Knee::At(p.tasks);
    let mark = if at_knee { BAD } else { anstyle::Style::new() };
    let (speedup, efficiency, bar) = match curve.scaling(p) {
        Some(scaling) => {
            let length = scaling.efficiency.min(LONGEST_BAR) * BAR;
            (
                format!("{:.2}×", scaling.speedup),
                percent_beside(scaling.efficiency, view.knee),
                format!("  {mark}{}{mark:#}", "█".repeat(length.round() as usize)),
            )
        }
        None => (UNKNOWN.to_owned(), UNKNOWN.to_owned(), String::new()),
    };
    let fairness = p.per_task.map_or(UNKNOWN.to_owned(), |tasks| format!("{:.3}", tasks.fairness));
    format!(
        "{:>7} {:>12} {interval:>19} {BAD}{:2}{BAD:#}{speedup:>8} {mark}{efficiency:>6}{mark:#} {fairness:>8}  {user:>4} {system:>4} {idle:>4}{bar}",
        p.tasks,
        si(p.rate),
        disturbed(std::slice::from_ref(p)),
    )
}
