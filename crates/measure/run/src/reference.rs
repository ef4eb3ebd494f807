//! The current speed of the CPU itself, from a loop that neither enters the kernel nor uses memory.
//!
//! On a shared host, on a laptop that gets warm, or under a frequency governor, the same core can
//! be five percent faster or slower a few minutes later, in everything alike. No number of rounds
//! within a run shows that: of ten identical runs, compared in all 45 pairs, 169 of 1440 points
//! differed. Each task therefore runs this loop before it starts, on its own CPU and at the same
//! time as the others. A comparison of two runs can then separate a slower machine from a slower
//! testcase.

use std::hint::black_box;

use knee_host::clock::seconds;
use rustix::time::ClockId;

/// Steps that are timed together: a tenth of a millisecond on a core of 4 GHz.
const STEPS: usize = 14_000;
/// Number of measurements; odd, for the median. An interrupt affects one or two of them.
const TIMES: usize = 11;
/// Independent chains, enough to keep a wide core busy.
const CHAINS: usize = 6;
/// Words of the table: 4 KiB, which stay in the first-level cache.
const WORDS: usize = 512;

/// Steps per second of CPU time of the calling thread, on the CPU where it is.
pub(crate) fn speed() -> f64 {
    let table: [u64; WORDS] =
        std::array::from_fn(|nr| (nr as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut times: [f64; TIMES] = std::array::from_fn(|nr| {
        let before = seconds(ClockId::ThreadCPUTime);
        black_box(walk(black_box(nr as u64), &table));
        seconds(ClockId::ThreadCPUTime) - before
    });
    times.sort_by(f64::total_cmp);
    STEPS as f64 / times[TIMES / 2]
}

/// Walks through a table along several chains at once. Each step depends on the previous one of its
/// chain. One chain would show only the clock of the core. Several also slow down if the sibling
/// SMT thread uses execution units of the core.
#[inline(never)]
fn walk(seed: u64, table: &[u64; WORDS]) -> u64 {
    let mut chains: [u64; CHAINS] = std::array::from_fn(|nr| seed + nr as u64);
    for _ in 0..STEPS {
        for x in &mut chains {
            // The upper nine bits are below 512.
            *x = x.rotate_left(9).wrapping_add(table[(*x >> 55) as usize]);
        }
    }
    chains.iter().fold(0, |all, x| all ^ x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_is_not_optimised_away() {
        // A core of 10 GHz could not do a load, a rotation and an addition in less than a cycle.
        let speed = speed();
        assert!(speed > 0.0 && speed < 1e10, "{speed}");
    }
}
