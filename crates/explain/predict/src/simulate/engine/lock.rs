//! A lock: who holds it, and who waits for it.

use std::collections::VecDeque;

use super::super::workload::{Hold, LockKind};
use super::tally::{Tally, Waiter};

/// A lock.
#[derive(Debug)]
pub(super) struct Lock {
    pub(super) kind: LockKind,
    /// Whether a task has it to itself.
    pub(super) is_held: bool,
    /// Tasks that share it.
    pub(super) readers: u32,
    /// The task that had it to itself last.
    pub(super) last: Option<usize>,
    /// The first one polls the lock. Others poll their own entry of the queue.
    pub(super) queue: VecDeque<Waiter<Hold>>,
    /// Tasks at the head of the queue that poll the lock.
    pub(super) polling: usize,
    /// Whether the first of the queue waits by the pending bit of a spin lock.
    pub(super) is_pending: bool,
    pub(super) tally: Tally,
}

/// How far a task is with taking or releasing a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Stage {
    /// It has not begun.
    #[default]
    Begins,
    /// It has executed an atomic instruction that takes the lock if it is free.
    Tried,
    /// It executes the beginning of the slow path.
    Enters,
    /// It has executed the atomic instruction that joins the queue.
    Joins,
    /// It waits until it is the first of the queue.
    Waits,
    /// It waits until it loads the lock again.
    Polls,
    /// It has loaded the lock.
    Loaded,
    /// It has executed an atomic instruction that takes the lock after it was free.
    Takes,
    /// It has executed the atomic instruction that leaves the queue of spinning tasks.
    Unlinks,
    /// It executes the end of the slow path, with the lock.
    Leaves,
    /// It has executed the atomic instruction that releases the lock.
    Releases,
}

impl Lock {
    pub(super) fn new(kind: LockKind) -> Self {
        Self {
            kind,
            is_held: false,
            readers: 0,
            last: None,
            queue: VecDeque::new(),
            polling: 0,
            is_pending: false,
            tally: Tally::default(),
        }
    }

    /// Whether a task that holds it like this can have it now.
    pub(super) fn is_free(&self, how: Hold) -> bool {
        !self.is_held && (how == Hold::Shared || self.readers == 0)
    }

    /// Whether a task that has not waited can have it now. Mutexes and semaphores can be stolen
    /// from the tasks that wait. Readers let waiting writers go first, who would otherwise starve.
    pub(super) fn admits(&self, how: Hold) -> bool {
        let is_stolen = self.kind != LockKind::Spin && how == Hold::Exclusive;
        self.is_free(how) && (is_stolen || self.queue.is_empty())
    }
}
