//! Numbers that look random, and what tests do with them.

use knee_vm::{PAGE, Protection};

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

/// Numbers that look random: xorshift.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % end
    }

    pub(crate) fn protection(&mut self) -> Protection {
        [NONE, READ, READ | WRITE, READ | WRITE][self.below(4) as usize]
    }

    /// A place among so many, and one that is not before it: mostly near.
    pub(crate) fn places(&mut self, count: usize) -> (usize, usize) {
        let first = self.below(count as u64) as usize;
        let most = if self.below(4) == 0 { count } else { 4 };
        let last = first + self.below(most as u64) as usize;
        (first, last.min(count - 1))
    }
}

/// How much longer than usual, with `KNEE_TORTURE=long`: minutes.
pub(crate) fn patience() -> u64 {
    let is_long = std::env::var_os("KNEE_TORTURE").is_some_and(|long| long == "long");
    if is_long { 500 } else { 1 }
}

pub(crate) fn address(page: u64) -> u64 {
    page * PAGE as u64
}
