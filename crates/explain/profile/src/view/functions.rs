//! The table of functions.
//!
//! ```text
//!  self                      total                     function
//!  41.2% ± 3.0%    412     50.1% ± 3.1%    501     native_queued_spin_lock_slowpath [kernel]
//! ```
//!
//! *Self* counts the samples in the function itself. *Total* counts the samples with the function anywhere in
//! the stack; a recursive function counts once per sample.
//!
//! **Sampling error.** A share of n independent samples has a binomial distribution. The error is half the
//! width of its 95% interval after Wilson ("Probable inference, the law of
//! succession, and statistical inference", Journal of the American Statistical Association 22, 1927),
//! which is valid for small counts as well. It covers chance, but not the bias of a clock that is in step with
//! the program.

use knee_host::text::{Column, Table};

use super::first_of_name;
use crate::capture::{Capture, Kind};

/// The quantile of the normal distribution for an interval of 95%.
pub(crate) const Z95: f64 = 1.959_963_984_540_054;

/// A function with its part of a capture, or with its difference between two captures.
#[derive(Debug, Clone, PartialEq)]
pub struct Row<T> {
    /// Its name.
    pub name: String,
    /// The file of the first function of that name, from the later capture if it has one.
    pub module: Option<String>,
    /// Where it is.
    pub kind: Kind,
    /// Its own part.
    pub own: T,
    /// Its part including callees.
    pub total: T,
}

/// A part of all samples.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Part {
    /// Samples.
    pub samples: u64,
    /// Share of all samples, 0 to 1.
    pub share: f64,
    /// Half the width of the share's 95% interval after Wilson.
    pub error: f64,
}

/// All functions, by self samples, then total samples, the most first, then by name.
pub fn functions(capture: &Capture) -> Vec<Row<Part>> {
    let first = first_of_name(capture);
    let mut own = vec![0_u64; capture.functions.len()];
    let mut total = own.clone();
    // The index of the count that last contained a function, so that it counts once per sample.
    let mut seen = vec![usize::MAX; capture.functions.len()];
    for (place, count) in capture.counts.iter().enumerate() {
        for (depth, function) in capture.functions_of(count.stack).enumerate() {
            let function = first[function as usize] as usize;
            if depth == 0 {
                own[function] += count.samples;
            }
            if seen[function] != place {
                seen[function] = place;
                total[function] += count.samples;
            }
        }
    }
    let all = capture.samples();
    let mut rows: Vec<Row<Part>> = (capture.functions.iter().enumerate())
        .filter(|(place, _)| total[*place] > 0)
        .map(|(place, function)| Row {
            name: function.name.clone(),
            module: function.module.clone(),
            kind: function.kind,
            own: Part::of(own[place], all),
            total: Part::of(total[place], all),
        })
        .collect();
    rows.sort_by(|a, b| {
        (b.own.samples.cmp(&a.own.samples))
            .then_with(|| b.total.samples.cmp(&a.total.samples))
            .then_with(|| (&a.name, a.kind).cmp(&(&b.name, b.kind)))
    });
    rows
}

impl Part {
    fn of(samples: u64, all: u64) -> Part {
        let n = all.max(1) as f64;
        let p = samples as f64 / n;
        let z = Z95;
        let half = z / (1.0 + z * z / n) * (p * (1.0 - p) / n + z * z / (4.0 * n * n)).sqrt();
        Part { samples, share: p, error: half }
    }
}

/// The table, of at most `most` rows. Its last line counts the others.
pub fn table(rows: &[Row<Part>], most: usize) -> Table {
    let (shown, rest) = rows.split_at(rows.len().min(most));
    let mut table = Table::new(vec![
        Column::left("self"),
        Column::right("").drops(1),
        Column::left("total"),
        Column::right("").drops(1),
        Column::left("function"),
    ]);
    table.titles();
    for row in shown {
        let share =
            |part: &Part| format!("{:5.1}% ± {:.1}%", 100.0 * part.share, 100.0 * part.error);
        let module = row.module.as_deref().map(short);
        let module = module.filter(|module| format!("[{module}]") != row.name);
        let module = module.map(|module| format!("  {module}")).unwrap_or_default();
        table.row(vec![
            share(&row.own).into(),
            row.own.samples.to_string().into(),
            share(&row.total).into(),
            row.total.samples.to_string().into(),
            format!("{}{module}", row.name).into(),
        ]);
    }
    if !rest.is_empty() {
        let own: f64 = rest.iter().map(|row| row.own.share).sum();
        let more = rest.len();
        table.text(format!("({more} more, with {:.1}% self time in total)", 100.0 * own));
    }
    table
}

/// The last part of a path. The name of a file must not look like that of code without a file, such as `[kernel]`.
fn short(module: &str) -> &str {
    let name = module.rsplit('/').next().unwrap_or(module);
    if name.starts_with('[') { module } else { name }
}

#[cfg(test)]
mod tests;
