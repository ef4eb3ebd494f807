//! Finds what grows with the cores: the cost of an iteration by function, at increasing task counts.
//!
//! A flame graph of one point shows where time goes, but not what fails to scale. The increase of a
//! function's cost per iteration shows what the cores cost each other there: they spin for a lock, or wait
//! for a cache line that another core owns.
//!
//! A cost is the CPU time (or cycles) of all tasks over their iterations. A sleeping task uses no CPU time,
//! so its off-CPU time is shown separately.

use std::collections::HashMap;

use knee_host::number::plural;
use serde::Serialize;

use crate::capture::{Capture, Kind, UnderLoad, Work, unit};
use crate::diff::{Difference, Measure, diff};
use crate::view::functions::{Part, functions};

mod callers;
mod table;

pub use table::table;

/// Growth from the first capture to the last.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Growth {
    /// What was sampled.
    pub testcase: String,
    /// What the work consists of, in the plural, such as `iterations`; costs are those of one.
    pub unit: String,
    /// The unit of costs.
    pub measure: Measure,
    /// Whether functions of the kernel are missing, because knee was not permitted to sample it.
    pub user_only: bool,
    /// The captures, in order.
    pub points: Vec<Point>,
    /// Functions: those beyond the sampling error first, then by the growth of their self cost, the largest
    /// first.
    pub rows: Vec<Row>,
}

/// Summary of a capture.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// Task count, or the number of CPUs of a server.
    pub tasks: u32,
    /// The state of a server; absent for testcases.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server: Option<UnderLoad>,
    /// Iterations per second of all tasks.
    pub rate: f64,
    /// Cost of an iteration.
    pub cost: f64,
    /// Off-CPU nanoseconds per iteration; `None` if unknown.
    pub waiting: Option<f64>,
    /// Samples.
    pub samples: u64,
    /// Whether other work disturbed it.
    pub disturbed: bool,
}

/// A function's cost.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Row {
    /// Its name.
    pub name: String,
    /// The file it is in.
    pub module: Option<String>,
    /// Where it is.
    pub kind: Kind,
    /// Self cost per iteration at each point.
    pub own: Vec<f64>,
    /// Total cost per iteration, including callees, at each point.
    pub total: Vec<f64>,
    /// Growth of the self cost from the first point to the last.
    pub own_growth: Difference,
    /// Growth of the total cost from the first point to the last.
    pub total_growth: Difference,
    /// The callers through which it grew most: its caller, the caller's caller, and so on.
    pub from: Vec<String>,
}

/// Why captures cannot be compared for growth.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GrowthError {
    /// Fewer than two captures.
    #[error("growth compares task counts, so it needs at least two captures")]
    TooFew,
    /// The work during a capture is unknown.
    #[error(
        "{title} has no count of iterations, requests or runs, or no CPU time; use captures that knee profile \
         took of a testcase or server, or knee profile growth of a command"
    )]
    NoWork {
        /// Its title.
        title: String,
    },
    /// Captures differ in more than the task count.
    #[error(
        "{one} and {other} differ in more than the task count; use captures of the same testcase or command, \
         mode, unit and event"
    )]
    Different {
        /// A title.
        one: String,
        /// Another.
        other: String,
    },
    /// Two captures have the same task count.
    #[error("two captures have the same task count, {tasks}; name one capture per task count")]
    Twice {
        /// The task count.
        tasks: u32,
    },
}

