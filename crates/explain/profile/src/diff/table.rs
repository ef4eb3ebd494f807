//! The table of differences.
//!
//! ```text
//!   before      after     difference            total                 function
//!    12.0 ns    324.0 ns  +312.0 ns ±  8.1 *    +340.2 ns ±  8.3 *    native_queued_spin_lock_slowpath
//! ```
//!
//! A star marks what exceeds the sampling error.

use std::fmt::{self, Display};

use super::{Diff, Difference, FALSE_SHARE, Measure, Row};

/// The table, of at most so many rows; what is left out is said.
pub fn table(diff: &Diff, most: usize) -> impl Display + '_ {
    Table { diff, most }
}

struct Table<'a> {
    diff: &'a Diff,
    most: usize,
}

impl Table<'_> {
    /// Shares as percents.
    fn number(&self, value: f64) -> f64 {
        match self.diff.measure {
            Measure::Share => 100.0 * value,
            _ => value,
        }
    }

    /// With a space in front, except for per cent.
    fn unit(&self) -> &'static str {
        match self.diff.measure {
            Measure::Share => "%",
            Measure::NanosecondsPerIteration => " ns",
            Measure::CyclesPerIteration => " cycles",
        }
    }

    fn change(&self, difference: &Difference) -> String {
        let (change, error) = (self.number(difference.change()), self.number(difference.error));
        let mark = if difference.is_real { " *" } else { "" };
        format!("{change:+.1}{} ± {error:.1}{mark}", self.unit())
    }

    fn row(&self, f: &mut fmt::Formatter<'_>, row: &Row) -> fmt::Result {
        let side = |value| format!("{:.1}{}", self.number(value), self.unit());
        let (before, after) = (side(row.own.before), side(row.own.after));
        let (own, total) = (self.change(&row.own), self.change(&row.total));
        writeln!(f, "{before:>12} {after:>12}  {own:<22}  {total:<22}  {}", row.name)
    }
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Diff { measure, whole, rows } = self.diff;
        if *measure != Measure::Share {
            let (before, after, unit) = (whole.0, whole.1, self.unit());
            writeln!(f, "An iteration: {before:.1}{unit} before, {after:.1}{unit} after.")?;
        }
        let head = ["before", "after", "self", "total"];
        writeln!(f, "{:>12} {:>12}  {:<22}  {:<22}  function", head[0], head[1], head[2], head[3])?;
        for row in rows.iter().take(self.most) {
            self.row(f, row)?;
        }
        let rest = rows.get(self.most..).unwrap_or_default();
        let real = rest.iter().filter(|row| row.own.is_real || row.total.is_real).count();
        if !rest.is_empty() {
            writeln!(f, "({} more, {real} of them beyond the sampling error)", rest.len())?;
        }
        if rows.iter().any(|row| row.own.is_real || row.total.is_real) {
            let chance = 100.0 * FALSE_SHARE;
            writeln!(f, "* beyond the sampling error; of all such marks {chance}% may be chance")?;
        }
        Ok(())
    }
}
