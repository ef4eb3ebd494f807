//! Atomic additions of several CPUs to one cache line.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::exchange::Line;
use super::together::on_cpus;

/// Measurements.
const TIMES: usize = 7;
/// Time of one. Shorter than a time slice, so that some contain no preemption.
const TIME: Duration = Duration::from_millis(3);
/// Additions between two looks at the clock.
const BATCH: u64 = 100;

/// The time from an addition to the next in ns, if all `cpus` add to one line. Measured several times.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn times(cpus: &[u32]) -> io::Result<Vec<f64>> {
    (0..TIMES).map(|_| once(cpus)).collect()
}

fn once(cpus: &[u32]) -> io::Result<f64> {
    let (line, is_over) = (Line(AtomicU64::new(0)), AtomicBool::new(false));
    // The first thread to see that the time is over ends all, so that none adds alone at the end.
    let add = |_| {
        let start = Instant::now();
        let mut additions = 0;
        while !is_over.load(Ordering::Relaxed) {
            for _ in 0..BATCH {
                line.0.fetch_add(1, Ordering::Relaxed);
            }
            additions += BATCH;
            if start.elapsed() >= TIME {
                is_over.store(true, Ordering::Relaxed);
            }
        }
        additions as f64 / start.elapsed().as_nanos() as f64
    };
    Ok(1.0 / on_cpus(cpus, add)?.iter().sum::<f64>())
}

#[cfg(test)]
mod tests {
    use knee_host::affinity::usable_cpus;

    use super::*;

    #[test]
    fn additions_take_time_on_any_number_of_cpus() {
        let cpus = usable_cpus().unwrap();
        for count in [1, cpus.len()] {
            let times = times(&cpus[..count]).unwrap();
            assert!(times.len() == TIMES && times.iter().all(|ns| *ns > 0.0), "{times:?}");
        }
    }
}
