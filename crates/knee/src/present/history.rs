//! Changes in a series of runs, as text and JSON.

use std::fmt::Write;

use knee_host::number::{plural, si};
use knee_host::text::Screen;
use knee_results::{Results, Series};
use serde_json::{Value, json as object};

use super::compared::{change, p_value};
use super::enumeration::and_more;
use super::notes::lines;
use crate::present::sparkline::sparkline;
use crate::present::style::{BOLD, DIM};

/// Version of the JSON document.
const SCHEMA: u32 = 1;
/// Maximum runs in a sparkline. Older runs are left out, so that lines fit on a terminal.
const SPARKS: usize = 60;

/// Text: a line per point that changed, followed by a line per change. With `detail`, also lists
/// the other points and all notes. Points with results in fewer than `fewest` runs are not tested.
pub(crate) fn table(
    runs: &[Results],
    series: &[Series],
    fewest: usize,
    detail: bool,
    screen: &Screen,
) -> String {
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{BOLD}{}, from {} to {}{BOLD:#}\n",
        plural(runs.len(), "run"),
        label(&runs[0]),
        label(&runs[runs.len() - 1])
    );
    let shown = || series.iter().filter(|series| detail || !series.changes.is_empty());
    let width = shown().map(|series| series.key.to_string().chars().count()).max().unwrap_or(0);
    for series in shown() {
        let rates: Vec<f64> = series.values.iter().map(|&(_, rate)| rate).collect();
        let recent = &rates[rates.len().saturating_sub(SPARKS)..];
        let _ = writeln!(text, "{BOLD}{:width$}{BOLD:#}  {}", series.key, sparkline(recent));
        for c in &series.changes {
            let first = series.values[c.index].0;
            let [before, after] = [c.before_median, c.after_median].map(si);
            let _ = writeln!(
                text,
                "    {} at {}: {before} to {after} per second  {DIM}p {}{DIM:#}{}",
                change(c.after_median / c.before_median),
                label(&runs[first]),
                p_value(c.p),
                suspect(runs, first)
            );
        }
    }
    let gaps = gaps(runs, series);
    if shown().next().is_some() && !gaps.is_empty() {
        text.push('\n');
    }
    let note = |gap: &Gaps| {
        let more = and_more(gap.points.len() - 1);
        let (first, reason) = &gap.points[0];
        let run = runs[gap.run].source.display();
        format!("{run} has no result for {first} ({reason}){more}")
    };
    text += &lines(gaps.iter().map(note), (!detail).then_some("--detail prints them"), screen);
    let gap = if shown().next().is_some() { "\n" } else { "" };
    let _ = writeln!(text, "{gap}{BOLD}{}{BOLD:#}", closing(series, fewest));
    screen.wrap(&text, "  ")
}

/// How many points changed, and how many could not be tested.
fn closing(series: &[Series], fewest: usize) -> String {
    let tested = tested(series);
    let changed = series.iter().filter(|series| !series.changes.is_empty()).count();
    match (tested, series.len() - tested) {
        (0, _) => {
            format!("Nothing could be tested: no point has usable results in {fewest} runs.")
        }
        (_, 0) => format!("{changed} of {} changed.", plural(tested, "point")),
        (_, untested) => {
            let (others, have) = if untested == 1 { ("other", "has") } else { ("others", "have") };
            format!(
                "{changed} of {} changed; {untested} {others} {have} usable results in \
                 fewer than {fewest} runs.",
                plural(tested, "point")
            )
        }
    }
}

/// The number of points that have enough results to find a change.
fn tested(series: &[Series]) -> usize {
    series.iter().filter(|series| series.tested).count()
}

/// Points without a rate that counts in a run.
struct Gaps {
    run: usize,
    /// The points, each with the reason.
    points: Vec<(String, String)>,
}

/// The points without a rate, for each run that has such points.
fn gaps(runs: &[Results], series: &[Series]) -> Vec<Gaps> {
    let of_run = |run: usize| {
        let missing = |series: &&Series| !series.values.iter().any(|&(nr, _)| nr == run);
        let named = |series: &Series| {
            let measured = runs[run].points.get(&series.key);
            let reason = match measured {
                None => "not requested",
                Some(measured) if measured.disturbed => "too disturbed",
                Some(measured) if measured.is_bound(&series.key.case) => "server not busy",
                Some(measured) => measured.gap.as_deref().unwrap_or("no rounds"),
            };
            (series.key.to_string(), reason.to_owned())
        };
        let points: Vec<_> = series.iter().filter(missing).map(named).collect();
        (!points.is_empty()).then_some(Gaps { run, points })
    };
    (0..runs.len()).filter_map(of_run).collect()
}

/// The path of a run and its start time, if known.
fn label(results: &Results) -> String {
    let source = results.source.display();
    match &results.origin {
        Some(run) => format!("{source} ({})", run.environment.started_at),
        None => source.to_string(),
    }
}

/// The kernels of the previous run and of this run, if they differ.
fn suspect(runs: &[Results], first: usize) -> String {
    let kernel = |nr: usize| Some(runs[nr].origin.as_ref()?.environment.kernel.as_str());
    match (first.checked_sub(1).and_then(kernel), kernel(first)) {
        (Some(before), Some(after)) if before != after => format!("  {before} → {after}"),
        _ => String::new(),
    }
}

/// JSON for programs.
pub(crate) fn json(runs: &[Results], series: &[Series], fewest: usize) -> Value {
    let gaps = gaps(runs, series);
    let labels: Vec<Value> = runs
        .iter()
        .map(|results| {
            let environment = results.origin.as_ref().map(|run| &run.environment);
            object!({
                "source": results.source.display().to_string(),
                "started_at": environment.map(|e| &e.started_at),
                "kernel": environment.map(|e| &e.kernel),
            })
        })
        .collect();
    let tested = tested(series);
    let series: Vec<Value> = series
        .iter()
        .map(|series| {
            object!({
                "testcase": series.key.case,
                "mode": series.key.mode,
                "tasks": series.key.tasks,
                "unit": series.unit,
                "tested": series.tested,
                "values": series.values.iter().map(|&(run, median)| {
                    object!({ "run": run, "median": median })
                }).collect::<Vec<Value>>(),
                "changes": series.changes.iter().map(|c| object!({
                    "run": series.values[c.index].0,
                    "before": c.before_median,
                    "after": c.after_median,
                    "ratio": c.after_median / c.before_median,
                    "p": c.p,
                })).collect::<Vec<Value>>(),
            })
        })
        .collect();
    let gaps: Vec<Value> = gaps
        .iter()
        .flat_map(|gap| gap.points.iter().map(|point| (gap.run, point)))
        .map(|(run, (point, reason))| object!({ "run": run, "point": point, "reason": reason }))
        .collect();
    object!({
        "schema": SCHEMA,
        "runs": labels,
        // A point is tested if it has usable results in this many runs.
        "fewest_runs": fewest,
        "tested": tested,
        "series": series,
        "gaps": gaps,
    })
}
