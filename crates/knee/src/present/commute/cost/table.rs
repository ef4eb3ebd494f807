//! A row for each operation and kernel.

use std::collections::BTreeSet;
use std::fmt::Write;

use knee_host::number::plural;
use knee_host::text::{Cell, Column, Screen, Table};
use knee_trace::{Figures, Spread};

use super::kernel_costs::KernelCosts;
use super::view::View;
use crate::present::style::{DIM, UNKNOWN};

pub(super) fn render(kernels: &[KernelCosts], view: &View<'_>, screen: &Screen) -> String {
    let labels = match kernels {
        [_] => vec![String::new()],
        several => labels(several),
    };
    let mut table = Table::new(columns(view));
    table.titles();
    for operation in view.operations {
        for (at, (kernel, label)) in kernels.iter().zip(&labels).enumerate() {
            let (name, base) = match at {
                0 => (*operation, None),
                _ => ("", kernels.first()),
            };
            let mut cells = vec![Cell::from(name), label.as_str().into()];
            cells.extend(row(kernel, base, operation, view));
            table.row(cells);
        }
    }
    table.render(screen) + &screen.wrap(&legend(view), "  ")
}

fn columns(view: &View<'_>) -> Vec<Column> {
    let mut columns = vec![
        Column::left(""),
        Column::left("").gap(1),
        Column::right("instr."),
        Column::left("").gap(1),
        Column::right("min–max").drops(1),
        Column::right("mean").drops(2),
        Column::right("read").drops(3),
        Column::right("written").drops(3),
        Column::right("deferred").drops(2),
    ];
    let more = more(view);
    let counts = more.iter().enumerate();
    columns.extend(
        counts.map(|(nr, cpus)| Column::right(format!("{cpus} CPUs")).in_series(nr, more.len(), 5)),
    );
    if !more.is_empty() {
        columns.extend([Column::left("").gap(1), Column::right("fetched").drops(4)]);
    }
    columns
}

/// The version numbers of the releases, or the names of files, if they distinguish the kernels.
fn labels(kernels: &[KernelCosts]) -> Vec<String> {
    let short = |release: &str| {
        let end = release.find(|c: char| c != '.' && !c.is_ascii_digit());
        match &release[..end.unwrap_or(release.len())] {
            "" | "." | ".." => release.rsplit('/').next().unwrap_or(release).to_owned(),
            number => number.to_owned(),
        }
    };
    let short: Vec<String> = kernels.iter().map(|kernel| short(&kernel.release)).collect();
    let distinct: BTreeSet<&String> = short.iter().collect();
    match distinct.len() == kernels.len() {
        true => short,
        false => kernels.iter().map(|kernel| kernel.release.clone()).collect(),
    }
}

/// The CPU counts greater than one.
fn more<'a>(view: &View<'a>) -> &'a [u32] {
    view.cpus.get(1..).unwrap_or_default()
}

/// The cells of one kernel from the instructions on, compared with the first kernel if there are
/// several.
fn row(
    kernel: &KernelCosts,
    base: Option<&KernelCosts>,
    operation: &str,
    view: &View<'_>,
) -> Vec<Cell> {
    let Some(alone) = kernel.of(operation, 1) else { return vec![UNKNOWN.into()] };
    let ratio = |cpus: u32, of: fn(&Figures) -> f64| {
        let base = base.and_then(|base| base.of(operation, cpus)).map(of);
        match (base, kernel.of(operation, cpus).map(of)) {
            (Some(base), Some(own)) if base > 0.0 => Cell::new(format!("×{:.2}", own / base), DIM),
            _ => Cell::default(),
        }
    };
    let Spread { median, min, max, mean } = alone.instructions;
    let range = match alone.instructions.is_constant() {
        true => String::new(),
        false => format!("{min}–{max}"),
    };
    let mut cells = vec![
        median.to_string().into(),
        ratio(1, |figures| figures.instructions.median as f64),
        range.into(),
        format!("{mean:.0}").into(),
        alone.read.median.to_string().into(),
        alone.written.median.to_string().into(),
        format!("{:.0}", alone.deferred).into(),
    ];
    let shown = |figure: Option<f64>| Cell::from(figure.map_or(UNKNOWN.to_owned(), lines));
    let taken = |cpus| kernel.of(operation, cpus).map(|figures| figures.taken.mean);
    cells.extend(more(view).iter().map(|&cpus| shown(taken(cpus))));
    if let Some(&most) = more(view).last() {
        let fetched = kernel.of(operation, most).map(|figures| figures.fetched.mean);
        cells.extend([ratio(most, |figures| figures.taken.mean), shown(fetched)]);
    }
    cells
}