/// Computes the growth from the capture with the fewest tasks to the one with the most.
///
/// # Errors
/// [`GrowthError`] states what is missing in these captures.
pub fn growth(captures: &[Capture]) -> Result<Growth, GrowthError> {
    let mut captures: Vec<&Capture> = captures.iter().collect();
    captures.sort_by_key(|capture| capture.work.as_ref().map(|work| work.point.tasks));
    let [first, .., last] = captures[..] else { return Err(GrowthError::TooFew) };
    let point = |capture: &&Capture| {
        Point::of(capture).ok_or_else(|| GrowthError::NoWork { title: capture.title.clone() })
    };
    let points = captures.iter().map(point).collect::<Result<Vec<_>, _>>()?;
    for pair in captures.windows(2) {
        let key = |capture: &Capture| {
            let work = capture.work.as_ref();
            let work = work.map(|work| {
                let Work { point, unit, command, .. } = work;
                (point.case.clone(), point.mode, unit.clone(), command.clone())
            });
            (work, capture.clock.event.clone(), capture.clock.user_only)
        };
        if key(pair[0]) != key(pair[1]) {
            let (one, other) = (pair[0].title.clone(), pair[1].title.clone());
            return Err(GrowthError::Different { one, other });
        }
    }
    if let Some(pair) = points.windows(2).find(|pair| pair[0].tasks == pair[1].tasks) {
        return Err(GrowthError::Twice { tasks: pair[0].tasks });
    }
    let difference = diff(first, last);
    if difference.measure == Measure::Share {
        return Err(GrowthError::NoWork { title: last.title.clone() });
    }
    let costs: Vec<_> = captures.iter().zip(&points).map(|of| costs(of.0, of.1)).collect();
    let callers = callers::Callers::of(first, last, difference.whole);
    let mut rows: Vec<Row> = difference
        .rows
        .into_iter()
        .map(|row| {
            let function = (row.name.clone(), row.kind);
            let cost = |costs: &HashMap<_, _>| costs.get(&function).copied().unwrap_or_default();
            let (own, total) = costs.iter().map(cost).unzip();
            Row {
                own,
                total,
                from: callers.of_growth(&row.name, row.kind),
                name: row.name,
                module: row.module,
                kind: row.kind,
                own_growth: row.own,
                total_growth: row.total,
            }
        })
        .collect();
    rows.sort_by(|a, b| {
        let rank = |row: &Row| (row.own_growth.is_real, row.own_growth.change());
        let (a, b) = (rank(a), rank(b));
        b.0.cmp(&a.0).then_with(|| b.1.total_cmp(&a.1))
    });
    let work = last.work.as_ref();
    let testcase = work.map_or(String::new(), |work| work.point.case.to_string());
    let unit = unit(work).to_owned();
    let user_only = last.clock.user_only;
    Ok(Growth { testcase, unit, measure: difference.measure, user_only, points, rows })
}

/// Self and total cost per iteration of each function.
fn costs(capture: &Capture, point: &Point) -> HashMap<(String, Kind), (f64, f64)> {
    let each = point.cost / capture.samples().max(1) as f64;
    let cost = |part: Part| part.samples as f64 * each;
    let rows = functions(capture).into_iter();
    rows.map(|row| ((row.name, row.kind), (cost(row.own), cost(row.total)))).collect()
}

impl Point {
    fn of(capture: &Capture) -> Option<Point> {
        let work = capture.work.as_ref().filter(|work| work.iterations > 0)?;
        let iterations = work.iterations as f64;
        let seconds = capture.seconds?;
        // The CPUs of a server may be idle or run the load, so their time is not that of waiting tasks.
        let of_tasks = capture.cpu_seconds.filter(|_| work.server.is_none());
        let waiting = of_tasks.map(|cpu| {
            let all = seconds * f64::from(work.point.tasks);
            (all - cpu).max(0.0) * 1e9 / iterations
        });
        let cpu = capture.cpu_seconds.map_or(capture.weight() as f64, |seconds| seconds * 1e9);
        Some(Point {
            tasks: work.point.tasks,
            server: work.server,
            rate: iterations / seconds,
            cost: cpu / iterations,
            waiting,
            samples: capture.samples(),
            disturbed: work.disturbed,
        })
    }

    /// `1 task`, or `1 CPU` of a server.
    fn label(&self) -> String {
        plural(self.tasks as usize, if self.server.is_some() { "CPU" } else { "task" })
    }
}

impl Growth {
    /// The points that other work disturbed.
    pub fn disturbed(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.disturbed)
    }

    /// Whether the first or the last point is disturbed. Then no growth is claimed.
    pub fn is_disturbed(&self) -> bool {
        let mut ends = self.points.first().into_iter().chain(self.points.last());
        ends.any(|point| point.disturbed)
    }

    /// The points at which the load shared the CPUs of a server, or had too few of its own.
    pub fn shared(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| point.server.is_some_and(|server| server.shared))
    }

    /// Functions whose self cost grew beyond the sampling error.
    pub fn grew(&self) -> impl Iterator<Item = &Row> {
        let is_more = |row: &&Row| row.own_growth.is_real && row.own_growth.change() > 0.0;
        self.rows.iter().filter(is_more)
    }
}

#[cfg(test)]
mod tests;
