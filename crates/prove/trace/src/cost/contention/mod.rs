//! What operations do on lines that CPUs share: visits and lock sections, in order.
//!
//! A *visit* is a series of accesses of one operation to one line, each fewer than a given number of
//! instructions after the previous one. If CPUs contend for the line, a visit needs one transfer of the line:
//! the CPU keeps the line about as long as the next transfer takes. Later, another CPU has taken the line,
//! and the next access is another visit.
//!
//! A *lock section* begins with the atomic instruction that takes a lock and ends with the instruction that
//! releases it. Accesses in between to the line of the lock belong to the section, as far as they are not
//! visits of their own. A lock that is not released within the operation counts as a plain line.
//!
//! The operations run one after the other, so the trace has the paths without contention: no slow path of a
//! lock, no retry of a compare and exchange. What the paths with contention cost must be added by a model.

mod event;
mod inside;
mod lock;
mod lock_functions;
mod sections;
#[cfg(test)]
mod tests;
mod visits;

use std::collections::{BTreeMap, BTreeSet};

pub use event::{ContentionEvent, EventKind, Iteration, Visit};
pub use lock::{Hold, Lock, LockKind, LockSections};

use super::Cost;
use crate::datum::Datum;
use crate::functions::Functions;
use crate::record::{AccessKind, SharedAccess, TestResult};
use inside::{ByHold, guards};
use lock::LockId;
use sections::{Section, sections};
use visits::{count, events};

/// The default for the number of instructions from one access to the next that separates two visits. A CPU
/// executes about this many instructions while a line moves to it: 60 ns at 2.5 GHz and one instruction per
/// cycle.
pub const VISIT_DISTANCE: u64 = 150;

/// What the counted operations of an experiment do on lines that CPUs share.
#[derive(Debug, Clone, PartialEq)]
pub struct Contention {
    /// The operations, round by round, and in each round in the order of the CPUs.
    pub iterations: Vec<Iteration>,
    /// The lines that at least two CPUs access and at least one CPU writes, in the order of their addresses.
    pub lines: Vec<SharedLine>,
    /// The locks in these lines, in the order of their addresses.
    pub locks: Vec<Lock>,
}

/// A line that CPUs share.
#[derive(Debug, Clone, PartialEq)]
pub struct SharedLine {
    /// Physical address of the line's first byte.
    pub line: u64,
    /// The data in the line, if known.
    pub datum: Option<Datum>,
    /// Bit n is set if virtual CPU n accesses the line.
    pub cpus: u64,
    /// The CPUs that share the line.
    pub scope: Scope,
    /// The average number of visits per operation. The visits that begin or end a lock section count too.
    pub visits: f64,
    /// The index of a lock in another line, if operations access this line only while they hold the lock
    /// exclusively. CPUs then wait for the lock, and never for this line alone.
    pub guard: Option<usize>,
    /// Addresses of the code that accesses the line.
    pub code: Vec<u64>,
}

/// The CPUs that share a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// All CPUs of the experiment.
    All,
    /// All CPUs of the experiment that are in one memory node of several.
    Node(usize),
    /// Other sets of CPUs. Memory that one CPU frees and another CPU reuses is an example.
    Some,
}