fn legend(view: &View<'_>) -> String {
    let mut text = format!(
        "\n{DIM}instr.: instructions in the kernel; read, written: distinct 64-byte lines (medians \
         on one CPU)\ndeferred: instructions that the kernel executes later (mean on one CPU)\n"
    );
    if let Some(&most) = more(view).last() {
        let _ = writeln!(
            text,
            "N CPUs: lines that an operation writes and that another CPU held last (mean)\n\
             fetched: lines that an operation only reads and that another CPU modified (mean, \
             with {})",
            plural(most as usize, "CPU")
        );
    }
    text + &format!("{DIM:#}")
}

/// Formats a number of lines per operation: `5`, `5.3`, `0.02`.
fn lines(mean: f64) -> String {
    let decimals = if mean < 0.1 { 2 } else { 1 };
    let text = format!("{mean:.decimals$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::kernel_costs::OperationCost;
    use super::*;

    fn kernel(release: &str, instructions: u64, taken: f64) -> KernelCosts {
        let spread = |median, mean| Spread { median, min: median, max: median, mean };
        let alone = Figures {
            operations: 8,
            disturbed: 0,
            instructions: Spread { max: instructions + 7, ..spread(instructions, 406.0) },
            accesses: spread(150, 150.0),
            read: spread(24, 24.0),
            written: spread(12, 12.0),
            taken: Spread::default(),
            fetched: Spread::default(),
            deferred: 12.3,
            lines: Vec::new(),
        };
        let both = Figures { taken: spread(3, taken), ..alone.clone() };
        let figures = [(("lseek".to_owned(), 1), alone), (("lseek".to_owned(), 2), both)];
        let of = |figures| OperationCost { figures, lines: Vec::new(), locks: Vec::new(), cut: 0 };
        let figures = figures.map(|(key, figures)| (key, of(figures))).into();
        let name = format!("Linux {release}");
        KernelCosts { name, release: release.to_owned(), figures }
    }

    fn plain(kernels: &[KernelCosts]) -> String {
        let view = View { operations: &["lseek", "open"], cpus: &[1, 2], lines: 0 };
        knee_host::text::plain(&render(kernels, &view, &Screen::UNLIMITED)).to_string()
    }

    #[test]
    fn kernels_are_compared_with_the_first_by_number() {
        let text = plain(&[kernel("5.10.0-32-cloud", 356, 3.0), kernel("6.1.0-50", 406, 2.04)]);
        let rows: Vec<&str> = text.lines().take(5).collect();
        assert_eq!(
            rows,
            [
                "              instr.        min–max  mean  read  written  deferred  2 CPUs        fetched",
                "lseek 5.10.0     356        356–363   406    24       12        12       3              0",
                "      6.1.0      406 ×1.14  406–413   406    24       12        12       2 ×0.68        0",
                "open  5.10.0       -",
                "      6.1.0        -",
            ]
        );
    }

    #[test]
    fn kernels_with_the_same_version_number_keep_their_full_names() {
        assert_eq!(
            labels(&[kernel("6.1.0-18", 1, 1.0), kernel("6.1.0-50", 1, 1.0)]),
            ["6.1.0-18", "6.1.0-50"]
        );
        let file = kernel("target/release/knee-kernel", 1, 1.0);
        assert_eq!(labels(&[kernel("6.1.0-18", 1, 1.0), file]), ["6.1.0", "knee-kernel"]);
    }

    #[test]
    fn means_have_no_more_digits_than_they_need() {
        assert_eq!(
            [0.0, 0.004, 0.02, 0.96, 5.0, 14.04].map(lines),
            ["0", "0", "0.02", "1", "5", "14"]
        );
        assert_eq!([0.94, 10.06].map(lines), ["0.9", "10.1"]);
    }
}
