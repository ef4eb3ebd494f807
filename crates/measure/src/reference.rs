//! How fast the CPU itself is just now: a loop that neither enters the kernel nor uses memory.
//!
//! A virtual machine on a shared host, a laptop that gets warm, a governor that changes its mind:
//! minutes apart the same core is five percent faster or slower, in everything it does alike. No
//! number of rounds within a run shows that, and ten identical runs, compared in all 45 pairs,
//! called 169 of 1440 points different. Each task therefore runs this loop before it starts, on
//! its own CPU and while the others do; whoever compares two runs can tell a machine that was
//! slower from a testcase that is.

use std::hint::black_box;

use rustix::time::{ClockId, clock_gettime};

/// Steps that are timed together: a tenth of a millisecond on a core of 4 GHz.
const STEPS: u64 = 100_000;
/// How often; odd, for the median. An interrupt hits one or two.
const TIMES: usize = 11;

/// Steps per second of CPU time of the calling thread, on the CPU where it is.
pub(crate) fn speed() -> f64 {
    let mut seconds: [f64; TIMES] = std::array::from_fn(|nr| {
        let before = cpu_seconds();
        black_box(chain(black_box(nr as u64)));
        cpu_seconds() - before
    });
    seconds.sort_by(f64::total_cmp);
    STEPS as f64 / seconds[TIMES / 2]
}

/// Multiplications that each wait for the one before (the generator of D. E. Knuth's MMIX): bound
/// by the clock of the core and by nothing else.
#[inline(never)]
fn chain(seed: u64) -> u64 {
    (0..STEPS).fold(seed, |x, _| {
        x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
    })
}

fn cpu_seconds() -> f64 {
    let t = clock_gettime(ClockId::ThreadCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chain_is_not_optimised_away() {
        // A core of 10 GHz would need four cycles a step.
        let speed = speed();
        assert!(speed > 0.0 && speed < 2.5e9, "{speed}");
    }
}
