//! Locks and their sections.

use crate::cost::Spread;
use crate::datum::Datum;

/// Whether others may hold a lock at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hold {
    /// No.
    Exclusive,
    /// Yes, if they also hold it shared.
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

/// A lock in a line that CPUs share.
#[derive(Debug, Clone, PartialEq)]
pub struct Lock {
    /// The index of its line in [`Contention::lines`](super::Contention::lines).
    pub line: usize,
    /// The offset in the line of the word that an operation changes to take or release the lock.
    pub offset: u8,
    /// The kind.
    pub kind: LockKind,
    /// The lock's name, if known.
    pub datum: Option<Datum>,
    /// The sections in which nobody else can hold the lock.
    pub exclusive: LockSections,
    /// The sections in which others may also hold the lock shared.
    pub shared: LockSections,
}

/// The sections of a lock. A downgrade ends an exclusive section and begins a shared one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LockSections {
    /// The average number of sections per operation.
    pub per_operation: f64,
    /// The number of instructions in a section.
    pub instructions: Spread,
    /// The number of distinct lines that a section accesses, not counting the line of the lock.
    pub lines: Spread,
    /// The lines that sections access: the index of each, and the average number of visits per section.
    pub inside: Vec<(usize, f64)>,
}

/// A lock's address and kind.
pub(super) type LockId = (u64, u8, LockKind);
