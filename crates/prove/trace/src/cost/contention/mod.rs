//! How operations use lines that CPUs share: visits and lock sections, in order.
//!
//! A *visit* is a series of accesses of one operation to one line. Each access follows the previous one after
//! fewer than a given number of instructions. If CPUs contend for the line, a visit needs one transfer of the
//! line, because the CPU keeps the line for about as long as the next transfer takes. After that time,
//! another CPU has taken the line, so the next access begins another visit.
//!
//! In the line of a lock, an access is part of a visit only if it is fewer than that number of instructions
//! after the *first* access of the visit, because a CPU that waits for the lock takes the line again and
//! again.
//!
//! A *lock section* begins with the atomic instruction that takes a lock and ends with the instruction that
//! releases it. An access to the line of the lock soon after one of these two instructions is not a visit of
//! its own. If the operation does not release the lock, the line counts as a plain line.
//!
//! In a *TLB shootdown*, the CPU asks the other CPUs of the address space to invalidate translations.
//! The CPU counts the request in the `mm_struct`, which threads share, so the event of the shootdown follows
//! a visit to the line of this counter.
//!
//! *Deferred work*, such as RCU callbacks, runs after the operation. A CPU may do the deferred work of
//! several operations in one batch. The visits and sections of the batches are listed separately.
//!
//! The operations run one after the other, so the trace contains only uncontended paths: no slow path of a
//! lock and no retry of a compare and exchange. A model must add the costs of the contended paths.

mod event;
mod inside;
mod lock;
mod lock_functions;
mod program_locks;
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

/// The default distance between visits: an access begins another visit if it is at least this many
/// instructions after the previous access. A CPU executes about this many instructions while a line moves to
/// it: 60 ns at 2.5 GHz and one instruction per cycle.
pub const VISIT_DISTANCE: u64 = 150;

/// How the counted operations of an experiment use lines that CPUs share.
#[derive(Debug, Clone, PartialEq)]
pub struct Contention {
    /// The operations, round by round, and in each round in the order of the CPUs.
    pub iterations: Vec<Iteration>,
    /// Batches of work that these operations deferred: CPU by CPU, and for each CPU in the order of
    /// execution.
    pub deferred: Vec<Iteration>,
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
    /// The average number of visits that the deferred work of an operation makes.
    pub deferred: f64,
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
    /// Not all CPUs of the experiment, but all of those in the memory node with this number.
    Node(usize),
    /// Other sets of CPUs, for example because one CPU frees memory and another CPU reuses it.
    Some,
}

