//! A lock: who holds it, and who waits for it.

use std::collections::VecDeque;

use super::super::workload::Hold;
use super::tally::{Tally, Waiter};

/// A lock. Its word is a line of its own, which readers count themselves in.
#[derive(Debug, Default)]
pub(super) struct Lock {
    /// Whether a task has it to itself.
    pub(super) is_held: bool,
    /// Tasks that share it.
    pub(super) readers: u32,
    pub(super) queue: VecDeque<Waiter<Hold>>,
    pub(super) tally: Tally,
}

impl Lock {
    /// Whether a writer can have it at once.
    pub(super) fn is_free(&self) -> bool {
        self.readers == 0 && !self.refuses_readers()
    }

    /// Whether a reader has to wait. Waiting writers come first, so that readers cannot starve
    /// them.
    pub(super) fn refuses_readers(&self) -> bool {
        self.is_held || !self.queue.is_empty()
    }
}
