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

mod inside;
mod lock_functions;
mod sections;
#[cfg(test)]
mod tests;
mod visits;

use std::collections::{BTreeMap, BTreeSet};

use super::{Cost, Spread};
use crate::datum::Datum;
use crate::functions::Functions;
use crate::record::{AccessKind, SharedAccess};
use inside::{Inside, guards};
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

/// One operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// The CPU.
    pub cpu: u32,
    /// The number of instructions in the kernel.
    pub instructions: u64,
    /// The events, in order.
    pub events: Vec<ContentionEvent>,
    /// Whether events are missing, because the operation makes too many accesses.
    pub cut: bool,
}

/// A visit, or an end of a lock section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentionEvent {
    /// The number of instructions that the operation executed before.
    pub at: u64,
    /// Address of the instruction. For a visit, this is the first instruction of the visit's kind.
    pub pc: u64,
    /// What happens.
    pub kind: EventKind,
}

/// The kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A visit begins.
    Visit(Visit),
    /// A lock section begins.
    Acquire {
        /// The index in [`Contention::locks`].
        lock: usize,
        /// Whether others may hold the lock at the same time.
        hold: Hold,
    },
    /// A lock section ends.
    Release {
        /// The index in [`Contention::locks`].
        lock: usize,
    },
}

/// A visit to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The index in [`Contention::lines`].
    pub line: usize,
    /// The strongest access of the visit. It is [`AccessKind::CompareExchange`] only if the visit has loaded
    /// the same bytes before: then the line is first needed to read and then to write, and another CPU may
    /// take it in between. Any other compare and exchange is [`AccessKind::Atomic`].
    pub kind: AccessKind,
    /// The number of instructions that access the line.
    pub accesses: u32,
    /// The number of these instructions that are atomic.
    pub atomics: u32,
    /// The number of instructions from the first access to the last one; 0 if there is only one access.
    pub instructions: u64,
}

/// Whether others may hold a lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// No.
    Exclusive,
    /// Others that hold the lock in the same way.
    Shared,
}

/// The kind of a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LockKind {
    /// A queued spin lock.
    Spin,
    /// A queued reader-writer lock, whose waiters spin.
    RwSpin,
    /// A mutex, whose waiters may sleep.
    Mutex,
    /// A reader-writer semaphore, whose waiters may sleep.
    RwSemaphore,
}

impl LockKind {
    /// The name of the kind.
    pub fn as_str(self) -> &'static str {
        match self {
            LockKind::Spin => "spin lock",
            LockKind::RwSpin => "reader-writer spin lock",
            LockKind::Mutex => "mutex",
            LockKind::RwSemaphore => "reader-writer semaphore",
        }
    }
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
    /// The index of a lock, if an operation accesses the line only while it holds this lock, and the lock is
    /// in another line. No CPU ever waits for such a line except with the lock.
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

/// A lock in a line that CPUs share.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// The index of its line in [`Contention::lines`].
    pub line: usize,
    /// The first byte of the word in the line that takes and releases the lock.
    pub offset: u8,
    /// The kind.
    pub kind: LockKind,
    /// The lock's name, if known.
    pub datum: Option<Datum>,
    /// The average number of sections per operation.
    pub sections: f64,
    /// The share of these sections in which others may hold the lock too.
    pub shared: f64,
    /// The number of instructions in a section.
    pub instructions: Spread,
    /// The number of distinct lines that a section accesses, not counting the line of the lock.
    pub lines: Spread,
    /// The lines that sections access: the index of each, and the average number of visits per section.
    pub inside: Vec<(usize, f64)>,
}

/// A lock's address and kind.
type LockId = (u64, u8, LockKind);

impl Cost {
    /// Finds the visits and lock sections of the operations after the first `warm_up` rounds. Accesses to a
    /// line belong to one visit if they are fewer than `apart` instructions apart; see [`VISIT_DISTANCE`].
    /// `functions` are those of the same guest.
    pub fn contention(&self, warm_up: u32, apart: u64, functions: &Functions) -> Contention {
        let users = self.users(warm_up);
        let users =
            users.into_iter().filter(|(_, user)| user.written && user.cpus.count_ones() > 1);
        let users: BTreeMap<u64, Users> = users.collect();
        let traces: Vec<Trace> =
            self.traces(warm_up).map(|trace| trace.within(&users, functions)).collect();
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
        let sections = Inside::of(&iterations, &lock_lines);
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
        let lock = |(&(line, offset, kind), of): (&LockId, Inside)| Lock {
            line: index[&line],
            offset,
            kind,
            datum: self.words.get(&(line + u64::from(offset))).cloned(),
            sections: share(of.instructions.len()),
            shared: of.shared as f64 / of.instructions.len().max(1) as f64,
            instructions: Spread::of(of.instructions.iter().copied()),
            lines: Spread::of(of.lines.iter().copied()),
            inside: of.means(),
        };
        let lines = users.iter().enumerate().map(line).collect();
        let locks = locks.iter().zip(sections).map(lock).collect();
        Contention { iterations, lines, locks }
    }

    /// The accesses of each operation that counts.
    fn traces(&self, warm_up: u32) -> impl Iterator<Item = Trace> {
        self.counted(warm_up).filter_map(|done| {
            let side = done.sides.first()?;
            let accesses = done.accesses.iter().find(|accesses| accesses.side == side.side)?;
            Some(Trace {
                cpu: side.cpu,
                instructions: side.instructions,
                accesses: accesses.list.clone(),
                sections: Vec::new(),
                cut: accesses.cut,
            })
        })
    }

    /// The CPUs and the code that access each line.
    fn users(&self, warm_up: u32) -> BTreeMap<u64, Users> {
        let mut users: BTreeMap<u64, Users> = BTreeMap::new();
        for trace in self.traces(warm_up) {
            for access in &trace.accesses {
                let line = users.entry(access.line).or_default();
                line.cpus |= 1 << trace.cpu.min(u64::BITS - 1);
                line.written |= access.kind > AccessKind::Load;
                line.code.insert(access.pc);
            }
        }
        users
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
    fn within(mut self, users: &BTreeMap<u64, Users>, functions: &Functions) -> Trace {
        self.accesses.retain(|access| users.contains_key(&access.line));
        self.sections = sections(&self.accesses, |pc| functions.at(pc));
        self
    }

    fn locks(&self) -> impl Iterator<Item = LockId> {
        self.sections.iter().map(|section| section.lock(&self.accesses))
    }
}
