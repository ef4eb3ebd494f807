//! How fast the CPU itself is just now: a loop that neither enters the kernel nor uses memory.
//!
//! A virtual machine on a shared host, a laptop that gets warm, a governor that changes its mind:
//! minutes apart the same core is five percent faster or slower, in everything it does alike. No
//! number of rounds within a run shows that, and ten identical runs, compared in all 45 pairs,
//! called 169 of 1440 points different. Each task therefore runs this loop before it starts, on
//! its own CPU and while the others do; whoever compares two runs can tell a machine that was
//! slower from a testcase that is.

use std::hint::black_box;

use knee_host::clock::seconds;
use rustix::time::ClockId;

/// Steps that are timed together: a tenth of a millisecond on a core of 4 GHz.
const STEPS: usize = 14_000;
/// How often; odd, for the median. An interrupt hits one or two.
const TIMES: usize = 11;
/// Chains that do not wait for each other: enough to keep a wide core busy.
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

/// Several walks through a table at once, each step of which depends on the one before. One alone
/// would show the clock of the core only; several also feel a neighbour on its other thread, which
/// takes execution units away from everything that runs here.
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
