//! Atomic additions of several CPUs to one cache line.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::exchange::Line;
use super::together::on_cpus;

/// Measurements.
const TIMES: usize = 7;
/// Time of one. Short, so that most contain no preemption.
const TIME: Duration = Duration::from_millis(3);
/// Additions of all CPUs between two looks of a CPU at the clock.
const BATCH: u64 = 100;

/// The time from an addition to the next in ns, if all `cpus` add to one line. Measured several
/// times.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn times(cpus: &[u32]) -> io::Result<Vec<f64>> {
    let line = Line(AtomicU64::new(0));
    (0..TIMES).map(|_| Ok(1.0 / add(cpus, &line)?.iter().map(Added::rate).sum::<f64>())).collect()
}

/// What a CPU has done.
struct Added {
    additions: u64,
    nanoseconds: u128,
}

impl Added {
    fn rate(&self) -> f64 {
        self.additions as f64 / self.nanoseconds as f64
    }
}

/// Adds to the line on all `cpus`.
fn add(cpus: &[u32], line: &Line) -> io::Result<Vec<Added>> {
    let is_over = AtomicBool::new(false);
    // With many CPUs, a CPU waits long for each of its additions.
    let batch = (BATCH / cpus.len() as u64).max(1);
    // The first CPU to see that the time is over ends all, so that none adds alone at the end.
    on_cpus(cpus, |_| {
        let start = Instant::now();
        let mut additions = 0;
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..batch {
                line.0.fetch_add(1, Ordering::Relaxed);
            }
            additions += batch;
            if start.elapsed() >= TIME {
                is_over.store(true, Ordering::Relaxed);
            }
        }
        Added { additions, nanoseconds: start.elapsed().as_nanos() }
    })
}

#[cfg(test)]
mod tests {
    use knee_host::affinity::usable_cpus;

    use super::*;

    #[test]
    fn all_cpus_add_to_one_line_and_report_their_additions() {
        let cpus = usable_cpus().unwrap();
        for count in [1, cpus.len()] {
            let line = Line(AtomicU64::new(0));
            let added = add(&cpus[..count], &line).unwrap();
            assert_eq!(added.len(), count);
            let sum: u64 = added.iter().map(|added| added.additions).sum();
            assert!(sum > 0 && sum == line.0.into_inner());
        }
    }
}
