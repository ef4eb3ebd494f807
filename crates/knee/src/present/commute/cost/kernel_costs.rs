//! What operations cost in one kernel, and on which lines.

use std::collections::{BTreeMap, BTreeSet};

use knee_trace::{
    Contention, Cost, Datum, Figures, Functions, HotLine, Lock, LockKind, LockSections,
    VISIT_DISTANCE,
};

/// The costs of operations in one kernel.
pub(crate) struct KernelCosts {
    /// The kernel in a heading, such as `Linux 6.1.0-50`.
    pub(super) name: String,
    /// The release of Linux, or the file of another kernel.
    pub(super) release: String,
    /// Costs by operation and CPU count.
    pub(super) figures: BTreeMap<(String, u32), OperationCost>,
}

/// What an operation costs on a number of CPUs.
pub(super) struct OperationCost {
    pub(super) figures: Figures,
    pub(super) lines: Vec<Line>,
    pub(super) locks: Vec<LockLine>,
    /// The number of operations with more accesses to shared lines than the plugin lists.
    pub(super) cut: usize,
}

/// The sections in which a lock is held in one way, with the names of the lines that they access.
pub(super) struct LockLine {
    pub(super) name: String,
    /// The kind of the lock and, for a reader-writer lock, how it is held.
    pub(super) kind: String,
    pub(super) sections: LockSections,
    /// The lines that sections access, with the average number of visits per section.
    pub(super) inside: Vec<(String, f64)>,
}

/// A line that moves between CPUs, with the names of the functions that access it.
pub(super) struct Line {
    pub(super) hot: HotLine,
    /// The average number of times that an operation comes to the line.
    pub(super) visits: f64,
    /// The same for the work that an operation leaves for later.
    pub(super) deferred: f64,
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
        let contention = cost.contention(warm_up, VISIT_DISTANCE, functions);
        let names = |code: &[u64]| -> BTreeSet<String> {
            let name =
                |pc: &u64| functions.at(*pc).map_or_else(|| format!("{pc:#x}"), str::to_owned);
            code.iter().map(name).collect()
        };
        let visits: BTreeMap<u64, (f64, f64)> =
            contention.lines.iter().map(|line| (line.line, (line.visits, line.deferred))).collect();
        let lines = figures
            .lines
            .iter()
            .map(|line| {
                let (visits, deferred) = visits.get(&line.line).copied().unwrap_or_default();
                let (writers, readers) = (names(&line.writers), names(&line.readers));
                Line { hot: line.clone(), visits, deferred, writers, readers }
            })
            .collect();
        let key = (cost.experiment.operation.clone(), cost.experiment.cpus);
        let cut = contention.iterations.iter().filter(|operation| operation.cut).count();
        let of = OperationCost { figures, lines, locks: locks(contention), cut };
        self.figures.insert(key, of);
    }

    /// The cost of the operation at this CPU count, if measured.
    pub(super) fn of(&self, operation: &str, cpus: u32) -> Option<&Figures> {
        self.figures.get(&(operation.to_owned(), cpus)).map(|of| &of.figures)
    }
}

/// The locks, the most frequent first. A lock that is held in two ways appears twice.
fn locks(contention: Contention) -> Vec<LockLine> {
    let Contention { lines, locks, .. } = contention;
    let name = |datum: &Option<Datum>, address: u64| match datum {
        Some(datum) => datum.to_string(),
        None => format!("{address:#x}"),
    };
    let line =
        |&(index, visits): &(usize, f64)| (name(&lines[index].datum, lines[index].line), visits);
    let of = |lock: Lock| {
        let kind = lock.kind.as_str();
        let (read, write) = match lock.kind {
            LockKind::RwSpin | LockKind::RwSemaphore => (" (read)", " (write)"),
            LockKind::Spin | LockKind::Mutex => ("", ""),
        };
        let name = name(&lock.datum, lines[lock.line].line + u64::from(lock.offset));
        [(lock.exclusive, write), (lock.shared, read)].map(|(sections, hold)| LockLine {
            name: name.clone(),
            kind: format!("{kind}{hold}"),
            inside: sections.inside.iter().map(line).collect(),
            sections,
        })
    };
    let mut locks: Vec<LockLine> = locks.into_iter().flat_map(of).collect();
    locks.retain(|lock| lock.sections.per_operation > 0.0);
    locks.sort_by(|a, b| b.sections.per_operation.total_cmp(&a.sections.per_operation));
    locks
}
