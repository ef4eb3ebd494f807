//! Clocks as numbers.

use rustix::time::{ClockId, clock_gettime};

/// What `clock` shows, in seconds.
pub(crate) fn seconds(clock: ClockId) -> f64 {
    let t = clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}
