//! The table of differences.
//!
//! ```text
//!   before      after     difference            total                 function
//!    12.0 ns    324.0 ns  +312.0 ns ±  8.1 *    +340.2 ns ±  8.3 *    native_queued_spin_lock_slowpath
//! ```
//!
//! A star marks what exceeds the sampling error.

use knee_host::text::{Cell, Column, Table};

use super::{Diff, Difference, FALSE_SHARE, Measure};

/// The table, of at most so many rows. A line below it counts the others.
pub fn table(diff: &Diff, most: usize) -> Table {
    let Diff { measure, whole: (before, after), rows } = diff;
    let mut table = Table::new(vec![
        Column::right("before").drops(2),
        Column::right("after").drops(2),
        Column::left("self"),
        Column::left("total").drops(1),
        Column::left("function"),
    ]);
    if *measure != Measure::Share {
        let unit = unit(*measure);
        table.text(format!(
            "Cost of an iteration: {before:.1}{unit} before, {after:.1}{unit} after."
        ));
    }
    table.titles();
    for row in rows.iter().take(most) {
        let side = |value| format!("{:.1}{}", number(*measure, value), unit(*measure));
        let cells = [
            side(row.own.before),
            side(row.own.after),
            change(*measure, &row.own),
            change(*measure, &row.total),
            row.name.clone(),
        ];
        table.row(cells.map(Cell::from).to_vec());
    }
    let rest = rows.get(most..).unwrap_or_default();
    let real = rest.iter().filter(|row| row.own.is_real || row.total.is_real).count();
    if !rest.is_empty() {
        let rest = rest.len();
        table.text(format!("({rest} more, {real} of them beyond the sampling error)"));
    }
    if rows.iter().any(|row| row.own.is_real || row.total.is_real) {
        let chance = 100.0 * FALSE_SHARE;
        table.text(format!(
            "* beyond the sampling error; up to {chance}% of these marks may be chance"
        ));
    }
    table
}

/// Shares as percents.
fn number(measure: Measure, value: f64) -> f64 {
    match measure {
        Measure::Share => 100.0 * value,
        _ => value,
    }
}

/// With a space in front, except for per cent.
fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Share => "%",
        Measure::NanosecondsPerIteration => " ns",
        Measure::CyclesPerIteration => " cycles",
    }
}

fn change(measure: Measure, difference: &Difference) -> String {
    let (change, error) = (number(measure, difference.change()), number(measure, difference.error));
    let mark = if difference.is_real { " *" } else { "" };
    format!("{change:+.1}{} ± {error:.1}{mark}", unit(measure))
}
