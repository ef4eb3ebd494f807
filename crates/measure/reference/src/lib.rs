//! The current speed of the machine itself: of a CPU, from a loop that neither enters the kernel nor
//! uses memory, and of memory, from a loop that streams.
//!
//! On a shared host, on a laptop that gets warm, or under a frequency governor, the same core can
//! be five percent faster or slower a few minutes later, in everything alike. No number of rounds
//! within a run shows that: of ten identical runs, compared in all 45 pairs, 169 of 1440 points
//! differed. Each task therefore runs this loop before it starts, on its own CPU and at the same
//! time as the others. A comparison of two runs can then separate a slower machine from a slower
//! testcase. After a round, the loop runs again on the same CPUs, because a host may slow down in the
//! middle of a round.
//!
//! The loops have a crate of their own because every profile has to compile them alike. Otherwise, a
//! comparison would take the record of another build for one of a slower machine.
//!
//! ```
//! // Steps per second of CPU time. The unit means nothing; only ratios do.
//! let ratio = knee_reference::speed() / knee_reference::speed();
//! assert!(ratio.is_finite());
//! ```

use std::hint::black_box;
use std::thread;

use knee_host::affinity::pin;
use knee_host::clock::seconds;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};
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
pub fn speed() -> f64 {
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

/// [`speed`] on each of `cpus` at the same time, averaged. `None` if the loop cannot run on one of them.
pub fn speed_on(cpus: &[u32]) -> Option<f64> {
    let on = |cpu: u32| {
        pin(cpu).ok()?;
        Some(speed())
    };
    let sum: Option<f64> = thread::scope(|scope| {
        let start = |&cpu: &u32| thread::Builder::new().spawn_scoped(scope, move || on(cpu)).ok();
        let threads: Vec<_> = cpus.iter().map(start).collect();
        threads.into_iter().map(|thread| thread?.join().ok()?).sum()
    });
    Some(sum? / cpus.len() as f64).filter(|speed| speed.is_finite())
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

/// Bytes that all tasks read together: more than the last-level cache of most machines with few CPUs.
/// With less, the speed depends on how much of it stays in the cache.
const STREAMED: usize = 64 << 20;
/// Fewest bytes that a task reads: about its second-level cache. With more, memory could run out.
const STREAMED_AT_LEAST: usize = 2 << 20;
/// Bytes of a cache line; one word of each is read.
const LINE: usize = 64;

/// Bytes per second of CPU time that the calling thread reads from memory, while `readers` threads
/// do the same. `None` if there is no memory for it.
pub fn bandwidth(readers: usize) -> Option<f64> {
    let bytes = (STREAMED / readers).max(STREAMED_AT_LEAST);
    let memory = Streamed::map(bytes)?;
    let piece = memory.words().len() / TIMES;
    let mut times: Vec<f64> = memory
        .words()
        .chunks_exact(piece)
        .map(|words| {
            let before = seconds(ClockId::ThreadCPUTime);
            black_box(words.iter().step_by(LINE / size_of::<u64>()).fold(0, |all, x| all ^ x));
            seconds(ClockId::ThreadCPUTime) - before
        })
        .collect();
    times.sort_by(f64::total_cmp);
    Some((piece * size_of::<u64>()) as f64 / times[times.len() / 2])
}

/// Memory that has been written, and is unmapped when it is dropped.
struct Streamed {
    base: *mut u64,
    bytes: usize,
}

impl Streamed {
    fn map(bytes: usize) -> Option<Self> {
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no existing mapping is replaced.
        let base = unsafe {
            mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE).ok()?
        };
        // SAFETY: the range is the new mapping. Fewer page faults; without huge pages it only takes
        // longer.
        let _ = unsafe { madvise(base, bytes, Advice::LinuxHugepage) };
        // SAFETY: the mapping is private, writable and `bytes` long.
        unsafe { base.cast::<u8>().write_bytes(1, bytes) };
        Some(Self { base: base.cast(), bytes })
    }

    fn words(&self) -> &[u64] {
        // SAFETY: the mapping is page-aligned, initialised and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.base, self.bytes / size_of::<u64>()) }
    }
}

impl Drop for Streamed {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no reference to it outlives `self`.
        let _ = unsafe { munmap(self.base.cast(), self.bytes) };
    }
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

    #[test]
    fn the_loop_runs_on_the_cpus_that_exist() {
        assert!(speed_on(&knee_host::affinity::usable_cpus().unwrap()).unwrap() > 0.0);
        assert_eq!(speed_on(&[u32::MAX]), None);
        assert_eq!(speed_on(&[]), None);
    }

    #[test]
    fn memory_is_read_at_a_plausible_speed() {
        for readers in [1, 2, 64] {
            let bandwidth = bandwidth(readers).unwrap();
            // Under Miri or an emulator it is slow; no core reads a terabyte per second.
            assert!(bandwidth > 1e6 && bandwidth < 1e13, "{bandwidth}");
        }
    }
}