impl Cost {
    /// Finds the visits and lock sections of the operations after the first `warm_up` rounds. Accesses to a
    /// line belong to one visit if they are fewer than `apart` instructions apart; see [`VISIT_DISTANCE`].
    /// `functions` are those of the same guest.
    pub fn contention(&self, warm_up: u32, apart: u64, functions: &Functions) -> Contention {
        let mut traces = self.traces(warm_up);
        let mut later = self.deferred_traces(&traces);
        let mut users = users(traces.iter().chain(&later));
        users.retain(|_, user| user.written && user.cpus.count_ones() > 1);
        traces.iter_mut().chain(&mut later).for_each(|trace| trace.keep(&users, functions));
        let index: BTreeMap<u64, usize> = users.keys().copied().zip(0..).collect();
        let locks: BTreeSet<LockId> = traces.iter().chain(&later).flat_map(Trace::locks).collect();
        let lock_index: BTreeMap<LockId, usize> = locks.iter().copied().zip(0..).collect();
        let iteration = |trace: &Trace| Iteration {
            cpu: trace.cpu,
            instructions: trace.instructions,
            events: events(
                &trace.accesses,
                &trace.sections,
                apart,
                |line| index[&line],
                |section| lock_index[&section.lock(&trace.accesses)],
                |pc| functions.at(pc),
            ),
            cut: trace.cut,
        };
        let iterations: Vec<Iteration> = traces.iter().map(iteration).collect();
        let deferred: Vec<Iteration> = later.iter().map(iteration).collect();
        let share = |count: usize| count as f64 / iterations.len() as f64;
        let visits = |traces: &[Trace]| {
            let mut visits: BTreeMap<u64, usize> = BTreeMap::new();
            for trace in traces {
                count(&trace.accesses, apart, |line| *visits.entry(line).or_default() += 1);
            }
            visits
        };
        let (visits, later) = (visits(&traces), visits(&later));
        let of_line = |visits: &BTreeMap<u64, usize>, line: &u64| {
            share(visits.get(line).copied().unwrap_or(0))
        };
        let lock_lines: Vec<usize> = locks.iter().map(|(line, ..)| index[line]).collect();
        let sections = inside::of_locks(&iterations, &lock_lines);
        let all = iterations.iter().chain(&deferred);
        let guards = guards(all, &lock_lines, users.len());
        let line = |(at, (line, users)): (usize, (&u64, &Users))| SharedLine {
            line: *line,
            datum: self.data.get(line).cloned(),
            cpus: users.cpus,
            scope: self.scope(users.cpus),
            visits: of_line(&visits, line),
            deferred: of_line(&later, line),
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
        Contention { iterations, deferred, lines, locks }
    }

    /// The accesses of each operation that counts. After an interrupt, such as a timer tick, the kernel does
    /// additional work at the end of the operation. Ticks interrupt one in every few operations in a slow
    /// guest, but only one in every few thousand on a real machine. So an interrupted operation is replaced
    /// by the uninterrupted operation of the same CPU whose number of instructions is closest, unless most
    /// operations were interrupted. It would be wrong to leave interrupted operations out: an operation that
    /// also does rare work takes longer, so it is interrupted more often.
    fn traces(&self, warm_up: u32) -> Vec<Trace> {
        let done: Vec<&TestResult> = self.counted(warm_up).collect();
        let interrupted = done.iter().filter(|done| done.is_interrupted()).count();
        if 2 * interrupted > done.len() {
            return done.into_iter().filter_map(Trace::of).collect();
        }
        let size = |done: &TestResult| done.sides.first().map(|side| (side.cpu, side.instructions));
        let whole = done.iter().filter(|done| !done.is_interrupted());
        let whole: BTreeMap<(u32, u64), &TestResult> =
            whole.filter_map(|done| Some((size(done)?, *done))).collect();
        let closest = |done: &TestResult| {
            let (cpu, instructions) = size(done)?;
            let below = whole.range((cpu, 0)..=(cpu, instructions)).next_back();
            let above = whole.range((cpu, instructions)..=(cpu, u64::MAX)).next();
            let distance = |&(&(_, other), _): &(&(u32, u64), _)| other.abs_diff(instructions);
            below.into_iter().chain(above).min_by_key(distance).map(|(_, done)| *done)
        };
        let trace = |done: &TestResult| match done.is_interrupted() {
            true => closest(done).and_then(Trace::of),
            false => Trace::of(done),
        };
        done.into_iter().filter_map(trace).collect()
    }

    /// The work that the operations in `traces` deferred. The batches contain the work of all operations of
    /// the experiment. So if `traces` contains half of a CPU's operations, this returns half of the CPU's
    /// batches.
    fn deferred_traces(&self, traces: &[Trace]) -> Vec<Trace> {
        let cpus = self.experiment.cpus.max(1);
        let all = self.operations.len() / cpus as usize;
        let of_cpu = |cpu: u32| {
            let counted = traces.iter().filter(|trace| trace.cpu == cpu).count();
            let is_own =
                move |work: &&TestResult| work.sides.first().is_some_and(|side| side.cpu == cpu);
            let is_kept = move |&(nr, _): &(usize, &TestResult)| {
                (nr + 1) * counted / all.max(1) > nr * counted / all.max(1)
            };
            let own = self.deferred.iter().filter(is_own).enumerate();
            own.filter(is_kept).filter_map(|(_, work)| Trace::of(work))
        };
        (0..cpus).flat_map(of_cpu).collect()
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
fn users<'t>(traces: impl Iterator<Item = &'t Trace>) -> BTreeMap<u64, Users> {
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
    fn of(done: &TestResult) -> Option<Trace> {
        let side = done.sides.first()?;
        let accesses = done.accesses.iter().find(|accesses| accesses.side == side.side)?;
        Some(Trace {
            cpu: side.cpu,
            instructions: side.instructions,
            accesses: accesses.list.clone(),
            sections: Vec::new(),
            cut: accesses.cut,
        })
    }

    /// Keeps only the accesses to lines that are in `users`, and finds the lock sections.
    fn keep(&mut self, users: &BTreeMap<u64, Users>, functions: &Functions) {
        self.accesses.retain(|access| users.contains_key(&access.line));
        self.sections = sections(&self.accesses, functions.are_of_program, |pc| functions.at(pc));
    }

    fn locks(&self) -> impl Iterator<Item = LockId> {
        self.sections.iter().map(|section| section.lock(&self.accesses))
    }
}
