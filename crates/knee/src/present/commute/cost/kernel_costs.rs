//! What operations cost in one kernel, and on which lines.

use std::collections::{BTreeMap, BTreeSet};

use knee_trace::{Cost, Figures, Functions, HotLine};

/// The costs of operations in one kernel.
pub(crate) struct KernelCosts {
    /// The kernel in a heading, such as `Linux 6.1.0-50`.
    pub(super) name: String,
    /// The release of Linux, or the file of another kernel.
    pub(super) release: String,
    /// Costs by operation and CPU count.
    pub(super) figures: BTreeMap<(String, u32), (Figures, Vec<Line>)>,
}

/// A line that moves between CPUs, with the names of the functions that access it.
pub(super) struct Line {
    pub(super) hot: HotLine,
    pub(super) writers: BTreeSet<String>,
    pub(super) readers: BTreeSet<String>,
}

impl KernelCosts {
    pub(crate) fn new(name: &str, release: &str) -> KernelCosts {
        let (name, release) = (name.to_owned(), release.to_owned());
        KernelCosts { name, release, figures: BTreeMap::new() }
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
                writers: names(&line.writers),
                readers: names(&line.readers),
                hot: line.clone(),
            })
            .collect();
        let key = (cost.experiment.operation.clone(), cost.experiment.cpus);
        self.figures.insert(key, (figures, lines));
    }

    /// The cost of the operation at this CPU count, if measured.
    pub(super) fn of(&self, operation: &str, cpus: u32) -> Option<&Figures> {
        self.figures.get(&(operation.to_owned(), cpus)).map(|(figures, _)| figures)
    }
}
