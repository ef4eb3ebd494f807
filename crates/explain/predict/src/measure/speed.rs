//! Speed of busy cores, and of a core whose hardware threads are both busy.

use std::io;
use std::time::{Duration, Instant};

use knee_reference::speed;
use knee_stats::median;

use super::together::on_cpus;

/// Time of a measurement. A processor takes some milliseconds to change its clock.
const TIME: Duration = Duration::from_millis(200);
/// The clock may change until then.
const SETTLED: Duration = Duration::from_millis(100);
/// Measurements of a core with and without a busy sibling.
const TIMES: usize = 3;

/// Mean speed of the cores of these CPUs while all of them are busy. The unit means nothing.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn of(cpus: &[u32]) -> io::Result<Option<f64>> {
    let run = |_| {
        let start = Instant::now();
        let mut speeds = Vec::new();
        while start.elapsed() < TIME {
            let speed = speed();
            if start.elapsed() >= SETTLED {
                speeds.push(speed);
            }
        }
        median(&speeds)
    };
    let speeds: Option<Vec<f64>> = on_cpus(cpus, run)?.into_iter().collect();
    Ok(speeds.map(|speeds| speeds.iter().sum::<f64>() / speeds.len() as f64))
}

/// How much longer work takes on a hardware thread while the other one is busy, measured several
/// times.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn slowdowns(a: u32, b: u32) -> io::Result<Vec<f64>> {
    let mut slowdowns = Vec::new();
    for _ in 0..TIMES {
        if let (Some(alone), Some(both)) = (of(&[a])?, of(&[a, b])?) {
            slowdowns.push(alone / both);
        }
    }
    Ok(slowdowns)
}
