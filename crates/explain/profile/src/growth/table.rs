//! The table of growing functions.
//!
//! ```text
//! mmap1                            1 task    2 tasks
//! iterations per second             329 k      195 k
//! cost of an iteration            3.02 µs    8.71 µs
//!   and off-CPU time                 0 ns    1.51 µs
//!
//! self growth                                         function
//! +1.40 µs ± 61.0 ns                 0 ns    1.40 µs  native_queued_spin_lock_slowpath
//!                               from rwsem_down_write_slowpath < down_write_killable
//! ```

use knee_host::number::{percent, si, three_digits, time};
use knee_host::text::{Cell, Column, Table, and_list};

use super::{Growth, Point, Row};
use crate::capture::{one_of, with_article};
use crate::diff::Measure;

/// The name of a function of which not even the module is known.
const UNKNOWN_CALLER: &str = "[unknown]";

/// The table, of at most `most` functions. Its last line counts the others.
pub fn table(growth: &Growth, most: usize) -> Table {
    let Growth { testcase, points, rows, .. } = growth;
    let counts = points.iter().enumerate();
    let counts =
        counts.map(|(nr, point)| Column::right(point.label()).in_series(nr, points.len(), 1));
    let columns = [Column::left(testcase)].into_iter().chain(counts);
    let mut table = Table::new(columns.chain([Column::left("")]).collect());
    table.titles();
    let mut add = |head: &str, cells: Vec<String>| {
        table.row([head.to_owned()].into_iter().chain(cells).map(Cell::from).collect());
    };
    let mark = |point: &Point| if point.disturbed { " !!" } else { "" };
    let rates = points.iter().map(|point| format!("{}{}", si(point.rate), mark(point)));
    add(&format!("{} per second", growth.unit), rates.collect());
    add(
        &format!("cost of {}", with_article(&one_of(&growth.unit))),
        points.iter().map(|point| cost(growth, point.cost)).collect(),
    );
    if points.iter().any(|point| point.waiting.is_some()) {
        let waiting = |ns: Option<f64>| ns.map_or("-".into(), |ns| time(ns / 1e9));
        let waits = points.iter().map(|point| waiting(point.waiting));
        add("  and off-CPU time", waits.collect());
    }
    if points.iter().any(|point| point.server.is_some()) {
        let busy = |point: &Point| point.server.map_or("-".into(), |server| percent(server.busy));
        add("server busy", points.iter().map(busy).collect());
    }
    let shared: Vec<String> = growth.shared().map(Point::label).collect();
    if !shared.is_empty() {
        table.text(format!(
            "With {}, the load shares the server's CPUs or has too few of its own, so the server \
             and the load slow each other down.",
            and_list(&shared)
        ));
    }
    if growth.user_only {
        table.text("Sampled in user mode only: the kernel's functions are missing.");
    }
    table.text("");
    let disturbed: Vec<String> = growth.disturbed().map(Point::label).collect();
    if growth.is_disturbed() {
        table.text(format!(
            "Inconclusive: other work disturbed {} (marked !!); reduce other load, or sample again with \
             --wait-quiet or more --patience.",
            and_list(&disturbed)
        ));
        return table;
    }
    let grew: Vec<&Row> = growth.grew().collect();
    if grew.is_empty() {
        table.text(
            "No function grew beyond the sampling error; sample longer to detect smaller growth.",
        );
        return table;
    }
    let blank = || vec![Cell::default(); points.len()];
    let framed = |first: String, cells: Vec<Cell>, last: String| {
        [Cell::from(first)].into_iter().chain(cells).chain([Cell::from(last)]).collect()
    };
    table.row(framed("self growth".into(), blank(), "function".into()));
    for row in grew.iter().take(most) {
        let costs = row.own.iter().map(|own| Cell::from(cost(growth, *own))).collect();
        table.row(framed(change(growth, row), costs, row.name.clone()));
        if let Some(callers) = callers(&row.from) {
            let from = format!("  from {callers}");
            table.row(framed(String::new(), blank(), from));
        }
    }
    let rest = grew.len().saturating_sub(most);
    let within = rows.len() - grew.len();
    table.text(match rest {
        0 => format!("({within} others grew by less than the sampling error, or not at all)"),
        _ => format!("({rest} more grew; {within} others grew by less than the sampling error, or not at all)"),
    });
    table
}

/// `rwsem_down_write_slowpath < down_write_killable`: the callers, with one name for several unknown ones of a module in a row.
/// `None` if all are unknown.
fn callers(from: &[String]) -> Option<String> {
    let mut names: Vec<&str> = from.iter().map(String::as_str).collect();
    names.dedup_by(|a, b| a == b && a.starts_with('['));
    names.iter().any(|name| *name != UNKNOWN_CALLER).then(|| names.join(" < "))
}

fn cost(growth: &Growth, cost: f64) -> String {
    match growth.measure {
        Measure::CyclesPerIteration => format!("{} cyc", three_digits(cost)),
        _ => time(cost / 1e9),
    }
}

/// `+1.40 µs ± 61.0 ns`
fn change(growth: &Growth, row: &Row) -> String {
    let change = row.own_growth.change();
    let sign = if change < 0.0 { '-' } else { '+' };
    format!("{sign}{} ± {}", cost(growth, change.abs()), cost(growth, row.own_growth.error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_callers_are_named_once_and_not_alone() {
        let shown = |names: &[&str]| {
            callers(&names.iter().map(|&name| name.to_owned()).collect::<Vec<String>>())
        };
        assert_eq!(shown(&["a", "a", "b"]).unwrap(), "a < a < b");
        assert_eq!(shown(&["[unknown]", "[unknown]", "main"]).unwrap(), "[unknown] < main");
        assert_eq!(shown(&["[libc.so.6]", "[libc.so.6]"]).unwrap(), "[libc.so.6]");
        assert_eq!(shown(&["[unknown]", "[unknown]"]), None);
        assert_eq!(shown(&[]), None);
    }
}
