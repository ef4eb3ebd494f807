//! Random choices for tests.

use knee_vm::Protection;

use crate::random::{self, Random};

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

impl Random {
    pub(crate) fn protection(&mut self) -> Protection {
        [NONE, READ, READ | WRITE, READ | WRITE][self.below(4) as usize]
    }

    /// Two places below `count`, in order. The second is usually near the first.
    pub(crate) fn places(&mut self, count: usize) -> (usize, usize) {
        let first = self.below(count as u64) as usize;
        let most = if self.below(4) == 0 { count } else { 4 };
        let last = first + self.below(most as u64) as usize;
        (first, last.min(count - 1))
    }
}

/// Returns the factor by which a test runs longer than usual.
pub(crate) fn patience() -> u64 {
    random::patience(500)
}
