//! Transfers of a cache line: two threads pass it to and fro.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::together::on_cpus;

/// The shortest and the longest time for a pair, in seconds.
pub(super) const LEAST: f64 = 0.000_5;
pub(super) const MOST: f64 = 0.1;
/// Round trips that are timed together: some tens of microseconds.
const ROUND_TRIPS: u64 = 200;
/// The fewest measurements of a pair.
const FEWEST: usize = 5;
/// Ends the exchange.
const END: u64 = u64::MAX;

/// A cache line, and the next, because some processors fetch lines in pairs.
#[repr(align(128))]
pub(super) struct Line(pub(super) AtomicU64);

/// The time of a transfer between two CPUs in ns, measured again and again for `seconds`.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn times(a: u32, b: u32, seconds: f64) -> io::Result<Vec<f64>> {
    let line = Line(AtomicU64::new(0));
    let pass = |from: u64| {
        while line.0.compare_exchange(from, from + 1, Ordering::Relaxed, Ordering::Relaxed).is_err()
        {
        }
    };
    // The first thread turns even numbers into odd ones, and the second these into even ones.
    let first = || {
        let mut times = Vec::new();
        let (start, most) = (Instant::now(), Duration::from_secs_f64(seconds));
        let mut turn = 0;
        while times.len() < FEWEST || start.elapsed() < most {
            let before = Instant::now();
            for _ in 0..ROUND_TRIPS {
                pass(turn);
                turn += 2;
            }
            times.push(before.elapsed().as_nanos() as f64 / (2 * ROUND_TRIPS) as f64);
        }
        while line.0.compare_exchange(turn, END, Ordering::Relaxed, Ordering::Relaxed).is_err() {}
        times
    };
    let second = || {
        let mut turn = 1;
        loop {
            match line.0.compare_exchange(turn, turn + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => turn += 2,
                Err(END) => return Vec::new(),
                Err(_) => {}
            }
        }
    };
    let mut results = on_cpus(&[a, b], |nr| if nr == 0 { first() } else { second() })?;
    Ok(results.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use knee_host::affinity::usable_cpus;
    use knee_host::skip::skip;

    use super::*;

    #[test]
    fn the_time_of_a_transfer_is_measured_several_times_and_the_threads_end() {
        let [a, b, ..] = usable_cpus().unwrap()[..] else {
            return skip("two CPUs", "a transfer has two sides");
        };
        let times = times(a, b, LEAST).unwrap();
        assert!(times.len() >= FEWEST && times.iter().all(|ns| *ns > 0.0), "{times:?}");
    }
}
