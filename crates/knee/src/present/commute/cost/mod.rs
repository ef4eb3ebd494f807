//! What operations cost, kernels side by side.

mod hot;
mod table;

use std::collections::{BTreeMap, BTreeSet};

use knee_host::number::plural;
use knee_host::text::Screen;
use knee_trace::findings::plugin_digest;
use knee_trace::{Cost, Figures, Functions};
use serde_json::{Value, json as object};

const BOLD: anstyle::Style = anstyle::Style::new().bold();
/// Version of the document.
const SCHEMA: u32 = 1;

/// Lines of an operation that JSON has: memory that comes from one CPU's cache and goes to another's
/// has thousands, none of them hot.
const MOST_LINES: usize = 100;

/// The costs of operations in one kernel.
pub(crate) struct KernelCosts {
    release: String,
    /// By operation and number of CPUs.
    figures: BTreeMap<(String, u32), (Figures, Vec<Line>)>,
}

/// A line that moves, with the names of the functions that touch it.
struct Line {
    address: u64,
    /// What the kernel has there.
    data: Option<String>,
    virtuals: Vec<u64>,
    taken: f64,
    fetched: f64,
    writers: BTreeSet<String>,
    readers: BTreeSet<String>,
}

impl KernelCosts {
    pub(crate) fn new(release: &str) -> KernelCosts {
        KernelCosts { release: release.to_owned(), figures: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, cost: &Cost, warm_up: u32, functions: &Functions) {
        let figures = cost.figures(warm_up);
        let names = |code: &[u64]| -> BTreeSet<String> {
            let name =
                |pc: &u64| functions.at(*pc).map_or_else(|| format!("{pc:#x}"), str::to_owned);
            code.iter().map(name).collect()
        };
        let lines = figures
            .lines
            .iter()
            .map(|line| Line {
                address: line.line,
                data: line.datum.as_ref().map(ToString::to_string),
                virtuals: line.virtuals.clone(),
                taken: line.taken,
                fetched: line.fetched,
                writers: names(&line.writers),
                readers: names(&line.readers),
            })
            .collect();
        let key = (cost.experiment.operation.clone(), cost.experiment.cpus);
        self.figures.insert(key, (figures, lines));
    }

    /// What the operation costs on so many CPUs, if that was measured.
    fn of(&self, operation: &str, cpus: u32) -> Option<&Figures> {
        self.figures.get(&(operation.to_owned(), cpus)).map(|(figures, _)| figures)
    }
}

/// For programs: of each kernel a list of `costs`, one for each `operation` and number of `cpus`.
/// `figures` are those of [`Figures`], each with its median, least, greatest and mean. `lines` are the
/// hottest ones, by how often they are `taken` and `fetched` in an operation, with the `data` that the
/// kernel has there and the functions that write and read them; `more` are not listed. `qemu` is the
/// version of QEMU, and `plugin` tells plugins of knee apart: figures can differ with either.
pub(crate) fn json(kernels: &[KernelCosts], mode: &str, rounds: u32, qemu: &str) -> String {
    let hexadecimal = |address: &u64| format!("{address:#x}");
    let line = |line: &Line| {
        object!({
            "line": hexadecimal(&line.address),
            "data": line.data,
            "virtual": line.virtuals.iter().map(hexadecimal).collect::<Vec<_>>(),
            "taken": line.taken,
            "fetched": line.fetched,
            "writers": line.writers,
            "readers": line.readers,
        })
    };
    let cost = |((operation, cpus), (figures, lines)): (&(String, u32), &(Figures, Vec<Line>))| {
        object!({
            "operation": operation,
            "cpus": cpus,
            "figures": figures,
            "lines": lines.iter().take(MOST_LINES).map(line).collect::<Vec<_>>(),
            "more": lines.len().saturating_sub(MOST_LINES),
        })
    };
    let kernel = |kernel: &KernelCosts| {
        let costs: Vec<Value> = kernel.figures.iter().map(cost).collect();
        object!({ "release": kernel.release, "costs": costs })
    };
    let kernels: Vec<Value> = kernels.iter().map(kernel).collect();
    let document = object!({
        "schema": SCHEMA,
        "mode": mode,
        "rounds": rounds,
        "qemu": qemu,
        "plugin": plugin_digest(),
        "kernels": kernels,
    });
    format!("{document:#}\n")
}

/// What the text shows.
pub(crate) struct View<'a> {
    /// In the order of rows.
    pub(crate) operations: &'a [&'a str],
    /// Numbers of CPUs, ascending; the first is 1.
    pub(crate) cpus: &'a [u32],
    /// Hottest lines of each operation that are named.
    pub(crate) lines: usize,
}

/// For people.
pub(crate) fn text(
    kernels: &[KernelCosts],
    view: &View<'_>,
    mode: &str,
    rounds: u32,
    screen: &Screen,
) -> String {
    let rounds = plural(rounds as usize, "round");
    let names: Vec<&str> = kernels.iter().map(|kernel| kernel.release.as_str()).collect();
    let names = names.join(", ");
    let mut text = format!("{BOLD}Linux {names}{BOLD:#}\n{mode}, {rounds}\n\n");
    text += &table::render(kernels, view, screen);
    for operation in view.operations {
        for kernel in kernels {
            text += &hot::render(kernel, operation, view);
        }
    }
    text
}