impl Cost {
    /// Finds the visits and lock sections of the operations after the first `warm_up` rounds. Accesses to a
    /// line belong to one visit if they are fewer than `apart` instructions apart; see [`VISIT_DISTANCE`].
    /// `functions` are those of the same guest.
    pub fn contention(&self, warm_up: u32, apart: u64, functions: &Functions) -> Contention {
        let mut traces = self.traces(warm_up);
        let mut users = users(&traces);
        users.retain(|_, user| user.written && user.cpus.count_ones() > 1);
        traces.iter_mut().for_each(|trace| trace.keep(&users, functions));
        let index: BTreeMap<u64, usize> = users.keys().copied().zip(0..).collect();
        let locks: BTreeSet<LockId> = traces.iter().flat_map(Trace::locks).collect();
        let lock_index: BTreeMap<LockId, usize> = locks.iter().copied().zip(0..).collect();
        let iterations: Vec<Iteration> = traces
            .iter()
            .map(|trace| Iteration {
                cpu: trace.cpu,
                instructions: trace.instructions,
                events: events(
                    &trace.accesses,
                    &trace.sections,
                    apart,
                    |line| index[&line],
                    |section| lock_index[&section.lock(&trace.accesses)],
                ),
                cut: trace.cut,
            })
            .collect();
        let share = |count: usize| count as f64 / iterations.len() as f64;
        let mut visits: BTreeMap<u64, usize> = BTreeMap::new();
        for trace in &traces {
            count(&trace.accesses, apart, |line| *visits.entry(line).or_default() += 1);
        }
        let lock_lines: Vec<usize> = locks.iter().map(|(line, ..)| index[line]).collect();
        let sections = inside::of_locks(&iterations, &lock_lines);
        let guards = guards(&iterations, &lock_lines, users.len());
        let line = |(at, (line, users)): (usize, (&u64, &Users))| SharedLine {
            line: *line,
            datum: self.data.get(line).cloned(),
            cpus: users.cpus,
            scope: self.scope(users.cpus),
            visits: share(visits.get(line).copied().unwrap_or(0)),
            guard: guards[at],
            code: users.code.iter().copied().collect(),
        };
        let lock = |(&(line, offset, kind), of): (&LockId, ByHold)| Lock {
            line: index[&line],
            offset,
            kind,
            datum: self.words.get(&(line + u64::from(offset))).cloned(),
            exclusive: of.exclusive.figures(iterations.len()),
            shared: of.shared.figures(iterations.len()),
        };
        let lines = users.iter().enumerate().map(line).collect();
        let locks = locks.iter().zip(sections).map(lock).collect();
        Contention { iterations, lines, locks }
    }

    /// The accesses of each operation that counts. An interrupt leaves work that the kernel does at the end of the
    /// operation, such as that of the timer tick. In a slow guest, ticks come every few operations, and on a real machine
    /// every few thousand. So operations with an interrupt are left out, unless most of them have one.
    fn traces(&self, warm_up: u32) -> Vec<Trace> {
        let done: Vec<&TestResult> = self.counted(warm_up).collect();
        let interrupted = done.iter().filter(|done| done.is_interrupted()).count();
        let are_few = 2 * interrupted <= done.len();
        let counts = |done: &&TestResult| !(are_few && done.is_interrupted());
        let trace = |done: &TestResult| {
            let side = done.sides.first()?;
            let accesses = done.accesses.iter().find(|accesses| accesses.side == side.side)?;
            Some(Trace {
                cpu: side.cpu,
                instructions: side.instructions,
                accesses: accesses.list.clone(),
                sections: Vec::new(),
                cut: accesses.cut,
            })
        };
        done.into_iter().filter(counts).filter_map(trace).collect()
    }

    fn scope(&self, cpus: u64) -> Scope {
        let all = u64::MAX >> (u64::BITS - self.experiment.cpus.clamp(1, u64::BITS));
        let of_node = |&(_, node): &(usize, &u64)| node & all == cpus;
        match self.nodes.iter().enumerate().find(of_node) {
            _ if cpus == all => Scope::All,
            Some((number, _)) => Scope::Node(number),
            None => Scope::Some,
        }
    }
}

/// The users of a line.
#[derive(Default)]
struct Users {
    cpus: u64,
    written: bool,
    code: BTreeSet<u64>,
}

/// The CPUs and the code that access each line.
fn users(traces: &[Trace]) -> BTreeMap<u64, Users> {
    let mut users: BTreeMap<u64, Users> = BTreeMap::new();
    for trace in traces {
        for access in &trace.accesses {
            let line = users.entry(access.line).or_default();
            line.cpus |= 1 << trace.cpu.min(u64::BITS - 1);
            line.written |= access.kind > AccessKind::Load;
            line.code.insert(access.pc);
        }
    }
    users
}

/// The accesses of an operation, and the lock sections in them.
struct Trace {
    cpu: u32,
    instructions: u64,
    accesses: Vec<SharedAccess>,
    sections: Vec<Section>,
    cut: bool,
}

impl Trace {
    /// Keeps only the accesses to lines that are in `users`, and finds the lock sections.
    fn keep(&mut self, users: &BTreeMap<u64, Users>, functions: &Functions) {
        self.accesses.retain(|access| users.contains_key(&access.line));
        self.sections = sections(&self.accesses, |pc| functions.at(pc));
    }

    fn locks(&self) -> impl Iterator<Item = LockId> {
        self.sections.iter().map(|section| section.lock(&self.accesses))
    }
}
