//! The table on the terminal: a line per curve, or in detail a line per point.

use std::fmt::Write;

use knee_measure::record::RunRecord;
use knee_measure::summary::{CONFIDENCE, CurveEntry, CurveSummary};
use knee_measure::testcase::{Family, Mode};

use super::View;
use super::number::{percent, si, sparkline, spread};
use super::warnings::{failure_lines, warnings};

/// Columns of rates that fit on a line; of more points the first, the last and some between are
/// shown, and `--detail` shows all.
const RATE_COLUMNS: usize = 6;
/// Width of a bar of a hundred per cent.
const BAR: usize = 20;
/// Curves named in the closing sentence.
const WORST: usize = 3;

const BOLD: anstyle::Style = anstyle::Style::new().bold();
const DIM: anstyle::Style = anstyle::Style::new().dimmed();
const BAD: anstyle::Style =
    anstyle::Style::new().fg_color(Some(anstyle::Color::Ansi(anstyle::AnsiColor::Yellow)));

/// The table, the failures, the warnings and a closing sentence.
pub(super) fn render(run: &RunRecord, curves: &[CurveSummary], view: &View<'_>) -> String {
    let mut text = head(run, curves);
    if !curves.is_empty() {
        text += &if view.detail { detail(run, curves, view) } else { overview(run, curves, view) };
    }
    for line in failure_lines(&run.failures) {
        let _ = writeln!(text, "{BAD}not measured{BAD:#}  {line}");
    }
    if !run.failures.is_empty() {
        text.push('\n');
    }
    for warning in warnings(run, curves, view.knee, view.floors) {
        let _ = writeln!(text, "{DIM}note{DIM:#}  {warning}");
    }
    text + &closing(curves, view)
}

fn head(run: &RunRecord, curves: &[CurveSummary]) -> String {
    let request = &run.request;
    let rounds = if request.rounds == 1 {
        "1 round".to_owned()
    } else {
        format!("{} rounds", request.rounds)
    };
    let confidence = curves.iter().flat_map(|c| &c.points).map(|e| e.point.confidence);
    let intervals = match confidence.fold(CONFIDENCE, f64::min) {
        c if c <= 0.5 || curves.is_empty() => String::new(),
        c => format!(", {:.1} % intervals", c * 100.0),
    };
    format!(
        "{BOLD}{}{BOLD:#}\n{rounds} of {} × {} s{intervals}, placement {}, seed {}\n\n",
        run.environment.summary(),
        request.samples,
        request.interval,
        request.placement,
        request.seed
    )
}

fn overview(run: &RunRecord, curves: &[CurveSummary], view: &View<'_>) -> String {
    let shown = shown_tasks(&run.request.tasks);
    let width = curves.iter().map(|c| c.testcase.len()).max().unwrap_or(0).max(15);
    let mut text = String::new();
    let mut family = None;
    let mut testcase = "";
    for curve in curves {
        let case = run.case(&curve.testcase);
        let of = case.map_or(Family::Plugin, |case| case.family);
        if family != Some(of) {
            let gap = if family.is_some() { "\n" } else { "" };
            let _ = write!(text, "{gap}{BOLD}{of:width$}{BOLD:#} {:9} ", "per second");
            for tasks in &shown {
                let _ = write!(text, " {:>9}", self::tasks(*tasks));
            }
            let _ = writeln!(
                text,
                "  {:>8} {:>6} {:>6} {:>5}  curve",
                "speed-up", "effic.", "±", "knee"
            );
            family = Some(of);
            testcase = "";
        }
        let name = if testcase == curve.testcase { "" } else { curve.testcase.as_str() };
        testcase = &curve.testcase;
        let _ = write!(text, "{name:width$} {:10}", curve.mode.as_str());
        for tasks in &shown {
            let entry = curve.points.iter().find(|e| e.point.point.tasks == *tasks);
            let rate = entry.map_or("-".to_owned(), |e| si(e.point.rate));
            let _ = write!(text, " {rate:>9}");
        }
        if let Some(last) = curve.points.last() {
            let widest = curve.points.iter().map(|e| e.point.relative_half_width());
            let rates: Vec<f64> = curve.points.iter().map(|e| e.point.rate).collect();
            let (mark, knee) = match curve.knee {
                Some(n) => (BAD, n.to_string()),
                None => (anstyle::Style::new(), "-".to_owned()),
            };
            let _ = write!(
                text,
                "  {:>8} {mark}{:>6}{mark:#} {:>6} {mark}{knee:>5}{mark:#}  {}",
                format!("{:.2}×", last.speedup),
                percent(last.efficiency),
                spread(widest.fold(0.0, f64::max)),
                sparkline(&rates),
            );
            for remark in remarks(run, curves, curve, last, view) {
                let _ = write!(text, "  {DIM}{remark}{DIM:#}");
            }
        }
        text.push('\n');
    }
    text.push('\n');
    text
}

/// What a line has to say beside its numbers.
fn remarks(
    run: &RunRecord,
    curves: &[CurveSummary],
    curve: &CurveSummary,
    last: &CurveEntry,
    view: &View<'_>,
) -> Vec<String> {
    let mut remarks = Vec::new();
    if let Some(case) = run.case(&curve.testcase) {
        if case.bytes > 0 {
            remarks.push(format!("{}B/s", si(last.point.rate * case.bytes as f64)));
        }
        // Long steps are real work, of which the kernel's share is the point.
        if case.min_interval > 0.0
            && let Some(cpu) = last.point.cpu
        {
            let [user, system, idle] = [cpu.user, cpu.system, cpu.idle].map(percent);
            remarks.push(format!("user {user} system {system} idle {idle}"));
        }
    }
    if curve.mode == Mode::Threads {
        remarks.extend(against_processes(curves, curve, last, view));
    }
    remarks
}

