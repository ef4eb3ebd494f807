//! Events of the processors and the kernel at each point, if the run counted them.

use knee_host::counters::{Counter, CounterSet};
use knee_host::number::{count, plural, three_digits, time};
use knee_host::text::{Cell, Column, Table};
use knee_results::{Axis, Curve, PointCounters};
use knee_run::plan::Case;
use knee_run::record::RunRecord;

use super::remark::disturbed;
use crate::present::style::{BAD, BOLD, DIM, PLAIN, UNKNOWN};
use crate::present::view::View;

/// The column whose title is the axis of the curves.
const AXIS: usize = 0;

/// The mark of an estimated value.
const ESTIMATE: &str = "~";

/// The counters of all points, and which ones have no value. Empty if the run did not count. Each title row names
/// the axis of the curves below it.
pub(super) fn render(run: &RunRecord, curves: &[Curve], view: &View<'_>) -> String {
    let has_points = curves.iter().any(|curve| !curve.points().is_empty());
    let Some(set) = run.request.counters.as_ref().filter(|_| has_points) else {
        return String::new();
    };
    let counters: Vec<&PointCounters> =
        curves.iter().flat_map(Curve::points).filter_map(|point| point.counters.as_ref()).collect();
    let mut text = String::new();
    if !counters.is_empty() {
        let mode = if set.user_only { ", in user mode only" } else { "" };
        let title = format!("{BOLD}counters{BOLD:#}  per operation, of {}{mode}", subject(run));
        text += &table(title, curves, &counters).render(&view.screen);
    }
    for line in qualifications(set, &counters) {
        text += &view.screen.wrap(&line, "  ");
        text.push('\n');
    }
    text + "\n"
}

fn table(title: String, curves: &[Curve], counters: &[&PointCounters]) -> Table {
    let is_shown = |shown: &&Shown| counters.iter().any(|one| shown.value(one).is_some());
    let shown: Vec<&Shown> = Shown::ALL.iter().filter(is_shown).collect();
    let mut columns = vec![Column::right(Axis::Tasks.as_str())];
    columns.extend(shown.iter().map(|shown| shown.column()));
    columns.push(Column::left("").gap(1));
    let mut table = Table::new(columns);
    table.text(title);
    let mut axis = None;
    for curve in curves.iter().filter(|curve| curve.points().iter().any(|p| p.counters.is_some())) {
        if axis.replace(curve.axis.as_str()) != Some(curve.axis.as_str()) {
            table.titles_but(AXIS, curve.axis.as_str());
        }
        table.text(match curve.axis {
            Axis::Tasks => format!("{} {}", curve.case, curve.mode),
            Axis::Connections { tasks } => {
                format!("{} on {}", curve.case, plural(tasks as usize, "CPU"))
            }
        });
        for point in curve.points() {
            let Some(counters) = &point.counters else { continue };
            let style = if point.disturbed { DIM } else { PLAIN };
            let mut row = vec![Cell::from(point.tasks.to_string())];
            row.extend(shown.iter().map(|shown| Cell::new(shown.cell(counters), style)));
            row.push(Cell::new(disturbed(std::slice::from_ref(point)), BAD));
            table.row(row);
        }
    }
    table
}

/// What qualifies the values, and the reasons for missing ones.
pub(in crate::present) fn qualifications(
    set: &CounterSet,
    counters: &[&PointCounters],
) -> Vec<String> {
    let estimated = counters.iter().any(|one| !one.shares.is_empty()).then(|| {
        format!(
            "{ESTIMATE} marks estimates, because the processor counted these events only part of the time; if it \
             cannot count all of them at once, name fewer counters: --counters=LIST"
        )
    });
    let never: Vec<&str> = set
        .counters
        .iter()
        .filter(|counter| counters.iter().all(|one| !one.per_second.contains_key(counter)))
        .map(|counter| counter.name())
        .collect();
    let never = (!never.is_empty()).then(|| {
        format!(
            "not counted: {} (the kernel gave no hardware counter at any point; other programs may use them \
             all)",
            never.join(", ")
        )
    });
    let unavailable = set.what_is_unavailable().map(|what| format!("not counted: {what}"));
    [estimated, never, unavailable].into_iter().flatten().collect()
}

/// Whose events these are.
fn subject(run: &RunRecord) -> &'static str {
    match &run.cases[..] {
        cases if cases.iter().any(Case::is_server) => "the server without its load",
        cases if cases.iter().any(Case::is_command) => "the command",
        _ => "the tasks",
    }
}

/// What is shown of the counters of a point.
pub(in crate::present) enum Shown {
    /// An event per operation.
    Each(Counter),
    /// Instructions per cycle.
    Ipc,
}

impl Shown {
    pub(in crate::present) const ALL: &[Shown] = &[
        Self::Each(Counter::Cycles),
        Self::Each(Counter::Instructions),
        Self::Ipc,
        Self::Each(Counter::LlcMisses),
        Self::Each(Counter::CacheMisses),
        Self::Each(Counter::BranchMisses),
        Self::Each(Counter::ContextSwitches),
        Self::Each(Counter::CpuMigrations),
        Self::Each(Counter::PageFaults),
        Self::Each(Counter::TaskClock),
    ];

    fn column(&self) -> Column {
        let column = Column::right(self.title());
        match self {
            Self::Each(Counter::CpuMigrations) => column.drops(1),
            Self::Each(Counter::CacheMisses) => column.drops(2),
            Self::Each(Counter::BranchMisses) => column.drops(3),
            _ => column,
        }
    }

    pub(in crate::present) fn title(&self) -> &'static str {
        match self {
            Self::Ipc => "IPC",
            Self::Each(Counter::Cycles) => "cycles",
            Self::Each(Counter::Instructions) => "instr.",
            Self::Each(Counter::LlcMisses) => "LLC miss",
            Self::Each(Counter::CacheMisses) => "cache miss",
            Self::Each(Counter::BranchMisses) => "branch miss",
            Self::Each(Counter::ContextSwitches) => "switches",
            Self::Each(Counter::CpuMigrations) => "migrations",
            Self::Each(Counter::PageFaults) => "faults",
            Self::Each(Counter::TaskClock) => "CPU time",
        }
    }

    pub(in crate::present) fn value(&self, counters: &PointCounters) -> Option<f64> {
        match self {
            Self::Ipc => counters.ipc,
            Self::Each(counter) => counters.per_operation.get(counter).copied(),
        }
    }

    pub(in crate::present) fn cell(&self, counters: &PointCounters) -> String {
        let Some(value) = self.value(counters) else { return UNKNOWN.to_owned() };
        let (text, is_estimate) = match self {
            Self::Ipc => (
                three_digits(value),
                [Counter::Cycles, Counter::Instructions].iter().any(|&c| counters.is_estimate(c)),
            ),
            Self::Each(Counter::TaskClock) => (time(value / 1e9), false),
            Self::Each(counter) => (count(value), counters.is_estimate(*counter)),
        };
        if is_estimate { format!("{ESTIMATE}{text}") } else { text }
    }
}
