//! The table of what grows.
//!
//! ```text
//! mmap1                            1 task    2 tasks
//! iterations per second             329 k      195 k
//! cost of an iteration            3.02 µs    8.71 µs
//!   and without a CPU                0 ns    1.51 µs
//!
//! growth of itself                                    function
//! +1.40 µs ± 61.0 ns                 0 ns    1.40 µs  native_queued_spin_lock_slowpath
//!                               from rwsem_down_write_slowpath < down_write_killable
//! ```

use std::fmt::{self, Display};

use knee_host::number::{si, three_digits, time};

use super::{Growth, Row};
use crate::diff::Measure;

/// The table, of at most so many functions; what is left out is said.
pub fn table(growth: &Growth, most: usize) -> impl Display + '_ {
    Table { growth, most }
}

struct Table<'a> {
    growth: &'a Growth,
    most: usize,
}

/// Width of a column of costs.
const COLUMN: usize = 11;
/// Width of what stands left of the columns.
const HEAD: usize = 28;

impl Table<'_> {
    fn cost(&self, cost: f64) -> String {
        match self.growth.measure {
            Measure::CyclesPerIteration => format!("{} cyc", three_digits(cost)),
            _ => time(cost / 1e9),
        }
    }

    fn line(&self, head: &str, cells: impl Iterator<Item = String>) -> String {
        let cells: String = cells.map(|cell| format!("{cell:>COLUMN$}")).collect();
        format!("{head:<HEAD$}{cells}")
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let costs = row.own.iter().map(|cost| self.cost(*cost));
        let change = row.own_growth.change();
        let sign = if change < 0.0 { '-' } else { '+' };
        let growth =
            format!("{sign}{} ± {}", self.cost(change.abs()), self.cost(row.own_growth.error));
        writeln!(f, "{}  {}", self.line(&growth, costs), row.name)?;
        if !row.from.is_empty() {
            writeln!(f, "{:>HEAD$}  from {}", "", row.from.join(" < "))?;
        }
        Ok(())
    }
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Growth { testcase, points, rows, .. } = self.growth;
        let tasks = points.iter().map(|point| match point.tasks {
            1 => "1 task".to_owned(),
            n => format!("{n} tasks"),
        });
        writeln!(f, "{}", self.line(testcase, tasks))?;
        let rates = points.iter().map(|point| si(point.rate));
        writeln!(f, "{}", self.line("iterations per second", rates))?;
        let costs = points.iter().map(|point| self.cost(point.cost));
        writeln!(f, "{}", self.line("cost of an iteration", costs))?;
        if points.iter().any(|point| point.waiting.is_some()) {
            let waits =
                points.iter().map(|point| point.waiting.map_or("-".into(), |ns| time(ns / 1e9)));
            writeln!(f, "{}", self.line("  and without a CPU", waits))?;
        }
        let grew: Vec<&Row> = self.growth.grew().collect();
        writeln!(f)?;
        if grew.is_empty() {
            return writeln!(
                f,
                "No function grew beyond the sampling error: sample longer to see smaller growth."
            );
        }
        let columns = COLUMN * points.len();
        writeln!(f, "{:<HEAD$}{:columns$}  function", "growth of itself", "")?;
        for row in grew.iter().take(self.most) {
            self.row(f, row)?;
        }
        let rest = grew.len().saturating_sub(self.most);
        let within = rows.len() - grew.len();
        match rest {
            0 => writeln!(f, "({within} others did not grow, or within the sampling error)"),
            _ => writeln!(
                f,
                "({rest} more grew; {within} others did not, or within the sampling error)"
            ),
        }
    }
}
