//! The table of lock waits.
//!
//! ```text
//! mmap1 threads ×4: 114 waits for locks of the kernel in 1.00 s, 1.11 s in all, of 190 k iterations
//!
//! lock           waits     total      mean   longest  per iteration  wanted by
//! rwsem:W           55    763 ms   13.9 ms   71.7 ms        4.02 µs  vm_mmap_pgoff
//!                                                                      from do_syscall_64 < …
//! ```

use std::fmt::{self, Display};

use knee_host::number::{self, si};

use super::{LockWaits, Site};

/// The table, of at most so many sites; what is left out is said.
pub fn table(waits: &LockWaits, most: usize) -> impl Display + '_ {
    Table { waits, most }
}

/// Callers that are named.
const CALLERS: usize = 3;
/// Width of the columns that are always there.
const WIDTH: usize = 50;
/// Width of the column of what an iteration has.
const EACH: usize = 15;

struct Table<'a> {
    waits: &'a LockWaits,
    most: usize,
}

impl Table<'_> {
    fn row(&self, f: &mut fmt::Formatter<'_>, site: &Site) -> fmt::Result {
        let Site { lock, function, waits, stacks } = site;
        let (total, mean, longest) =
            (time(waits.total_ns as f64), time(waits.mean_ns()), time(waits.longest_ns as f64));
        write!(f, "{lock:<11}{:>9}{total:>10}{mean:>10}{longest:>10}", waits.acquisitions)?;
        let each = self.waits.ns_per_iteration(waits);
        if let Some(each) = each {
            write!(f, "{:>EACH$}", time(each))?;
        }
        write!(f, "  {function}")?;
        if waits.still_waiting > 0 {
            write!(f, " ({} still waiting)", waits.still_waiting)?;
        }
        writeln!(f)?;
        let callers = stacks.first().map_or(&[][..], |stack| stack.callers());
        if !callers.is_empty() {
            let callers = &callers[..callers.len().min(CALLERS)];
            let columns = if each.is_some() { WIDTH + EACH } else { WIDTH };
            writeln!(f, "{:columns$}    from {}", "", callers.join(" < "))?;
        }
        Ok(())
    }
}

impl Display for Table<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LockWaits { title, seconds, work, sites, .. } = self.waits;
        let all = self.waits.all();
        let (count, total) = (all.acquisitions, time(all.total_ns as f64));
        write!(
            f,
            "{title}: {count} waits for locks of the kernel in {seconds:.2} s, {total} in all"
        )?;
        if let Some(work) = work {
            write!(f, ", of {} iterations", si(work.iterations as f64))?;
        }
        writeln!(f)?;
        if sites.is_empty() {
            return writeln!(f, "No thread had to wait: each lock was free when it was wanted.");
        }
        let head = ["waits", "total", "mean", "longest"];
        write!(f, "\n{:<11}{:>9}", "lock", head[0])?;
        head[1..].iter().try_for_each(|head| write!(f, "{head:>10}"))?;
        if self.waits.ns_per_iteration(&all).is_some() {
            write!(f, "{:>EACH$}", "per iteration")?;
        }
        writeln!(f, "  wanted by")?;
        for site in sites.iter().take(self.most) {
            self.row(f, site)?;
        }
        let rest = sites.get(self.most..).unwrap_or_default();
        if !rest.is_empty() {
            let total: u64 = rest.iter().map(|site| site.waits.total_ns).sum();
            writeln!(f, "({} more, {} in all)", rest.len(), time(total as f64))?;
        }
        Ok(())
    }
}

fn time(nanoseconds: f64) -> String {
    number::time(nanoseconds / 1e9)
}
