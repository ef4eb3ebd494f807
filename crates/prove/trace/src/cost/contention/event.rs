//! The events of operations: visits to lines, and the ends of lock sections.

use super::lock::Hold;
use crate::record::AccessKind;

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
        /// The index in [`Contention::locks`](super::Contention::locks).
        lock: usize,
        /// Whether others may hold the lock at the same time.
        hold: Hold,
    },
    /// A lock section ends.
    Release {
        /// The index in [`Contention::locks`](super::Contention::locks).
        lock: usize,
    },
}

/// A visit to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The index in [`Contention::lines`](super::Contention::lines).
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
