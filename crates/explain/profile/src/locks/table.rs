//! The table of lock waits.
//!
//! ```text
//! mmap1 threads ×4: 114 waits for kernel locks in 1.00 s, 1.11 s in total, over 190 k iterations
//!
//! lock           waits     total      mean   longest  per iteration  waiting function
//! rwsem:W           55    763 ms   13.9 ms   71.7 ms        4.02 µs  vm_mmap_pgoff
//!                                                                      from do_syscall_64 < …
//! ```

use knee_host::number::{self, si};
use knee_host::text::{Cell, Column, Table};

use super::{LockWaits, Site};
use crate::capture::{one_of, unit};

/// Maximum callers in the line below a site.
const CALLERS: usize = 3;

/// The table, of at most `most` sites. Its last line counts the others.
pub fn table(waits: &LockWaits, most: usize) -> Table {
    let LockWaits { title, seconds, work, sites, .. } = waits;
    let all = waits.all();
    let unit = unit(work.as_ref());
    let per_one = format!("per {}", one_of(unit));
    let mut table = Table::new(vec![
        Column::left("lock"),
        Column::right("waits"),
        Column::right("total"),
        Column::right("mean").drops(1),
        Column::right("longest").drops(2),
        Column::right(&per_one).drops(3),
        Column::left("waiting function"),
    ]);
    let (count, total) = (all.acquisitions, time(all.total_ns as f64));
    let of = work.as_ref().map(|work| format!(", over {} {unit}", si(work.iterations as f64)));
    table.text(format!(
        "{title}: {count} waits for kernel locks in {seconds:.2} s, {total} in total{}",
        of.unwrap_or_default()
    ));
    if sites.is_empty() {
        table.text("No thread had to wait for a kernel lock.");
        return table;
    }
    table.text("");
    let each = if waits.ns_per_iteration(&all).is_some() { &per_one[..] } else { "" };
    table.titles_but(EACH, each);
    for site in sites.iter().take(most) {
        table.row(row(waits, site));
        let callers = site.stacks.first().map_or(&[][..], |stack| stack.callers());
        if !callers.is_empty() {
            let callers = &callers[..callers.len().min(CALLERS)];
            let mut cells = vec![Cell::default(); EACH + 1];
            cells.push(format!("  from {}", callers.join(" < ")).into());
            table.row(cells);
        }
    }
    let rest = sites.get(most..).unwrap_or_default();
    if !rest.is_empty() {
        let total: u64 = rest.iter().map(|site| site.waits.total_ns).sum();
        table.text(format!("({} more, {} in total)", rest.len(), time(total as f64)));
    }
    table
}

/// Index of the column with the waiting time per iteration.
const EACH: usize = 5;

fn row(all: &LockWaits, site: &Site) -> Vec<Cell> {
    let Site { lock, function, waits, .. } = site;
    let still = match waits.still_waiting {
        0 => String::new(),
        n => format!(" ({n} still waiting)"),
    };
    let cells = [
        lock.to_string(),
        waits.acquisitions.to_string(),
        time(waits.total_ns as f64),
        time(waits.mean_ns()),
        time(waits.longest_ns as f64),
        all.ns_per_iteration(waits).map(time).unwrap_or_default(),
        format!("{function}{still}"),
    ];
    cells.map(Cell::from).to_vec()
}

fn time(nanoseconds: f64) -> String {
    number::time(nanoseconds / 1e9)
}
