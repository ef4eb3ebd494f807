//! Wake-ups: two threads wake each other by turns.

use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::Instant;

use super::together::on_cpus;

/// Measurements, and round trips that are timed together.
const TIMES: usize = 25;
const ROUND_TRIPS: u32 = 40;

/// The time from waking a thread on an idle CPU until it runs, in ns. Measured several times.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn times(a: u32, b: u32) -> io::Result<Vec<f64>> {
    let threads: [Mutex<Option<Thread>>; 2] = Default::default();
    let is_awake: [AtomicBool; 2] = Default::default();
    let mut results = on_cpus(&[a, b], |nr| {
        *threads[nr].lock().expect("no holder panics") = Some(thread::current());
        let other = loop {
            if let Some(other) = &*threads[1 - nr].lock().expect("no holder panics") {
                break other.clone();
            }
            thread::yield_now();
        };
        let mut times = Vec::new();
        for _ in 0..TIMES {
            let start = Instant::now();
            for _ in 0..ROUND_TRIPS {
                let wake = || {
                    is_awake[1 - nr].store(true, Ordering::Release);
                    other.unpark();
                };
                // A thread may return from a sleep without a wake-up.
                let sleep = || {
                    while !is_awake[nr].swap(false, Ordering::Acquire) {
                        thread::park();
                    }
                };
                if nr == 0 {
                    wake();
                    sleep();
                } else {
                    sleep();
                    wake();
                }
            }
            times.push(start.elapsed().as_nanos() as f64 / f64::from(2 * ROUND_TRIPS));
        }
        times
    })?;
    Ok(results.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use knee_host::affinity::usable_cpus;
    use knee_host::skip::skip;

    use super::*;

    #[test]
    fn threads_that_wake_each_other_end() {
        let [a, b, ..] = usable_cpus().unwrap()[..] else {
            return skip("two CPUs", "a wake-up has two sides");
        };
        let times = times(a, b).unwrap();
        assert!(times.len() == TIMES && times.iter().all(|ns| *ns > 0.0), "{times:?}");
    }
}
