//! Clocks and durations as the kernel takes them.

use std::time::Duration;

use rustix::event::Timespec;
use rustix::time::{ClockId, clock_gettime};

/// The time of `clock` in seconds.
pub fn seconds(clock: ClockId) -> f64 {
    let t = clock_gettime(clock);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// A timeout for `poll(2)`; one that is too long for the kernel's type is the longest there is.
pub fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
        tv_nsec: duration.subsec_nanos().into(),
    }
}
