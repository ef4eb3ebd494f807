//! Time that a thread waited for its CPU.

use std::fs;

/// Seconds that this thread has been runnable without running, since it began, from
/// `/proc/thread-self/schedstat` (fields: on CPU, waiting, time slices; Documentation/scheduler/sched-stats.rst).
/// 0 if the kernel does not count them.
pub(crate) fn seconds() -> f64 {
    let text = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    parse(&text).unwrap_or(0.0)
}

fn parse(text: &str) -> Option<f64> {
    let nanos: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(nanos as f64 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_field_is_the_time_of_waiting() {
        assert_eq!(parse("5 2500000000 3\n"), Some(2.5));
        assert_eq!(parse("5"), None);
        assert_eq!(parse("a b c"), None);
    }
}
