//! The instruction that pauses a loop that waits.

use std::hint::spin_loop;
use std::io;
use std::time::Instant;

use super::together::on_cpus;

/// Measurements.
const TIMES: usize = 64;
/// Pauses in a measurement.
const PAUSES: u32 = 10_000;

/// Times in ns of a pause on this CPU. Empty if this program does not pause as Linux does: on x86, both
/// execute `pause`, but on arm64, Linux executes `yield` and this program `isb`.
///
/// # Errors
/// Those of [`on_cpus`].
pub(super) fn times(cpu: u32) -> io::Result<Vec<f64>> {
    if !cfg!(target_arch = "x86_64") {
        return Ok(Vec::new());
    }
    let pause = || {
        let start = Instant::now();
        (0..PAUSES).for_each(|_| spin_loop());
        start.elapsed().as_secs_f64() * 1e9 / f64::from(PAUSES)
    };
    let times = on_cpus(&[cpu], |_| (0..TIMES).map(|_| pause()).collect())?;
    Ok(times.into_iter().flat_map(|times: Vec<f64>| times).collect())
}
