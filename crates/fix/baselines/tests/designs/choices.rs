//! Random choices for tests.

use knee_models::random::{self, Random};
use knee_vm::Protection;

const NONE: Protection = Protection::NONE;
const READ: Protection = Protection::READ;
const WRITE: Protection = Protection::WRITE;

pub(crate) fn protection(random: &mut Random) -> Protection {
    [NONE, READ, READ | WRITE, READ | WRITE][random.below(4) as usize]
}

/// Two indexes that are less than `count`. The second index is at least the first, and usually exceeds it by
/// at most 3.
pub(crate) fn places(random: &mut Random, count: usize) -> (usize, usize) {
    let first = random.below(count as u64) as usize;
    let most = if random.below(4) == 0 { count } else { 4 };
    let last = first + random.below(most as u64) as usize;
    (first, last.min(count - 1))
}

/// Returns the factor by which tests are lengthened.
pub(crate) fn patience() -> u64 {
    random::patience(500)
}
