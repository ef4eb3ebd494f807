//! The events of operations: visits to lines, the beginnings and ends of lock sections, and TLB shootdowns.

use super::lock::Hold;
use crate::record::AccessKind;

/// One operation, or one batch of deferred work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Iteration {
    /// The CPU.
    pub cpu: u32,
    /// The number of instructions that it executes in the kernel or in the program.
    pub instructions: u64,
    /// The events, in order.
    pub events: Vec<ContentionEvent>,
    /// Whether events are missing because the operation makes too many accesses.
    pub cut: bool,
}

/// A visit, the beginning or end of a lock section, or a TLB shootdown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContentionEvent {
    /// The number of instructions that the operation executed before this event.
    pub at: u64,
    /// Address of the instruction. For a visit, this is the first instruction that makes an access of the
    /// visit's kind.
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
    /// The CPU tells the other CPUs of the address space to invalidate translations, and waits until they
    /// have done so. In the trace, the CPU interrupts no other CPU, because the other CPUs are idle.
    Shootdown,
}

/// A visit to a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visit {
    /// The index in [`Contention::lines`](super::Contention::lines).
    pub line: usize,
    /// The kind of the strongest access of the visit. It is [`AccessKind::CompareExchange`] only if the visit
    /// has already loaded the same bytes: the CPU then needs the line first to read it and later to write it,
    /// and another CPU may take the line in between. Any other compare and exchange counts as
    /// [`AccessKind::Atomic`].
    pub kind: AccessKind,
    /// Whether the first access only loads. If it does, and [`kind`](Self::kind) is [`AccessKind::Store`],
    /// the CPU needs the line first to read it and later to write it.
    pub begins_with_load: bool,
    /// The number of instructions that access the line.
    pub accesses: u32,
    /// The number of these instructions that are atomic.
    pub atomics: u32,
    /// The number of instructions from the first access to the last one; 0 if there is only one access.
    pub instructions: u64,
}
