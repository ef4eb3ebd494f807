//! The table of differences.
//!
//! ```text
//!   before      after     difference            total                 function
//!    12.0 ns    324.0 ns  +312.0 ns ±  8.1 *    +340.2 ns ±  8.3 *    native_queued_spin_lock_slowpath
//! ```
//!
//! A star marks differences beyond the sampling error.

use knee_host::text::{Cell, Column, Table};

use crate::capture::{one_of, with_article};

use super::{Diff, Difference, FALSE_SHARE, Measure};

/// The table, of at most `most` rows. A line below it counts the others.
pub fn table(diff: &Diff, most: usize) -> Table {
    let Diff { measure, unit: counted, whole: (before, after), disturbed, rows } = diff;
    let (factor, unit) = measure.unit();
    let mut table = Table::new(vec![
        Column::right("before").drops(2),
        Column::right("after").drops(2),
        Column::left("self"),
        Column::left("total").drops(1),
        Column::left("function"),
    ]);
    if *measure != Measure::Share {
        table.text(format!(
            "Cost of {}: {before:.1}{unit} before, {after:.1}{unit} after.",
            with_article(&one_of(counted))
        ));
    }
    if let Some(captures) = disturbed {
        table.text(format!(
            "Inconclusive: other work disturbed {captures}; reduce other load and sample again."
        ));
        return table;
    }
    table.titles();
    let side = |value| format!("{:.1}{unit}", factor * value);
    let change = |difference: &Difference| {
        let (change, error) = (factor * difference.change(), factor * difference.error);
        let mark = if difference.is_real { " *" } else { "" };
        format!("{change:+.1}{unit} ± {error:.1}{mark}")
    };
    for row in rows.iter().take(most) {
        let cells = [
            side(row.own.before),
            side(row.own.after),
            change(&row.own),
            change(&row.total),
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
            "* difference beyond the sampling error; up to {chance}% of these marks may be due to \
             chance"
        ));
    }
    table
}