/// How threads compare with processes at the same number of tasks, unless it could be noise.
fn against_processes(
    curves: &[CurveSummary],
    threads: &CurveSummary,
    last: &CurveEntry,
    view: &View<'_>,
) -> Option<String> {
    let processes = curves
        .iter()
        .find(|c| c.testcase == threads.testcase && c.mode == Mode::Processes)?
        .points
        .iter()
        .find(|e| e.point.point.tasks == last.point.point.tasks)?;
    let ratio = last.point.rate / processes.point.rate;
    let floor = view.floors.map_or(0.0, |floors| floors.of(&last.point.point));
    let apart = last.point.high < processes.point.low || processes.point.high < last.point.low;
    let differs = ratio.is_finite() && apart && (ratio - 1.0).abs() > floor;
    differs.then(|| format!("{ratio:.2}× of processes"))
}

/// `1 task`, `2 tasks`.
fn tasks(n: u32) -> String {
    if n == 1 { "1 task".to_owned() } else { format!("{n} tasks") }
}

fn shown_tasks(tasks: &[u32]) -> Vec<u32> {
    if tasks.len() <= RATE_COLUMNS {
        return tasks.to_vec();
    }
    let last = tasks.len() - 1;
    (0..RATE_COLUMNS).map(|i| tasks[i * last / (RATE_COLUMNS - 1)]).collect()
}

fn detail(run: &RunRecord, curves: &[CurveSummary], view: &View<'_>) -> String {
    let mut text = String::new();
    for curve in curves {
        let case = run.case(&curve.testcase);
        let description = case.map_or("", |case| case.description.as_str());
        let unit = case.map_or("iterations", |case| case.unit.as_str());
        let bytes = case.map_or(0, |case| case.bytes);
        let _ = writeln!(
            text,
            "{BOLD}{} {}{BOLD:#}  {description}\n{:>7} {:>12} {:>19} {:>8} {:>6} {:>8}  {:>4} {:>4} {:>4}",
            curve.testcase,
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
            let p = &entry.point;
            let [user, system, idle] = p.cpu.map_or(["-".into(), "-".into(), "-".into()], |c| {
                [c.user, c.system, c.idle].map(percent)
            });
            let at_knee =
                if curve.knee == Some(p.point.tasks) { BAD } else { anstyle::Style::new() };
            let bar = "█".repeat((entry.efficiency.min(1.2) * BAR as f64).round() as usize);
            let _ = write!(
                text,
                "{:>7} {:>12} {:>19} {:>8} {at_knee}{:>6}{at_knee:#} {:>8.3}  {user:>4} {system:>4} {idle:>4}  {at_knee}{bar}{at_knee:#}",
                p.point.tasks,
                si(p.rate),
                format!("{} to {}", si(p.low), si(p.high)),
                format!("{:.2}×", entry.speedup),
                percent(entry.efficiency),
                p.fairness,
            );
            if bytes > 0 {
                let _ = write!(text, "  {}B/s", si(p.rate * bytes as f64));
            }
            text.push('\n');
        }
        let knee = match curve.knee {
            Some(n) => format!("at {}", tasks(n)),
            None => "none so far".to_owned(),
        };
        let _ = write!(text, "   knee {knee}, peak at {}", tasks(curve.peak));
        if let Some(last) = curve.points.last()
            && let Some(ratio) = against_processes_if_threads(curves, curve, last, view)
        {
            let _ = write!(text, ", {ratio} at {}", last.point.point.tasks);
        }
        text += "\n\n";
    }
    text
}

fn against_processes_if_threads(
    curves: &[CurveSummary],
    curve: &CurveSummary,
    last: &CurveEntry,
    view: &View<'_>,
) -> Option<String> {
    (curve.mode == Mode::Threads).then(|| against_processes(curves, curve, last, view))?
}

/// The claim of the whole run in one sentence.
fn closing(curves: &[CurveSummary], view: &View<'_>) -> String {
    let last_efficiency = |c: &CurveSummary| c.points.last().map_or(1.0, |e| e.efficiency);
    let mut knees: Vec<&CurveSummary> = curves.iter().filter(|c| c.knee.is_some()).collect();
    knees.sort_by(|a, b| {
        a.knee.cmp(&b.knee).then(last_efficiency(a).total_cmp(&last_efficiency(b)))
    });
    let most = curves.iter().flat_map(|c| c.points.last()).map(|e| e.point.point.tasks).max();
    // A single point is no curve.
    let Some(most) = most.filter(|_| curves.iter().any(|c| c.points.len() > 1)) else {
        return String::new();
    };
    let scaling = curves.len() - knees.len();
    let mut text = format!(
        "\n{BOLD}{scaling} of {} curves stay above {} efficiency up to {most} tasks.{BOLD:#}",
        curves.len(),
        percent(view.knee)
    );
    let worst: Vec<String> = knees
        .iter()
        .take(WORST)
        .map(|c| {
            let at = c.points.iter().find(|e| Some(e.point.point.tasks) == c.knee);
            format!(
                "{} {} (knee {}, {})",
                c.testcase,
                c.mode,
                c.knee.unwrap_or(0),
                percent(at.map_or(0.0, |e| e.efficiency))
            )
        })
        .collect();
    if !worst.is_empty() {
        let _ = write!(text, " First to stop: {}.", worst.join(", "));
    }
    text.push('\n');
    text
}
