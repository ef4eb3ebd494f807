//! Lines that move between CPUs, and the functions that access them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use knee_host::number::plural;
use knee_trace::LockSections;

use super::kernel_costs::{KernelCosts, Line, LockLine, OperationCost};
use super::view::View;
use crate::present::style::BOLD;

/// Maximum functions to print for a line.
const MOST_NAMES: usize = 4;
/// Width of the column of names; longer names move the next column to the right.
const WIDEST_NAME: usize = 48;
/// Maximum data to print for the lines that are not listed.
const MOST_DATA: usize = 3;
/// A line that moves in fewer operations than this is not hot.
const HOT: f64 = 0.05;

/// The hottest lines of an operation, at the largest CPU count.
pub(super) fn render(kernel: &KernelCosts, operation: &str, view: &View<'_>) -> String {
    let Some(&cpus) = view.cpus.last() else { return String::new() };
    let Some(of) = kernel.figures.get(&(operation.to_owned(), cpus)) else {
        return String::new();
    };
    let all = &of.lines;
    let hot = all.iter().take_while(|line| line.hot.moves() >= HOT).take(view.lines).count();
    if view.lines == 0 || all.iter().map(|line| line.hot.moves()).sum::<f64>() < HOT {
        return warning(of);
    }
    let (hot, others) = all.split_at(hot);
    let mut text = format!(
        "\n{BOLD}{operation}{BOLD:#}, {}, {cpus} CPUs: lines taken (to write) \
         and fetched (only to read), and visits to them, per operation\n",
        kernel.name
    );
    let width = hot.iter().map(|line| line.name().len()).max().unwrap_or(0).min(WIDEST_NAME);
    for line in hot {
        let who = match (few(&line.writers), few(&line.readers)) {
            (writers, readers) if line.readers.is_subset(&line.writers) || readers.is_empty() => {
                format!("written by {writers}")
            }
            (writers, readers) if writers.is_empty() => format!("read by {readers}"),
            (writers, readers) => format!("written by {writers}; read by {readers}"),
        };
        let (taken, fetched, visits) = (line.hot.taken, line.hot.fetched, line.visits);
        let name = line.name();
        let _ = writeln!(text, "  {taken:>6.2} {fetched:>6.2} {visits:>6.2}  {name:width$}  {who}");
    }
    let taken: f64 = others.iter().map(|line| line.hot.taken).sum();
    let fetched: f64 = others.iter().map(|line| line.hot.fetched).sum();
    if taken + fetched >= HOT {
        let visits: f64 = others.iter().map(|line| line.visits).sum();
        let n = plural(others.len(), "other line");
        let data = most(others, |line| [line.name()].into(), MOST_DATA).join("; ");
        let functions = |line: &Line| line.writers.union(&line.readers).cloned().collect();
        let functions = most(others, functions, MOST_NAMES).join(", ");
        let figures = format!("  {taken:>6.2} {fetched:>6.2} {visits:>6.2}");
        let _ = writeln!(text, "{figures}  {n}: {data}; most in {functions}");
    }
    text + &locks(&of.locks, view.lines) + &deferred(of, view.lines) + &warning(of)
}

/// The locks of the operation that are taken most often.
fn locks(all: &[LockLine], at_most: usize) -> String {
    let frequent = all.iter().take_while(|lock| lock.sections.per_operation >= HOT);
    let line = |LockLine { name, kind, sections, .. }: &LockLine| {
        let LockSections { per_operation, instructions, lines, .. } = sections;
        let instructions = plural(instructions.median as usize, "instruction");
        let lines = plural(lines.median as usize, "line");
        format!(
            "  {name}: {kind}, {instructions}, {lines} inside, {per_operation:.2} per operation\n"
        )
    };
    frequent.take(at_most).map(line).collect()
}

/// The work that an operation leaves for later, and the lines that this work visits most often.
fn deferred(of: &OperationCost, at_most: usize) -> String {
    let mut lines: Vec<&Line> = of.lines.iter().filter(|line| line.deferred >= HOT).collect();
    lines.sort_by(|a, b| b.deferred.total_cmp(&a.deferred));
    let visit = |line: &&Line| format!("{} {:.2}", line.name(), line.deferred);
    let visits: Vec<String> = lines.into_iter().take(at_most).map(|line| visit(&line)).collect();
    let instructions = match of.figures.deferred.round() {
        0.0 => return String::new(),
        instructions => plural(instructions as usize, "instruction"),
    };
    match visits.is_empty() {
        true => format!("  deferred: {instructions}\n"),
        false => format!("  deferred: {instructions}; visits: {}\n", visits.join(", ")),
    }
}

fn warning(of: &OperationCost) -> String {
    match of.cut {
        0 => String::new(),
        cut => format!(
            "  {} made more accesses to shared lines than knee records, so some visits are missing\n",
            plural(cut, "operation")
        ),
    }
}

impl Line {
    /// The best available name.
    fn name(&self) -> String {
        match (&self.hot.datum, self.hot.virtuals.first()) {
            (Some(datum), _) => datum.to_string(),
            (None, address) => format!("{:#x}", address.unwrap_or(&self.hot.line)),
        }
    }
}

/// The first few names, and an ellipsis if there are more.
fn few(names: &BTreeSet<String>) -> String {
    let mut text = names.iter().take(MOST_NAMES).cloned().collect::<Vec<_>>().join(", ");
    if names.len() > MOST_NAMES {
        text += ", …";
    }
    text
}

/// Names of moving lines, the most frequent first.
fn most(lines: &[Line], names: impl Fn(&Line) -> BTreeSet<String>, at_most: usize) -> Vec<String> {
    let mut moves: BTreeMap<String, f64> = BTreeMap::new();
    for line in lines {
        for name in names(line) {
            *moves.entry(name).or_default() += line.hot.moves();
        }
    }
    let mut moves: Vec<(String, f64)> = moves.into_iter().collect();
    moves.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    moves.into_iter().take(at_most).map(|(name, _)| name).collect()
}
